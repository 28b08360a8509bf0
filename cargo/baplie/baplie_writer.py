"""A bay plan into a BAPLIE file, in the dialect of 2.2 (D.95B) or 3.1 (D.13B): what `read_bayplan` reads back the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

import msgspec

from cargo.baplie.bay_plan import BayPlan
from cargo.baplie.edifact_segments import write_segments
from cargo.baplie.stowage_locations import NO_TRACKER, UNKNOWN_GOODS
from cargo.vocabulary.registry_entries import Stowed

Dialect = Literal["2", "3"]
Line = list[str | list[str]]
MESSAGE = {"2": ["BAPLIE", "D", "95B", "UN", "SMDG22"], "3": ["BAPLIE", "D", "13B", "UN", "SMDG31"]}
SENDER, RECIPIENT, REFERENCE = "LANDFALL", "ANY", "1"


def write_bayplan(plan: BayPlan, dialect: Dialect, now_ms: int) -> bytes:
    """Return the plan as a file written at `now_ms` (UTC ms): one interchange with one message, ISO 8859-1, a segment a line.

    `read_bayplan` returns the plan again, its time of departure cut to the minute and its texts as `write_segments` describes. No weight is
    marked as a verified gross mass, because that is not known."""
    message = [
        *_header(plan, dialect, now_ms),
        *(line for box in plan.boxes for line in (_lines_2(box) if dialect == "2" else _lines_3(box))),
    ]
    if dialect == "3":
        message.append(["CNT", ["8", str(len(plan.boxes))]])
    written = datetime.fromtimestamp(now_ms / 1000, UTC)
    head: Line = ["UNB", ["UNOC", "3"], SENDER, RECIPIENT, [f"{written:%y%m%d}", f"{written:%H%M}"], REFERENCE]
    return write_segments([head, *message, ["UNT", str(len(message) + 1), REFERENCE], ["UNZ", "1", REFERENCE]])


def _header(plan: BayPlan, dialect: Dialect, now_ms: int) -> Iterator[Line]:
    yield ["UNH", REFERENCE, MESSAGE[dialect]]
    yield ["BGM", "" if dialect == "2" else "659", plan.voyage or REFERENCE, "9"]
    yield ["DTM", ["137", _minute(now_ms), "303"]]
    ship = [plan.ship, "146", "11"] if plan.ship else ["", "", ""]
    yield ["TDT", "20", plan.voyage, "", "", "", "", "", [*ship, plan.ship_name]]
    if plan.port:
        yield ["LOC", "5", [plan.port, "139", "6"]]
    if plan.next_port:
        yield ["LOC", "61", [plan.next_port, "139", "6"]]
    if plan.departs_at_ms is not None:
        yield ["DTM", ["133", _minute(plan.departs_at_ms), "303"]]


def _lines_2(box: Stowed) -> Iterator[Line]:
    """Yield the lines of D.95B, segment groups 2 to 4: measurements before the equipment.

    A reference is mandatory: `BM:1` without a booking."""
    yield ["LOC", "147", [box.slot, "", "5"]]
    yield from _remarks(box)
    if box.weight_kg is not msgspec.UNSET:
        yield ["MEA", "WT", "", ["KGM", str(box.weight_kg)]]
    yield from _temperatures(box)
    yield from _ports(box)
    yield ["RFF", ["BN", box.booking] if box.booking else ["BM", "1"]]
    yield ["EQD", "CN", box.container, box.size_type, "", "", _fullness(box)]
    yield from _goods(box)


def _lines_3(box: Stowed) -> Iterator[Line]:
    """Yield the lines of D.13B: all that belongs to the equipment stands after it, with its code lists named."""
    yield ["LOC", "147", [box.slot, "9711", "5"]]
    yield ["EQD", "CN", [box.container, "6346", "5"], [box.size_type, "6346", "5"], "", "", _fullness(box)]
    if box.weight_kg is not msgspec.UNSET:
        yield ["MEA", "AAE", "WT", ["KGM", str(box.weight_kg)]]
    yield from _remarks(box)
    if box.booking:
        yield ["RFF", ["BN", box.booking]]
    yield from _ports(box)
    yield from _temperatures(box)
    yield from _goods(box)


def _remarks(box: Stowed) -> Iterator[Line]:
    remarks = [] if box.tracker else [NO_TRACKER]
    remarks += [UNKNOWN_GOODS] if box.dangerous is msgspec.UNSET else []
    if remarks:
        yield ["FTX", "AAI", "", "", remarks]


def _temperatures(box: Stowed) -> Iterator[Line]:
    if box.setpoint_c is not msgspec.UNSET:
        yield ["TMP", "2", [_decimal(box.setpoint_c), "CEL"]]
    if box.range_c is not msgspec.UNSET:
        yield ["RNG", "5", ["CEL", *map(_decimal, box.range_c)]]


def _ports(box: Stowed) -> Iterator[Line]:
    yield ["LOC", "9", [box.pol, "139", "6"]]
    yield ["LOC", "11", [box.pod, "139", "6"]]


def _goods(box: Stowed) -> Iterator[Line]:
    for goods in () if box.dangerous is msgspec.UNSET else box.dangerous:
        yield ["DGS", "IMD", goods.imdg_class, goods.un_number]


def _fullness(box: Stowed) -> str:
    return "" if box.empty is msgspec.UNSET else "4" if box.empty else "5"


def _minute(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 60_000 * 60, UTC):%Y%m%d%H%M}UTC"


def _decimal(number: float) -> str:
    return format(Decimal(repr(number)), "f")
