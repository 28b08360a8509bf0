"""MQTT servers as an operator would run them, to be killed: Mosquitto, NATS, and a ship's node, each with its folder on a disk of ours."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.request import Request, urlopen

import orjson
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.mqtt import mosquitto_binary
from bench.nats import nats_binary, nats_client
from streams.model.identifiers import Position
from tests.support.pahoclients import close
from tests.support.ports import free_port
from tests.support.process import NodeProcess, wait

ROOT = Path(__file__).resolve().parents[1]
STARTED_WITHIN_S = 120.0
QUIET_S = 3.0
"""A broker that has said nothing more for so long has nothing more."""
BOX, DEVICE = "MSKU1234565", "TRK-1"
TOPIC = f"landfall/containers/{BOX}/reading"
AT_MS = 1_777_593_600_000
SHIP, TOKEN = "9321483", "of-the-ship"
MQTT_STREAM = "$MQTT_msgs"
PAGE = 100_000
BEST = "max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\nautosave_interval 1\n"
"""What docs/guide/mqtt.md asks of a Mosquitto."""
EACH_CHANGE = BEST + "autosave_on_changes true\n"


def reading(number: int) -> bytes:
    """The payload of a reading: its number is in its time."""
    return orjson.dumps({"device": DEVICE, "at": AT_MS + 1_000 * number, "return_c": number % 400 / 10})


def number_of(at_ms: int) -> int:
    """Which reading has this time."""
    return (at_ms - AT_MS) // 1_000


class Server(Protocol):
    """One that can be killed and started again; it listens for MQTT at `port`."""

    port: int

    def start(self) -> None:
        """Start it; returns once it lets clients in. Raises TimeoutError."""
        ...

    def launch(self) -> None:
        """Start it without waiting for it."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...

    def fetch(self) -> None:
        """It runs: have brought what it brings only as long as it is fetched."""
        ...

    def end(self) -> None:
        """End everything that still runs concurrently with the server."""
        ...

    def found(self) -> Counter[int]:
        """It runs, and the last was fetched: how often each reading is there, since the beginning."""
        ...


class Program:
    """A program that is started with `command`; what it says goes to `words`."""

    def __init__(self, command: Sequence[str], words: Path) -> None:
        self._command, self._words = command, words
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self._words.open("ab") as words:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=words, stderr=words)

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL; returns once it is dead."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def started(process: Program, is_up: Callable[[], bool], words: Path) -> None:
    """Starts it; returns once it `is_up`. Raises TimeoutError with its last `words`."""
    process.start()
    deadline_s = time.monotonic() + STARTED_WITHIN_S
    while not is_up():
        if time.monotonic() > deadline_s or not process.alive():
            raise TimeoutError(f"it does not start:\n{words.read_text()[-2_000:]}")
        time.sleep(0.01)


class Subscribed:
    """A broker with one subscriber, which has a persistent session and is away while readings come; what it was brought counts."""

    def __init__(self, command: Sequence[str], folder: Path, port: int) -> None:
        self._words, self.port = folder / "words.log", port
        self._process = Program(command, self._words)
        self._brought: Counter[int] = Counter()

    def start(self) -> None:
        """See Server; the subscriber has its session then."""
        started(self._process, self._answers, self._words)
        self._subscriber(collecting=False)

    def launch(self) -> None:
        """See Server."""
        self._process.start()

    def kill(self) -> None:
        """See Server."""
        self._process.kill()

    def end(self) -> None:
        """See Server: nothing does."""

    def fetch(self) -> None:
        """See Server."""
        self._subscriber(collecting=True)

    def found(self) -> Counter[int]:
        """See Server."""
        return self._brought

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as client:
                client.settimeout(1)
                client.sendall(b"\x10\x0e\0\4MQTT\4\2\0\x3c\0\2up")
                return client.recv(4) == b"\x20\2\0\0"
        except OSError:
            return False

    def _subscriber(self, *, collecting: bool) -> None:
        """One stay of the subscriber: until its subscription stands, or until nothing more comes."""
        client = mqtt.Client(CallbackAPIVersion.VERSION2, "collector", clean_session=False, protocol=mqtt.MQTTv311)
        heard_s, subscribed = time.monotonic(), False

        def brought(_: mqtt.Client, __: Any, message: mqtt.MQTTMessage) -> None:
            nonlocal heard_s
            heard_s = time.monotonic()
            self._brought[number_of(orjson.loads(message.payload)["at"])] += 1

        def stands(*_: object) -> None:
            nonlocal subscribed
            subscribed = True

        client.on_message, client.on_subscribe = brought, stands
        client.connect("127.0.0.1", self.port)
        client.subscribe(TOPIC, qos=1)
        while not subscribed or (collecting and time.monotonic() - heard_s < QUIET_S):
            client.loop(0.05)
        close(client)


class Stored(Subscribed):
    """A NATS server: what is in the stream of its MQTT messages counts, and what its subscriber was brought while it subscribed."""

    def __init__(self, command: Sequence[str], folder: Path, port: int, client_port: int) -> None:
        super().__init__(command, folder, port)
        self._client_port = client_port

    def fetch(self) -> None:
        """See Server: nothing need be."""

    def found(self) -> Counter[int]:
        """See Server."""
        client = nats_client(self._client_port)
        state = client.ask(f"$JS.API.STREAM.INFO.{MQTT_STREAM}", {})["state"]
        found: Counter[int] = Counter()
        for sequence in range(state["first_seq"], state["last_seq"] + 1):
            with suppress(RuntimeError):  # there is none of this number
                stored = client.ask(f"$JS.API.STREAM.MSG.GET.{MQTT_STREAM}", {"seq": sequence})["message"]
                found[number_of(orjson.loads(base64.b64decode(stored["data"]))["at"])] += 1
        client.close()
        for number in self._brought:
            found.setdefault(number, 1)
        return found


