"""A ship and a quay whose boxes give every rule a cause, as their own watches judge them, and headquarters' tables of the same.

What reaches them is out of order, comes twice, and some of it half a day late. Of three boxes headquarters holds another truth than the
ship: a reading that differs, readings that are not there, a booking she was not told of.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.watch_outcome import WatchPlace as At
from cargo.loss.watch_state import WatchSettings
from cargo.rules.climate_limits import Climate
from cargo.vocabulary.registry_entries import BookedContainer, Booking, Entry, entry_body
from hq.analytics.overview import overview
from hq.analytics.repeats import repeats
from hq.delta_tables import HISTORY
from hq.spark_rows import COORDINATES, WIDE, widen
from landfall.watch.watch_service import Watching
from streams.group_commit import GroupCommitter
from streams.model.identifiers import Position
from streams.model.metrics import Metrics
from streams.model.records import ORDER_AT, TOPIC, Record
from tests.intake.stand import eventually, stored
from tests.support.sea import HOUR_MS, MINUTE_MS, SHIP, START_MS, Sea, entry, fall, number
from tests.support.spark_fleet import Place

NODES = {"albatross": f"ship/{SHIP}", "tokyo": "quay/JPTYO"}
END_MS = START_MS + 50 * HOUR_MS
WINDOW_MS = 30 * MINUTE_MS
PARTS = ((0, 30), (30, 50))
"""Hours after each of which the watches have judged all that came: who catches up takes what waited in the order of its time."""
LATE, DARK, CHANGED, GONE, UNTAUGHT, QUIET, FALLEN = 4, 5, 7, 9, 8, 3, 14
"""Boxes of the ship: an excursion and a time without power that come half a day late; those of whom headquarters holds another truth; and
the one that is silent for a day, and the one that goes over the side."""
ON_QUAY = 30
Said = dict[str, Value]


def hour(of: float) -> int:
    """UTC ms so many hours after the beginning."""
    return START_MS + round(of * HOUR_MS)


def chilled(supply_c: float, **more: Value) -> Said:
    """What a box held at 4 °C says."""
    return {"setpoint_c": 4.0, "supply_c": supply_c, "power_on": True, **more}


def box_says(at: int, h: float) -> Said:
    """What box `at` of the ship says at this hour: a cause for each rule, at sea."""
    bad = 20 <= h < 26
    said: dict[int, Said] = {
        0: chilled(9.0 + h / 10 if bad else 4.0),
        1: {"humidity_pct": 95.0 if bad else 60.0},
        2: {"shock_g": 6.0 + h / 10 if 20 <= h < 21 else 0.5},
        LATE: chilled(9.0 if bad else 4.0),
        DARK: chilled(4.0, power_on=not bad),
        CHANGED: chilled(9.5 if h == 22 else 9.0 if bad else 4.0),
        UNTAUGHT: {"humidity_pct": 95.0 if bad else 60.0},
        GONE: chilled(9.0 if bad else 4.0),
        10: chilled(4.0, power_on=not bad),
        11: frozen(h),
        12: {"door_open": bad},
        13: {"setpoint_c": 8.0 if bad else 4.0, "supply_c": 8.0 if bad else 4.0},
    }
    return said.get(at, {"ambient_c": 20.0})


def frozen(h: float) -> Said:
    """A box held at -18 °C: its return air is warm while it defrosts, twice a day, and once for longer."""
    defrosts = h % 12 in (6.0, 6.5)
    warm = -5.0 if defrosts else -12.0 if 40 <= h < 44 else -18.0
    return {"setpoint_c": -18.0, "supply_c": -20.0, "return_c": warm, "defrosting": defrosts}


def quay_says(at: int, h: float) -> Said:
    """What box `at` of the quay says at this hour."""
    bad = 10 <= h < 16
    said: dict[int, Said] = {
        ON_QUAY: {"tilt_deg": 60.0 if bad else 1.0, "shock_g": 14.0 if h == 12 else 0.5},
        ON_QUAY + 1: chilled(0.2 if bad else 4.0, power_on=not bad),
        ON_QUAY + 2: {"setpoint_c": 8.0 if bad else 4.0, "humidity_pct": 95.0 if bad else 60.0},
    }
    return said[at]


def said_aboard() -> list[tuple[int, Heard]]:
    """Her own readings and her boxes', each with when it comes (UTC ms)."""
    sea, chance = Sea(boxes=24), random.Random(6)
    coming = [(one.order_at_ms, one) for one in sea.ship(END_MS - 1)]
    for at in range(sea.boxes):
        for half in range(99):
            h, at_ms = half / 2, hour(half / 2) + at * 1_000
            if (at == QUIET and 18 <= h < 40) or (at == FALLEN and h >= 24):
                continue
            comes_ms = hour(38) if at in (LATE, DARK) and 20 <= h <= 26 else at_ms
            coming += come(chance, comes_ms, sea.says(at, at_ms, **box_says(at, h)))
    for one in fall(sea, FALLEN, hour(24.1)):
        coming += come(chance, one.order_at_ms, one)
    return coming


def said_on_quay() -> list[tuple[int, Heard]]:
    """What is heard on the quay, with when it comes."""
    chance, coming = random.Random(7), []
    for at in range(ON_QUAY, ON_QUAY + 3):
        for half in range(99):
            at_ms = hour(half / 2) + at * 1_000
            one = Heard(number(at), f"TRK-{at}", at_ms, at_ms, at_ms, {**quay_says(at, half / 2), "gateway": "GW-Q"})
            coming += come(chance, at_ms, one)
    return coming


