"""Measure a broker's time until durable: from a publish at Mosquitto until the ship behind it has the reading on disk, or on the disks
of both its nodes.

`python -m bench.brokered [seconds]`. Each way for so long (10), at each of RATES readings a second from one publisher: Mosquitto with its
best settings (docs/guide/mqtt.md) before a ship's intake alone, as `bench.mqtt` has it on one core; before `landfall ship` with its watch
and all else; and before two of them with a shared subscription and `ack = "two_nodes"`. A reading is durable when its node's PUBACK to
the broker passes a relay between the two: nodes send it after their commit, and after the other node's. The bound of the same run: a
subscriber in the ship's place that stores nothing and acknowledges at once, and one `fdatasync` of 512 B, or two, added to it. On the
cores there are; prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.mqtt import packet_end, receiver
from bench.mqttload import messages
from bench.mqttservers import BEST, mosquitto
from bench.results import Measured, write
from tests.support.aboard import TOKEN
from tests.support.ports import free_port
from tests.support.process import DEADLINE_S, wait
from tests.support.two_nodes import ShipNode

RATES = 1_000, 10_000
STEP_S = 0.005
WARM_S = 2
"""What is published in the first seconds is not counted."""
DURABLE_WITHIN_S = 180.0
"""So long after the last was published; then the run fails."""
SYNCS = 200
ALONE = "its intake alone"
WAYS = {"nothing stored": 0, ALONE: 1, "one node": 1, "two nodes": 2}
"""Each way: on how many disks a reading is to be."""
SHARED = tuple(f"$share/ship/landfall/{one}" for one in ("containers/+/reading", "ships/+/location", "ships/+/environment"))


class Tap:
    """A relay before the broker at `target`, which gives `noted` the number of each reading whose acknowledgement passes. `number_of`
    gives that of a PUBLISH less its packet identifier; None of what is no reading. Connections made while the broker is away are closed."""

    def __init__(self, target: int, number_of: Callable[[bytes], int | None], noted: Callable[[int], None]) -> None:
        self._target, self._number_of, self._noted = target, number_of, noted
        self.port = free_port()

    async def __aenter__(self) -> Tap:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()  # and no `wait_closed`: from Python 3.12 on it waits for those who are still connected

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: defaultdict[bytes, deque[int | None]] = defaultdict(deque)
        """By identifier. During a flood more than 65,535 messages are under way, and Mosquitto gives one identifier to several messages."""

        def given(packet: bytes, body: int) -> None:
            if packet[0] & 0xF6 == 0x32:
                id_, said = parted(packet, body)
                waiting[id_].append(self._number_of(said))

        def answered(packet: bytes, body: int) -> None:
            if packet[0] == 0x40 and (numbers := waiting[packet[body : body + 2]]):
                number = numbers.popleft()
                if number is not None:
                    self._noted(number)

        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        with suppress(asyncio.CancelledError):  # the run is over: asyncio's server would report the cancellation as an error
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, broker_writer, answered))
                both.create_task(_pump(broker_reader, writer, given))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes, int], None]) -> None:
    heard = b""
    with suppress(ConnectionError):
        while data := await reader.read(1 << 18):
            heard, at = heard + data, 0
            while (end := packet_end(heard, at)) is not None:
                body, until = end
                note(heard[at:until], body - at)
                at = until
            heard = heard[at:]
            writer.write(data)
            await writer.drain()
    writer.close()


def parted(publish: bytes, body: int) -> tuple[bytes, bytes]:
    """The packet identifier of a PUBLISH at QoS 1, and all else: its topic and payload."""
    id_at = body + 2 + int.from_bytes(publish[body : body + 2], "big")
    return publish[id_at : id_at + 2], publish[body:id_at] + publish[id_at + 2 :]


async def publish(port: int, packets: Sequence[bytes], per_s: int) -> list[float]:
    """Publish so many a second; the seconds (`time.perf_counter`) at which each was due."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x10\x0f\0\4MQTT\4\2\x0e\x10\0\3own")
    await reader.readexactly(4)
    answers = asyncio.create_task(reader.readexactly(4 * len(packets)))
    began_s, step, due = time.perf_counter(), max(1, round(per_s * STEP_S)), list[float]()
    for at in range(0, len(packets), step):
        due_s = began_s + at / per_s
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        writer.write(b"".join(packets[at : at + step]))
        due += [due_s] * len(packets[at : at + step])
    await answers
    writer.close()
    return due


def behind_broker(folder: Path, disks: int, port: int) -> list[ShipNode]:
    """One `landfall ship` that subscribes at the broker at `port`, or two that share a subscription; not started."""
    names = ("bridge", "engine")[:disks]
    doors = {name: free_port() for name in names}
    nodes = [ShipNode(folder, name, doors) for name in names]
    for node in nodes:
        filters = f'filters = {json.dumps(SHARED)}\nstands_in_for = ["{names[node.node == names[0]]}"]\n' if disks > 1 else ""
        usual = node.config.read_text().partition("[intake.endpoint]")[0]
        ack = usual if disks > 1 else usual.replace('"two_nodes"', '"local"')
        node.config.write_text(f'{ack}[intake.broker]\nport = {port}\nclient_id = "{node.node}"\n{filters}')
    return nodes


