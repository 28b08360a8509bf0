"""A real ship's process, its settings, and a gateway that publishes until everything is acknowledged, through any number of kills."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from cargo.heard import Heard
from streams.crash import CRASH_VARIABLE
from streams.link.door import AppendDoor, ReadDoor
from tests.cargo.sea import SHIP

ROOT = Path(__file__).resolve().parents[2]
NODE = f"ship-{SHIP}"
TOKEN = "of-the-ship"
DEADLINE_S = 30.0
Message = tuple[str, bytes]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ShipProcess:
    """`landfall ship` in `folder`, started and killed as often as a test likes; its ports stay the same."""

    def __init__(self, folder: Path, more: str = "", clock: str = "wall", endpoint: bool = True) -> None:
        self.door_port, self.mqtt_port = free_port(), free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "ship.toml"
        listens = f'[intake.endpoint]\nport = {self.mqtt_port}\nanonymous_publish = ["landfall/#"]\n' if endpoint else ""
        self._config.write_text(
            f'[node]\nnode = "{NODE}"\nrole = "ship"\nidentity = "{SHIP}"\nfolder = "{folder / "ship"}"\n'
            f'port = {self.door_port}\ntoken = "{TOKEN}"\nclock = "{clock}"\n{listens}{more}'
        )
        self.url = f"http://127.0.0.1:{self.door_port}"
        self.read = ReadDoor(self.url, TOKEN)
        self.append = AppendDoor(self.url, TOKEN)

    def start(self, crash_at: str = "") -> None:
        """Start it; with `crash_at` it kills itself at that passage of that commit point."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LANDFALL_")}
        if crash_at:
            environment[CRASH_VARIABLE] = crash_at
        with (self._folder / "ship.log").open("ab") as log:
            command = [sys.executable, "-m", "landfall", "ship", "-c", str(self._config)]
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)

    def wait_ready(self) -> None:
        """Returns once its door answers and its sensors are let in."""
        wait(lambda: self.status() is not None, self.tail)

    def dead(self) -> bool:
        """Whether it has been killed, by itself or by us."""
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(DEADLINE_S)

    def status(self) -> dict[str, Any] | None:
        """What `GET /ship` says; None while it does not answer."""
        request = urllib.request.Request(f"{self.url}/ship", headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                told: dict[str, Any] = json.load(answer)
                return told
        except (urllib.error.URLError, OSError):
            return None

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Everything in `stream`."""
        request = urllib.request.Request(f"{self.url}/read/{stream}?limit=100000", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return [json.loads(line) for line in answer]

    def tail(self) -> str:
        """The end of its log, for a test that fails."""
        return (self._folder / "ship.log").read_text()[-3_000:]


@contextmanager
def ship(folder: Path, more: str = "", clock: str = "wall", endpoint: bool = True) -> Iterator[ShipProcess]:
    """A ship that is killed at the end whatever happens; not started yet."""
    process = ShipProcess(folder, more, clock, endpoint)
    try:
        yield process
    finally:
        process.kill()


class Gateway:
    """A paho client that publishes at QoS 1 and connects again at once: what is not acknowledged it brings again."""

    def __init__(self, port: int, messages: Sequence[Message]) -> None:
        self._waiting = list(messages)
        self._mids: set[int] = set()
        self._lock = threading.Lock()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, "gateway", clean_session=False, protocol=mqtt.MQTTv311)
        self.client.max_inflight_messages_set(50)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_publish = self._published
        self.client.connect_async("127.0.0.1", port)

    def __enter__(self) -> Gateway:
        self._mids = {self.client.publish(topic, payload, 1).mid for topic, payload in self._waiting}
        self.client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def done(self) -> bool:
        """Whether everything is acknowledged."""
        with self._lock:
            return not self._mids

    def _published(self, _: mqtt.Client, __: Any, mid: int, ___: ReasonCode, ____: Any) -> None:
        with self._lock:
            self._mids.discard(mid)


def publish_all(port: int, messages: Sequence[Message], told: Callable[[], str]) -> None:
    """Publish, in order, and return once everything is acknowledged."""
    with Gateway(port, messages) as gateway:
        wait(gateway.done, told)


def message(heard: Heard) -> Message:
    """A reading of the test's sea as its device publishes it."""
    payload = json.dumps({"device": heard.device, "at": heard.device_at_ms, **heard.signals}).encode()
    if "." in heard.topic:
        return f"landfall/ships/{heard.topic.replace('.', '/')}", payload
    return f"landfall/containers/{heard.topic}/reading", payload


def wait(true: Callable[[], bool], told: Callable[[], str] = str, deadline_s: float = DEADLINE_S) -> None:
    """Returns once `true()`; fails with what `told` after the deadline."""
    end = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end, f"not within {deadline_s} s\n{told()}"
        time.sleep(0.02)


@contextmanager
def fleet_clock(fleet_at_ms: int) -> Iterator[str]:
    """A fleet clock over HTTP that stands at `fleet_at_ms`; its URL."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"wall_at_ms": 0, "fleet_at_ms": fleet_at_ms, "speed": 0.0}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/clock"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