def come(chance: random.Random, at_ms: int, one: Heard) -> list[tuple[int, Heard]]:
    """Up to 9 s on the way, and one in twenty comes once more."""
    came = [(at_ms + chance.randrange(9_000), one)]
    return came + [(at_ms + 9_500, one)] * (chance.random() < 0.05)


def booking(id_: str, setpoint_c: float | None, *boxes: int, **limits: Any) -> Entry:
    """A booking of these boxes, from the beginning on."""
    spans = tuple(BookedContainer(number(at), START_MS, None) for at in boxes)
    asked = Climate(**limits) if limits else msgspec.UNSET
    return entry("booking", id_, Booking(id_, "a", "b", "fish", "JPTYO", "SGSIN", setpoint_c, containers=spans, limits=asked))


def known() -> list[Entry]:
    """What ship and quay are told of the registry: all but one booking."""
    damp = booking("DAMP", 4.0, 1, ON_QUAY + 2, humidity_pct=(50, 90))
    return [*Sea(boxes=24).entries(), damp, booking("COOL", 4.0, 13, ON_QUAY + 1), booking("BAND", 4.0, 0, above_c=4.5)]


UNTOLD_BOOKING = booking("LATER", None, UNTAUGHT, humidity_pct=(50, 90))


def lived(folder: Path, node: str, told_by: str, coming: Sequence[tuple[int, Heard]]) -> Place:
    """The log of this node when its own watch, ended and begun again, has judged all that came."""
    place = Place(folder / node, node)
    place.say(told_by, [Record(one.topic, body=entry_body(one)) for one in known()], START_MS)
    kind, _, identity = NODES[node].partition("/")
    at = At(node, ship=identity) if kind == "ship" else At(node, port=identity)
    came = sorted(coming, key=lambda one: (one[0], one[1].topic))
    for begins, ends in PARTS:
        for window in range(hour(begins), hour(ends), WINDOW_MS):
            now = [one for at_ms, one in came if window <= at_ms < window + WINDOW_MS]
            for stream, of_ship in (("ships", True), ("containers", False)):
                rows = [Record(one.topic, one.device, one.device_at_ms, one.signals) for one in now if ("." in one.topic) == of_ship]
                if rows:
                    place.say(stream, rows, window + WINDOW_MS)
        asyncio.run(watched(place, WatchSettings(at), told_by))
    return place


async def watched(place: Place, settings: WatchSettings, told_by: str) -> None:
    """The node's watch has judged all that is in its log, and is ended."""
    committer, reports = GroupCommitter(place.log), []
    watching = Watching(settings, place.folder, place.clock, Metrics("node"), lambda *said, **_: reports.append(said), (told_by,))
    running = asyncio.create_task(watching.run(place.log, committer))

    streams = [one for one in (told_by, "containers", "ships") if place.log.position(one) != Position()]
    looked_at = Position()

    def judged() -> bool:
        nonlocal looked_at
        before, looked_at = looked_at, place.log.position("consumers")
        if before == looked_at:
            return running.done()
        last = {row.record.topic: (row.record.body or {})["position"] for row in stored(place.log, "consumers")}
        return all(last.get(f"watch/{one}") == place.log.position(one).to_json() for one in streams)

    await eventually(judged)
    running.cancel()
    await asyncio.wait([running])
    await committer.close()
    assert running.cancelled(), running
    assert reports == []


def tables(root: Path, places: Iterable[Place]) -> None:
    """Headquarters' history of what these nodes hold and of its registry: as told, but for the boxes of whom it holds another truth."""
    hq = Place(root / "hq", "hq")
    hq.say("registry", [Record(one.topic, device_at_ms=one.at_ms, body=entry_body(one)) for one in (*known(), UNTOLD_BOOKING)], END_MS)
    logs = [hq.log, *(place.log for place in places)]
    held = [
        batch
        for log in logs
        for stream in ("containers", "ships", "events", "alerts", "registry")
        for batch in log.read(stream, Position())
    ]
    wide = pa.Table.from_batches([widen(batch) for batch in held], schema=WIDE)
    hq.log.close()
    again = {tuple(one.values()) for one in repeats(str(root), overview(wide).keys, 0).to_pylist()}
    wide = wide.filter(pa.array([tuple(one.values()) not in again for one in wide.select(COORDINATES).to_pylist()]))
    wide = otherwise(wide)
    days = [datetime.fromtimestamp(at / 1000, UTC).date() for at in wide.column(ORDER_AT).to_pylist()]
    more = {"batch": pa.array([0] * wide.num_rows, pa.int64()), "day": pa.array(days, pa.date32())}
    write_deltalake(HISTORY.path(str(root)), pa.table({**more, **{name: wide.column(name) for name in WIDE.names}}))


def otherwise(wide: pa.Table) -> pa.Table:
    """One reading of CHANGED differs, and those of GONE's excursion are not there."""
    readings = pc.equal(wide.column("stream"), "containers")
    topics, supply = wide.column(TOPIC), wide.column("supply_c")
    gone = pc.and_(readings, pc.and_(pc.equal(topics, number(GONE)), pc.greater(pc.fill_null(supply, 0.0), 5.0)))
    peak = pc.and_(readings, pc.and_(pc.equal(topics, number(CHANGED)), pc.equal(pc.fill_null(supply, 0.0), 9.5)))
    wide = wide.set_column(wide.schema.get_field_index("supply_c"), "supply_c", pc.if_else(peak, 11.0, supply))
    return wide.filter(pc.invert(gone))