@contextmanager
def ships(nodes: Sequence[ShipNode], within_s: float = DEADLINE_S) -> Iterator[None]:
    """They run, have subscribed, and found each other, each within so long; killed in the end."""
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.kill)
            node.start()
        for node in nodes:
            wait(partial(_is_in, node, len(nodes)), node.tail, within_s)
        yield


def _is_in(node: ShipNode, disks: int) -> bool:
    """Whether its subscription stands, and it is in session with the other, if there is one."""
    request = urllib.request.Request(f"{node.url}/ship", headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            subscribed = bool(json.load(answer)["intake"]["broker_connected"])
    except OSError:
        return False
    return subscribed and sum(link["open"] for link in node.read.health()["peers"].values()) == disks - 1


def _behind(way: str, folder: Path, port: int) -> AbstractContextManager[object]:
    """Who subscribes at the broker at `port`."""
    if way == ALONE:
        return receiver("serve", "broker", str(folder / "intake"), str(port))
    return ships(behind_broker(folder, WAYS[way], port)) if WAYS[way] else receiver("subscribe", str(port))


async def waited_ms(folder: Path, way: str, per_s: int, packets: Sequence[bytes]) -> list[float]:
    """How long each reading was on its way, in order."""
    numbers = {parted(packet, (packet_end(packet, 0) or (0, 0))[0])[1]: n for n, packet in enumerate(packets)}
    durable_at_s: dict[int, float] = {}
    all_durable = asyncio.Event()

    def noted(number: int) -> None:
        durable_at_s.setdefault(number, time.perf_counter())
        if len(durable_at_s) == len(numbers):
            all_durable.set()

    broker = mosquitto(folder / "broker", BEST)
    await asyncio.to_thread(broker.start)
    try:
        async with Tap(broker.port, numbers.get, noted) as tap:
            behind = _behind(way, folder, tap.port)
            await asyncio.to_thread(behind.__enter__)
            try:
                async with asyncio.timeout(len(packets) / per_s + DURABLE_WITHIN_S):
                    due_s = await publish(broker.port, packets, per_s)
                    await all_durable.wait()
            finally:
                await asyncio.to_thread(behind.__exit__, None, None, None)
    finally:
        await asyncio.to_thread(broker.kill)
    return [(durable_at_s[n] - at_s) * 1_000 for n, at_s in enumerate(due_s)]


def sync_ms(folder: Path) -> list[float]:
    """How long `fdatasync` takes after 512 B more, SYNCS times."""
    took = []
    with (folder / "synced").open("ab", buffering=0) as file:
        for _ in range(SYNCS):
            began_s = time.perf_counter()
            file.write(bytes(512))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began_s) * 1_000)
    return took


def main(seconds: int = 10) -> None:
    """Measures and prints."""
    results: dict[str, Any] = {"bench": "brokered", "machine": machine(), "seconds": seconds}
    packets = messages(max(RATES) * (WARM_S + seconds))
    with tempfile.TemporaryDirectory(prefix="bench-brokered-") as name:
        for per_s in RATES:
            took, synced = dict[str, list[float]](), sync_ms(Path(name))
            for way in WAYS:
                folder = Path(name) / f"{way}-{per_s}"
                (folder / "broker").mkdir(parents=True)
                waited = asyncio.run(waited_ms(folder, way, per_s, packets[: per_s * (WARM_S + seconds)]))
                took[way] = waited[per_s * WARM_S :]
            synced = statistics.quantiles(synced + sync_ms(Path(name)), n=100)
            at = {way: statistics.quantiles(waited, n=100) for way, waited in took.items()}
            results[f"{per_s} a second"] = {
                f"p{percent}_ms": {
                    "nothing stored": round(at["nothing stored"][percent - 1], 2),
                    "fdatasync": round(synced[percent - 1], 2),
                    **{
                        way: {
                            "until durable": round(at[way][percent - 1], 2),
                            "of the bound": round(
                                at[way][percent - 1] / (at["nothing stored"][percent - 1] + disks * synced[percent - 1]), 2
                            ),
                        }
                        for way, disks in WAYS.items()
                        if disks
                    },
                }
                for percent in (50, 99)
            }
    print(json.dumps(results | {"load_1_min_after": round(os.getloadavg()[0], 1)}, indent=1))
    p99 = results[f"{max(RATES)} a second"]["p99_ms"]
    waited = [p99[way]["until durable"] for way in (ALONE, "one node")]
    bound = f"nothing stored {p99['nothing stored']} ms; fdatasync {p99['fdatasync']} ms"
    write("brokered", {"durable": Measured("; ".join(map(str, waited)) + " ms", max(waited) <= 100, bound)})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
