"""Goal: a will is on the disk before its client hears that it is let in, so that a killed node publishes it once when it is back."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import intake.mqtt.will_store
from bench.ports import free_port
from intake.endpoint import WILLS_FILE
from intake.mqtt.connect_packet import Will
from intake.mqtt.packets import packet
from intake.mqtt.will_store import LastWill, LastWords
from landfall.storage.disk import Disk
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics
from tests.cargo.sea import SHIP
from tests.edge.aboard import ship
from tests.intake.stand import OPEN, eventually, stand
from tests.intake.test_clean_stop import LEAVES, connect, numbers
from tests.intake.test_endpoint import ask
from tests.node.points import WILLED
from tests.node.process import NodeProcess, wait
from tests.streams.cutdisk import CutDisk

COMES_BACK = packet(0x10, b"\0\4MQTT\5\0\0\x3c\5\x11\0\0\x0e\x10\0\2" + b"04")
HOUR_S = 3_600


def will(number: int, payload: bytes = b"{}") -> LastWill:
    return LastWill("gw", f"client-{number}", "login gw", 0, True, Will(b"landfall/x", payload, 1))


def words(path: Path, disk: Disk | None = None) -> LastWords:
    return LastWords(path, Metrics("ship"), disk)


class CountedDisk(Disk):
    """Counts how often it is synced; full while it `refuses`."""

    def __init__(self) -> None:
        self.syncs, self.refuses = 0, False

    def write(self, descriptor: int, data: bytes) -> None:
        if self.refuses:
            raise OSError(28, "No space left on device")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        super().sync(descriptor)


class SlowDisk(Disk):
    """A sync takes until it is told to go on."""

    def __init__(self) -> None:
        self.reached, self.goes_on = threading.Event(), threading.Event()

    def sync(self, descriptor: int) -> None:
        self.reached.set()
        self.goes_on.wait()
        super().sync(descriptor)


def connected(port: int) -> socket.socket:
    """A connection to the endpoint of a node, whose own door may answer before that listens."""
    made: list[socket.socket] = []

    def taken() -> bool:
        with suppress(ConnectionRefusedError):
            made.append(socket.create_connection(("127.0.0.1", port)))
        return bool(made)

    wait(taken)
    return made[0]


def welcomed(port: int, hello: bytes) -> socket.socket:
    """A client that was let in."""
    client = connected(port)
    client.sendall(hello)
    assert client.recv(1_024)[0] == 0x20
    return client


def test_killed_a_ship_publishes_once_the_will_of_each_that_does_not_come_back(tmp_path: Path) -> None:
    """Killed again when those due at once are in its log and not yet withdrawn. Who left is not told of, nor who comes back in time."""
    with ship(tmp_path) as process:
        process.start()
        process.wait_ready()
        port = process.mqtt_port
        hellos = [connect(1), connect(2, HOUR_S), connect(3), connect(4, HOUR_S), connect(5, 1)]
        clients = [welcomed(port, hello) for hello in hellos]
        clients[2].sendall(LEAVES)
        assert clients[2].recv(1) == b""
        sessions, wills = tmp_path / "ship" / "mqtt.sessions", tmp_path / "ship" / WILLS_FILE
        wait(lambda: sessions.exists() and b"04" in sessions.read_bytes(), process.tail)
        wait(lambda: b'"done":[3]' in wills.read_bytes(), process.tail)
        process.kill()
        process.start("intake.durable:1")
        wait(process.dead, process.tail)
        process.start()
        process.wait_ready()
        with welcomed(port, COMES_BACK) as back:
            wait(lambda: len(process.rows("containers")) == 2, process.tail)
            back.sendall(LEAVES)
            assert back.recv(1) == b""
        assert process.stop() == 0
        for client in clients:
            client.close()
    assert numbers(tmp_path / "ship", process.node) == [1, 2, 5], "2 as the node stopped"


@pytest.mark.parametrize(("word", "identity"), [("ship", SHIP), ("port", "SGSIN")])
def test_killed_once_a_will_is_kept_and_before_its_client_is_let_in(word: str, identity: str, tmp_path: Path) -> None:
    """At each of WILLED, a ship's node and a port's: the will is there, and is published once."""
    mqtt_port = free_port()
    settings = (
        f'[node]\nnode = "{word}"\nrole = "{word}"\nidentity = "{identity}"\nfolder = "{tmp_path / word}"\nport = {{port}}\n'
        f'clock = "wall"\n[intake.endpoint]\nport = {mqtt_port}\nanonymous_publish = ["landfall/#"]\n'
    )
    process = NodeProcess(tmp_path, word, word, "its", settings)
    try:
        for number, point in enumerate(WILLED):
            process.start(f"{point}:1")
            process.wait_ready()
            with connected(mqtt_port) as client, suppress(ConnectionResetError):
                client.sendall(connect(number))
                assert client.recv(1) == b"", "it heard nothing"
            wait(process.dead, process.tail)
        process.start()
        wait(lambda: process.ready() and len(process.rows("containers")) == len(WILLED), process.tail)
        assert process.stop() == 0
    finally:
        process.kill()
    assert numbers(tmp_path / word, word) == list(range(len(WILLED)))


async def test_a_storm_of_clients_takes_few_syncs(tmp_path: Path) -> None:
    disk = CountedDisk()
    last = words(tmp_path / "wills", disk)
    numbers = await asyncio.gather(*[last.keep(will(n)) for n in range(3_000)])
    assert disk.syncs <= 2
    last.done(*numbers[5:])
    await last.close()
    assert disk.syncs <= 4
    again = words(tmp_path / "wills")
    assert [number for number, _ in again.left] == numbers[:5]
    assert again.left[0][1] == will(0)
    await again.close()


async def test_the_file_is_bounded_by_what_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake.mqtt.will_store, "GATHER_S", 0.0)
    monkeypatch.setattr(intake.mqtt.will_store, "GARBAGE_BYTES", 10_000)
    last = words(tmp_path / "wills")
    kept = await last.keep(will(0, b"k" * 2_000))
    for n in range(100):
        last.done(await last.keep(will(n, b"x" * 2_000)))
        assert (tmp_path / "wills").stat().st_size < 10_000 + 5 * 3_000
    await last.close()
    assert [number for number, _ in words(tmp_path / "wills").left] == [kept]


@pytest.mark.parametrize("seed", range(40))
async def test_after_a_power_cut_at_any_instant_each_will_that_was_kept_is_there(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None that was withdrawn, and synced, is back; what had not been said to be kept may be there or not, as it was."""
    monkeypatch.setattr(intake.mqtt.will_store, "GATHER_S", 0.0)
    monkeypatch.setattr(intake.mqtt.will_store, "GARBAGE_BYTES", 400)
    chance = random.Random(seed)
    root = tmp_path / "root"
    root.mkdir()
    disk = CutDisk(root, chance, lies=False)
    disk.arm(tmp_path / "left", chance.randrange(60))
    last, number_of, kept, leaves = words(root / WILLS_FILE, disk), dict[int, int](), set[int](), set[int]()
    for n in range(200):
        one = asyncio.ensure_future(last.keep(will(n)))
        leaves = {chance.choice(sorted(kept))} if kept and chance.random() < 0.6 else set()
        last.done(*(number_of[gone] for gone in leaves))
        kept -= leaves
        number_of[n] = await one
        if disk.cut_at:
            break
        kept.add(n)
    await last.close()
    assert disk.cut_at
    found = {int(one.client_id.removeprefix("client-")) for _, one in words(tmp_path / "left" / WILLS_FILE).left}
    assert kept <= found <= kept | leaves | {n}
    disk.close()


