"""Goal: a ship is told what concerns her and no other ship's customers, each thing once, wherever headquarters' node dies in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cargo.rules.climate_limits import Climate
from cargo.vocabulary.registry_entries import (
    BookedContainer,
    Booking,
    Customer,
    Entry,
    LoadList,
    Port,
    Ship,
    SizeType,
    Stowed,
    entry_body,
    parse_entry,
)
from landfall.storage.file_log import FileLog
from shore.ship_feed import ShipsDesk
from shore.ship_forwarder import Forwarding
from streams.codec import BlockCodec
from streams.log import Append, Appended
from streams.model.clock import StillClock
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.intake.stand import DEADLINE_S, eventually

EVER, OTHER = "9321483", "9839430"
BOXES = ("MSKU1234565", "CSQU3054383", "TGHU7599330")


class DiesAt(Exception):
    """The process ends here."""


def listed(ship: str, call: int, aboard: Sequence[str]) -> Entry:
    stowed = tuple(Stowed(box, f"010{at + 1:02}82"[:7].ljust(7, "2"), "45R1", "JPTYO", "SGSIN") for at, box in enumerate(aboard))
    value = LoadList(ship, "JPTYO", call, stowed, tuple(aboard), (), 1_777_593_600_000)
    return Entry("load_list", value.id, 1, 1, "clerk", value)


def booked(reference: str, boxes: Sequence[str], version: int = 1) -> Entry:
    containers = tuple(BookedContainer(box, 1) for box in boxes)
    value = Booking(reference, "ducks", "shops", f"toys {version}", "JPTYO", "SGSIN", containers=containers)
    return Entry("booking", reference, version, version, "clerk", value)


def ship(imo: str) -> Entry:
    return Entry("ship", imo, 1, 1, "clerk", Ship(imo, "Blue One", "3FOF8", "370123000", "PA", 2000))


PORT = Entry("port", "JPTYO", 1, 1, "clerk", Port("JPTYO", "Tokyo", 35.6, 139.8, 10))
REEFERS = Entry("size_type", "45R1", 1, 1, "clerk", SizeType(Climate(above_c=2.0)))
CUSTOMER = Entry("customer", "ducks", 1, 1, "clerk", Customer("Duckworks", (255, 220, 0), "shipper"))
REGISTRY = [
    PORT,
    REEFERS,
    CUSTOMER,
    ship(EVER),
    ship(OTHER),
    booked("B1", BOXES[:2]),
    booked("B2", BOXES[2:]),
    listed(EVER, 1, BOXES[:1]),
    listed(OTHER, 1, BOXES[2:]),
    booked("B1", BOXES[:2], version=2),
    listed(EVER, 2, BOXES[:2]),
]


def told(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    desk = ShipsDesk()
    return [(imo, f"{entry.topic} v{entry.version}") for one in entries for imo, entry in desk.take(one)]


def test_each_ship_is_told_her_own() -> None:
    assert told(REGISTRY) == [
        (EVER, "port/JPTYO v1"),
        (EVER, "size_type/45R1 v1"),
        (EVER, f"ship/{EVER} v1"),
        (OTHER, "port/JPTYO v1"),
        (OTHER, "size_type/45R1 v1"),
        (OTHER, f"ship/{OTHER} v1"),
        (EVER, f"load_list/{EVER}/1 v1"),
        (EVER, "booking/B1 v1"),
        (OTHER, f"load_list/{OTHER}/1 v1"),
        (OTHER, "booking/B2 v1"),
        (EVER, "booking/B1 v2"),
        (EVER, f"load_list/{EVER}/2 v1"),
        (EVER, "booking/B1 v2"),
    ]


def test_a_booking_is_cut_down_to_the_boxes_aboard() -> None:
    desk = ShipsDesk()
    values = [entry.value for one in REGISTRY for imo, entry in desk.take(one) if imo == EVER and entry.type == "booking"]
    assert [[box.container for box in value.containers] for value in values if isinstance(value, Booking)] == [
        list(BOXES[:1]),
        list(BOXES[:1]),
        list(BOXES[:2]),
    ]


@pytest.mark.parametrize("seed", range(10))
def test_nobody_hears_of_what_is_not_aboard_her(seed: int) -> None:
    chance = random.Random(seed)
    shuffled = chance.sample(REGISTRY, len(REGISTRY))
    desk = ShipsDesk()
    for one in shuffled:
        for imo, entry in desk.take(one):
            assert entry.type in ("ship", "port", "size_type", "load_list", "booking")
            if isinstance(entry.value, Booking):
                mine = BOXES[:2] if imo == EVER else BOXES[2:]
                assert {box.container for box in entry.value.containers} <= set(mine)


class Mortal:
    """The log as a sink that kills the process before or after its n-th commit."""

    def __init__(self, log: FileLog, dies_at: int, after: bool) -> None:
        self._log, self._left, self._after = log, dies_at, after

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise DiesAt
        answers = self._log.append(appends)
        if self._left == 0:
            raise DiesAt
        return answers


def _log(folder: Path) -> FileLog:
    return FileLog(folder / "log", folder / "marker", "hq", BlockCodec(), StillClock())


def _aboard(log: FileLog) -> dict[str, list[str]]:
    streams = [stream for stream in log.streams() if stream.startswith("aboard/")]
    rows = {stream: [row.record for batch in log.read(stream, Position()) for row in batch.rows()] for stream in streams}
    return {stream: [f"{record.topic} {record.body}" for record in records] for stream, records in rows.items()}


async def _forward(log: FileLog, sink: Mortal, until: Position) -> None:
    """Run the forwarding until it dies or has told everything."""
    forwarding = asyncio.create_task(Forwarding(lambda *_, **__: None).run(log, sink))
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def changed(streams: frozenset[str]) -> None:
        loop.call_soon_threadsafe(done.set)

    stop = log.subscribe(changed)

    def reached() -> bool:
        for batch in log.latest("consumers", "aboard/registry"):
            if Position.from_json((next(batch.rows()).record.body or {})["position"]).reaches(until):
                return True
        return False

    while not forwarding.done() and not reached():
        waiting = asyncio.create_task(done.wait())
        await asyncio.wait((forwarding, waiting), timeout=1, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        done.clear()
    stop()
    forwarding.cancel()
    await asyncio.gather(forwarding, return_exceptions=True)


async def _run(folder: Path, dies_at: int, after: bool) -> dict[str, list[str]]:
    log = _log(folder)
    for part in (REGISTRY[:4], REGISTRY[4:7], REGISTRY[7:]):
        log.append([Append("registry", to_batch([Record(entry.topic, body=entry_body(entry)) for entry in part]))])
        await _forward(log, Mortal(log, dies_at, after), log.position("registry"))
        await _forward(log, Mortal(log, 0, after), log.position("registry"))
    found = _aboard(log)
    log.close()
    return found


async def test_forwarding_dies_anywhere_and_tells_each_thing_once(tmp_path: Path) -> None:
    whole = await _run(tmp_path / "whole", 0, after=False)
    assert [len(whole[f"aboard/{imo}"]) for imo in (EVER, OTHER)] == [8, 5]
    for after in (False, True):
        for dies_at in (1, 2):
            assert await _run(tmp_path / f"{after}{dies_at}", dies_at, after) == whole


async def test_forwarding_below_the_floor_goes_on_and_says_so(tmp_path: Path) -> None:
    """A node that was off for longer than its streams are kept would end at each start."""
    log = _log(tmp_path)
    for part in (REGISTRY[:7], REGISTRY[7:9], REGISTRY[9:]):
        log.append([Append("registry", to_batch([Record(entry.topic, body=entry_body(entry)) for entry in part]))])
        if part == REGISTRY[:7]:
            await _forward(log, Mortal(log, 0, after=False), log.position("registry"))
    log.trim("registry", log.origin, 9)
    await _forward(log, Mortal(log, 0, after=False), log.position("registry"))
    [batch] = log.latest("exceptions", "node.floor")
    assert "registry:" in batch.records.column("body")[0].as_py()
    assert any(one.startswith(f"load_list/{EVER}/2 ") for one in _aboard(log)[f"aboard/{EVER}"])
    log.close()


async def test_what_is_told_reads_as_a_registry_entry(tmp_path: Path) -> None:
    log = _log(tmp_path)
    log.append([Append("registry", to_batch([Record(entry.topic, body=entry_body(entry)) for entry in REGISTRY]))])
    await _forward(log, Mortal(log, 0, False), log.position("registry"))
    for batch in log.read(f"aboard/{EVER}", Position()):
        for text, row in zip(batch.records.column("body").to_pylist(), batch.rows(), strict=True):
            assert parse_entry(text).topic == row.record.topic
            assert row.record.source is not None
            assert row.record.source.stream == "registry"
    log.close()


class Telling(FileLog):
    """A log whose word that it grew is given by hand."""

    said: Callable[[frozenset[str]], None] | None = None

    def subscribe(self, changed: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        self.said = changed
        return super().subscribe(changed)


@pytest.mark.parametrize("turns", range(8))
async def test_it_ends_when_asked_in_whichever_turn_of_the_loop_something_comes(
    tmp_path: Path, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel that comes together with the word that the log grew is obeyed too: else a node would never end."""
    waits, timeout = list[float](), asyncio.timeout

    def noted(delay_s: float) -> asyncio.Timeout:
        waits.append(delay_s)
        return timeout(delay_s)

    log = Telling(tmp_path / "log", tmp_path / "marker", "hq", BlockCodec(), StillClock())
    forwarding = asyncio.create_task(Forwarding(lambda *_, **__: None).run(log, Mortal(log, 0, after=False)))
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "timeout", noted)
        await eventually(lambda: len(waits) == 2)  # once it has read what there is, it waits for more
    assert log.said is not None
    log.said(frozenset({"alerts"}))
    for _ in range(turns):
        await asyncio.sleep(0)
    forwarding.cancel()
    await asyncio.wait((forwarding,), timeout=DEADLINE_S)
    assert forwarding.cancelled()
    log.close()
