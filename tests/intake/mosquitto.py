"""A real Mosquitto for tests: started on a port of its own, killed and started again as a test likes."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_port

STARTED_WITHIN_S = 60.0
MESSAGE_BYTES_MAX = 1 << 20
"""As in `deploy/mosquitto/mosquitto.conf`."""
CONNECT = bytes((0x10, 12, 0, 4)) + b"MQTT" + bytes((4, 2, 0, 60, 0, 0))
"""An MQTT 3.1.1 CONNECT without a client id or a login."""


class Mosquitto:
    """The broker with the settings `intake.broker` asks for: it keeps whatever its subscribers have not acknowledged."""

    def __init__(self, folder: Path, more: str = "", anonymous: bool = True) -> None:
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous {str(anonymous).lower()}\nmax_queued_messages 0\nmax_inflight_messages 0\n"
            f"set_tcp_nodelay true\nmessage_size_limit {MESSAGE_BYTES_MAX}\n"
            f"persistence true\npersistence_location {folder}/\nautosave_interval 1\nuser root\n{more}"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns once it answers: a SIGTERM between its first listening and its first round is lost."""
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}  # where Debian keeps it
        self._process = subprocess.Popen(["mosquitto", "-c", str(self._config)], env=environment, stderr=subprocess.DEVNULL)
        end = time.monotonic() + STARTED_WITHIN_S
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), STARTED_WITHIN_S) as connection:
                    connection.sendall(CONNECT)
                    connection.recv(4)
                return
            except OSError:
                assert time.monotonic() < end, "mosquitto does not answer"
                time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL; returns once it is dead."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End it in good order: its state is on disk."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


@contextmanager
def mosquitto(folder: Path, more: str = "", anonymous: bool = True) -> Iterator[Mosquitto]:
    """A running Mosquitto; `more`: further settings."""
    broker = Mosquitto(folder, more, anonymous)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