async def test_what_is_damaged_is_told_and_costs_no_other_will(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "wills"
    last = words(path)
    for n in range(5):
        await last.keep(will(n))
    hit = bytearray(path.read_bytes())
    hit[hit.index(b"client-2")] ^= 1
    path.write_bytes(bytes(hit) + b"half a li")
    again = words(path)
    assert [one.client_id for _, one in again.left] == [f"client-{n}" for n in (0, 1, 3, 4)]
    assert "is damaged; who of them is gone may go unsaid: 1 of 5 lines do not read" in caplog.text
    caplog.clear()
    again.tend()
    await again.close()
    assert len(words(path).left) == 4
    assert not caplog.text, "what was told is mended"
    path.unlink()
    path.mkdir()
    assert not words(path).left
    assert os.strerror(errno.EISDIR) in caplog.text


async def test_where_wills_can_not_be_kept_who_brings_one_is_not_let_in_and_others_are(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        disk = CountedDisk()
        one.endpoint._last_words._disk = disk
        disk.refuses = True
        port = one.endpoint.port
        assert await ask(port, connect(1)) == b"\x20\2\0\3"
        assert (await ask(port, connect(2, 0)))[:4] == b"\x20\3\0\x88"
        assert (await ask(port, COMES_BACK + LEAVES))[3] == 0
        disk.refuses = False
        assert await ask(port, connect(1) + LEAVES) == b"\x20\2\0\0"
        (tmp_path / WILLS_FILE).unlink()
        assert await ask(port, connect(1) + LEAVES) == b"\x20\2\0\3", "what is written to a deleted file is on no disk"
        await eventually(lambda: (tmp_path / WILLS_FILE).exists())
    assert one.counts().get("intake_received", 0) == 0
    assert not words(tmp_path / WILLS_FILE).left


async def test_of_a_login_that_is_no_more_the_will_is_foreign(tmp_path: Path) -> None:
    """The wills of who was awaited when the node was killed are judged by the settings it is started with."""
    last = words(tmp_path / WILLS_FILE)
    await last.keep(will(1))
    async with stand(tmp_path, OPEN) as one:
        await eventually(lambda: one.counts().get("intake_foreign", 0) == 1)
        [row] = one.rows("exceptions")
        assert "gateway gw may not publish" in (row.record.body or {})["reason"]
        await eventually(lambda: not words(tmp_path / WILLS_FILE).left)


async def test_who_is_let_go_while_its_will_is_written_leaves_none(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        one.endpoint._last_words._disk = disk = SlowDisk()
        with socket.create_connection(("127.0.0.1", one.endpoint.port)) as client:
            client.sendall(connect(1))
            await asyncio.to_thread(disk.reached.wait)
            assert one.endpoint.make_room()
        await eventually(lambda: one.metrics.body(0, 0)["gauges"].get("mqtt_connections") == 0)
        disk.goes_on.set()
        await eventually(lambda: (tmp_path / WILLS_FILE).read_bytes().count(b"\n") == 2)
        assert not words(tmp_path / WILLS_FILE).left
    assert one.counts().get("intake_received", 0) == 0


async def test_a_refused_write_says_so_to_who_waits(tmp_path: Path) -> None:
    disk = CountedDisk()
    disk.refuses = True
    last = words(tmp_path / "wills", disk)
    with pytest.raises(RetryLater):
        await last.keep(will(1))
    await last.close()


class SlowlyReplaced(Disk):
    """A file is written anew only once it is told to go on; counts how often one is opened to be written on."""

    def __init__(self) -> None:
        self.opened, self.replacing, self.goes_on = 0, threading.Event(), threading.Event()

    def open_to_append(self, path: Path) -> int:
        self.opened += 1
        return super().open_to_append(path)

    def replace(self, path: Path, data: bytes) -> None:
        self.replacing.set()
        assert self.goes_on.wait(60)
        super().replace(path, data)


async def test_what_is_published_while_the_file_is_written_for_the_last_time_is_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a clean stop the disk may take longer than is waited for. One thread has the file then: a second one would be left writing to
    it, or close what by then is another's."""
    monkeypatch.setattr(intake.mqtt.will_store, "GATHER_S", 0.0)
    disk = SlowlyReplaced()
    last = words(tmp_path / WILLS_FILE, disk)
    number = await last.keep(will(1))
    closing = asyncio.create_task(last.close())
    await eventually(disk.replacing.is_set)
    last.done(number)
    await eventually(lambda: last._writing is None or disk.opened > 1)
    disk.goes_on.set()
    await closing
    assert disk.opened == 1
    assert words(tmp_path / WILLS_FILE).left == ()
