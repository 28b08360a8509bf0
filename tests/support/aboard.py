"""A real ship's process, its settings, and a gateway that publishes until everything is acknowledged, through any number of kills."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from cargo.loss.reading_rows import Heard
from tests.support.credentials import PASSWORD, allow_crew
from tests.support.pahoclients import close
from tests.support.ports import free_port
from tests.support.process import NodeProcess, wait
from tests.support.sea import SHIP

NODE = f"ship-{SHIP}"
TOKEN = "of-the-ship"
CREW = {"master": "Master Moe", "mate": "Mate Meyer"}
"""Who may log in at the console, all with the same password: by user name, as it is written down."""
ANSWERS_WITHIN_S = 60.0
"""Only a node that hangs takes longer."""
Message = tuple[str, bytes]


def login(user: str, folder: Path) -> tuple[str, str, str, str]:
    """The words with which `user` logs in from the command line; the password lies in a file below `folder`."""
    file = folder / "password"
    file.write_text(f"{PASSWORD}\n")
    return "--user", user, "--password-file", str(file)


class ShipProcess(NodeProcess):
    """`landfall ship` in `folder`; `more`: further settings."""

    def __init__(self, folder: Path, more: str = "", clock: str = "wall", endpoint: bool = True, identity: str = SHIP) -> None:
        self.mqtt_port = free_port()
        listens = f'[intake.endpoint]\nport = {self.mqtt_port}\nanonymous_publish = ["landfall/#"]\n' if endpoint else ""
        settings = (
            f'[node]\nnode = "{NODE}"\nrole = "ship"\nidentity = "{identity}"\nfolder = "{folder / "ship"}"\n'
            f'port = {{port}}\nclock = "{clock}"\n{listens}{more}'
        )
        super().__init__(folder, "ship", NODE, TOKEN, settings)
        for user, name in CREW.items():
            allow_crew(folder / "ship", user, name)

    def ready(self) -> bool:
        """Whether its door answers and its sensors are let in."""
        return self.status() is not None

    def status(self) -> dict[str, Any] | None:
        """What `GET /ship` says; None while it does not answer."""
        request = urllib.request.Request(f"{self.url}/ship", headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=ANSWERS_WITHIN_S) as answer:
                told: dict[str, Any] = json.load(answer)
                return told
        except (urllib.error.URLError, OSError):
            return None


@contextmanager
def ship(folder: Path, more: str = "", clock: str = "wall", endpoint: bool = True, identity: str = SHIP) -> Iterator[ShipProcess]:
    """A ship that is killed at the end whatever happens; not started yet."""
    process = ShipProcess(folder, more, clock, endpoint, identity)
    try:
        yield process
    finally:
        process.kill()


class Gateway:
    """A paho client that publishes at QoS 1 and connects again at once: what is not acknowledged it brings again."""

    def __init__(self, port: int, messages: Sequence[Message] = ()) -> None:
        self._first = messages
        self._mids: set[int] = set()
        self._acknowledged: set[int] = set()
        self._lock = threading.Lock()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, f"gateway-{port}", clean_session=False, protocol=mqtt.MQTTv311)
        self.client.max_inflight_messages_set(50)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_publish = self._published
        self.client.connect_async("127.0.0.1", port)

    def __enter__(self) -> Gateway:
        self.publish(self._first)
        self.client.loop_start()
        return self

    def publish(self, messages: Sequence[Message]) -> None:
        """Publish these too, in order, as soon as may be."""
        mids = {self.client.publish(topic, payload, 1).mid for topic, payload in messages}
        with self._lock:
            self._mids |= mids

    def __exit__(self, *_: object) -> None:
        close(self.client)

    def done(self) -> bool:
        """Whether everything is acknowledged."""
        with self._lock:
            return self._mids <= self._acknowledged

    def _published(self, _: mqtt.Client, __: Any, mid: int, ___: ReasonCode, ____: Any) -> None:
        with self._lock:
            self._acknowledged.add(mid)


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


@contextmanager
def fleet_clock(fleet_at_ms: int | Callable[[], int]) -> Iterator[str]:
    """A fleet clock over HTTP that stands at `fleet_at_ms`, or at what that says whenever it is asked; its URL."""
    at_ms = fleet_at_ms if callable(fleet_at_ms) else lambda: fleet_at_ms

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"wall_at_ms": 0, "fleet_at_ms": at_ms(), "speed": 0.0}).encode()
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
