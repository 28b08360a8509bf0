"""A process's `/healthz`, for processes that serve nothing else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streams.listening import listening
from streams.webheaders import DATA_HEADERS

Health = Callable[[], tuple[bool, dict[str, Any]]]
"""Whether the process is well, and what it says of itself (a JSON object)."""


@contextmanager
def serve_health(host: str, port: int, health: Health) -> Iterator[int]:
    """While the block runs, `GET /healthz` on `host:port` answers 200 when `health` says so, else 503, with its object; gives the port.

    Port 0 lets the system choose. Raises Misuse when the address can not be had.
    """
    with listening("/healthz", host, port):
        server = (_Server6 if ":" in host else ThreadingHTTPServer)((host, port), _handler(health))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="health", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server6(ThreadingHTTPServer):
    """At an IPv6 address."""

    address_family = socket.AF_INET6


def _handler(health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/healthz":
                self.send_error(404)
                return
            well, said = health()
            answer = json.dumps(said).encode()
            self.send_response(200 if well else 503)
            for name, value in (DATA_HEADERS | {"Content-Type": "application/json"}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a health check is no news."""

    return Handler