def mosquitto(folder: Path, settings: str) -> Subscribed:
    """A Mosquitto with persistence in `folder`, as Debian sets it up, and `settings`."""
    port, config = free_port(), folder.with_suffix(".conf")
    usual = f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\npersistence true\npersistence_location {folder}/\n"
    config.write_text(usual + settings)
    return Subscribed([mosquitto_binary(), "-c", str(config)], folder.parent, port)


def versions() -> dict[str, str]:
    """Of Mosquitto and of NATS, as they say it themselves."""
    said = {"mosquitto": [mosquitto_binary(), "-h"], "nats": [nats_binary(), "-v"]}
    first = {
        name: subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()[0] for name, command in said.items()
    }
    return {name: line.split()[-1].lstrip("v") for name, line in first.items()}


def nats(folder: Path, sync: str) -> Stored:
    """A NATS server with MQTT, its JetStream in `folder`, synced as `sync` says."""
    port, client_port, config = free_port(), free_port(), folder.with_suffix(".conf")
    config.write_text(
        f'listen: "127.0.0.1:{client_port}"\nserver_name: losses\njetstream {{ store_dir: "{folder}", {sync} }}\n'
        f'mqtt {{ listen: "127.0.0.1:{port}", max_ack_pending: 10000 }}\n'
    )
    return Stored([nats_binary(), "-c", str(config)], folder.parent, port, client_port)


class Ship:
    """`landfall ship` with its endpoint."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.port = free_port()
        more = more or f'[intake.endpoint]\nport = {self.port}\nanonymous_publish = ["landfall/#"]\n'
        settings = f'[node]\nnode = "ship"\nrole = "ship"\nidentity = "{SHIP}"\nfolder = "{folder / "node"}"\nport = {{port}}\n{more}'
        self._node = NodeProcess(folder.with_name(f"{folder.name}-settings"), "ship", "ship", TOKEN, settings)

    def start(self) -> None:
        """See Server."""
        self.launch()
        self._until(self._is_ready)

    def launch(self) -> None:
        """See Server."""
        self._node.start()

    def kill(self) -> None:
        """See Server."""
        self._node.kill()

    def end(self) -> None:
        """See Server: nothing does."""

    def fetch(self) -> None:
        """See Server: nothing need be."""

    def found(self) -> Counter[int]:
        """See Server: count what is in the ship's log."""
        found: Counter[int] = Counter()
        position = Position()
        while rows := list(self._node.read.read("containers", position, PAGE)):
            for row in rows:
                if (row["topic"], row["device"]) == (BOX, DEVICE):
                    found[number_of(row["device_at_ms"])] += 1
                position = position.advanced(row["origin"], row["offset"] + 1)
        return found

    def _is_ready(self) -> bool:
        return self._node.ready()

    def _until(self, true: Callable[[], bool]) -> None:
        wait(true, self._node.tail, STARTED_WITHIN_S)


class Behind(Ship):
    """`landfall ship` that subscribes at a Mosquitto with Mosquitto's best settings. Mosquitto continues when the ship is killed."""

    def __init__(self, folder: Path, broker: Path | None = None) -> None:
        broker = broker or folder.with_name(f"{folder.name}-broker")
        broker.mkdir(exist_ok=True)
        self._broker = mosquitto(broker, BEST)
        self._broker.start()
        super().__init__(folder, f'[intake.broker]\nport = {self._broker.port}\nclient_id = "ship"\n')
        self.port = self._broker.port

    def _is_ready(self) -> bool:
        """Return whether the ship's subscription stands. Nobody receives what comes before the first subscription."""
        try:
            with urlopen(Request(f"{self._node.url}/ship", headers={"Authorization": f"Bearer {TOKEN}"}), timeout=10) as answer:
                return bool(orjson.loads(answer.read())["intake"]["broker_connected"])
        except OSError:
            return False

    def found(self) -> Counter[int]:
        """See Server, once nothing more has come for a while."""
        before, found = -1, super().found()
        while len(found) > before:
            time.sleep(QUIET_S)
            before, found = len(found), super().found()
        return found

    def end(self) -> None:
        """The broker ends too."""
        self._broker.kill()


class Before(Behind):
    """The same, where the broker is what is killed, and the disk its own; the ship goes on."""

    def __init__(self, folder: Path) -> None:
        ship = folder.with_name(f"{folder.name}-ship")
        ship.mkdir()
        super().__init__(ship, broker=folder)
        self._node.start()
        self._until(self._is_ready)

    def start(self) -> None:
        """See Server: the ship has missed the broker and found it again then.

        Nobody receives what comes before the ship has a session at the broker.
        """
        self._broker.kill()
        self._until(lambda: not self._is_ready())
        self._broker.start()
        self._until(self._is_ready)

    def launch(self) -> None:
        """See Server."""
        self._broker.launch()

    def kill(self) -> None:
        """See Server."""
        self._broker.kill()

    def end(self) -> None:
        """The ship ends too."""
        self._node.kill()
