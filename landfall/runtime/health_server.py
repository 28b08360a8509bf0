"""The `/healthz` of a process that serves nothing else."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from landfall.system.http_headers import DATA_HEADERS
from landfall.system.listen_address import listening
from landfall.system.settings_table import WithCertificate
from landfall.transport.tls import Shown, showing
from streams.model.errors import Misuse

RENEWED_S = ASKED_WITHIN_S = 10.0
log = logging.getLogger(__name__)
NO_CERTIFICATE = WithCertificate()
Health = Callable[[], tuple[bool, dict[str, Any]]]
"""A function that returns whether the process is well, and its report on itself (a JSON object)."""


@contextmanager
def serve_health(host: str, port: int, health: Health, files: WithCertificate = NO_CERTIFICATE) -> Iterator[int]:
    """Answer `GET /healthz` on `host:port` while the block runs, with the object of `health`: 200 when `health` is well, else 503. Yield
    the port.

    Port 0 lets the system choose. With a certificate it speaks TLS alone; a replaced certificate is used within RENEWED_S. Raises Misuse
    when the address can not be had, or the certificate does not load.
    """
    shown = showing("/healthz", files.tls_certificate, files.tls_key)
    with listening("/healthz", host, port):
        server = (_Server6 if ":" in host else _Server)((host, port), _handler(health), shown)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="health", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    """A server of `/healthz`, over TLS where it has a certificate. Each handshake is made in the thread of its own connection."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], shown: Shown | None) -> None:
        super().__init__(address, handler)
        self._shown, self._looked_s = shown, 0.0

    def get_request(self) -> tuple[Any, Any]:
        accepted, peer = super().get_request()
        if self._shown is None:
            return accepted, peer
        accepted.settimeout(ASKED_WITHIN_S)
        self._renew(self._shown)
        return self._shown.context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False), peer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that goes away, or does not speak TLS where the door does: that is no fault of this process."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError | ssl.SSLError):
            super().handle_error(request, client_address)

    def _renew(self, shown: Shown) -> None:
        if time.monotonic() - self._looked_s < RENEWED_S:
            return
        self._looked_s = time.monotonic()
        try:
            shown.renew()
        except Misuse as problem:
            log.warning("the certificate of /healthz is not renewed: %s", problem)


class _Server6(_Server):
    """A server at an IPv6 address."""

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
            """Log nothing: a health check is no news."""

    return Handler
