"""What others have of a stream, as nodes report it to each other: the home's Position, and what is durable ashore.

Topics `home/<stream>` of `homes`, and of `aboard/<imo>` for a ship; `ashore/<stream>` of `consumers`. Nodes report offsets in whole runs,
so that they change seldom.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

import msgspec

from streams.consumers import CONSUMERS
from streams.log import Append, LogReader
from streams.model.identifiers import Origin, Position
from streams.model.ledger import Ledger
from streams.model.ranges import RangeSet
from streams.model.records import BODY, Record, to_batch
from streams.retention.droppable_runs import RUN, whole_runs

HOMES = "homes"
"""Stream in which homes report what they have.

It is signed like every stream that is acted upon, because other nodes drop what lies below the floors.
"""
HOME, ASHORE = "home/", "ashore/"


@dataclass(frozen=True, slots=True)
class AtHome:
    """Home's copy of a stream: all records below `position` are durable there, and it dropped those below `floors`.

    `why`: the reason of each floor (`age`, `bytes`).
    """

    position: Position = field(default_factory=Position)
    floors: Position = field(default_factory=Position)
    why: Mapping[Origin, str] = field(default_factory=dict)

    def of(self, nodes: Collection[str]) -> AtHome:
        """Return the same report for origins of these nodes alone."""
        position, floors = (Position({o: at for o, at in one.items() if o.node in nodes}) for one in (self.position, self.floors))
        return AtHome(position, floors, {origin: why for origin, why in self.why.items() if origin.node in nodes})

    def append_to(self, stream: str, about: str) -> Append:
        """Return the record in `stream` that reports it for stream `about`."""
        why = {str(origin): why for origin, why in sorted(self.why.items())}
        body = {"stream": about, "position": self.position.to_json(), "floors": self.floors.to_json(), "why": why}
        return Append(stream, to_batch([Record(HOME + about, body=body)]))


def at_home(ledger: Ledger, why: Mapping[Origin, str] = MappingProxyType({})) -> AtHome:
    """Return the home's report on its own copy, and why that starts where it does."""
    position = Position({origin: whole_runs(one.next_offset()) for origin, one in ledger.items()})
    return AtHome(position, Position({origin: whole_runs(one.floor) for origin, one in ledger.items()}), dict(why))


def with_word(reported: AtHome | None, settled: Mapping[Origin, RangeSet]) -> AtHome | None:
    """Return the report, advanced by the offsets that the home needs no more (`settled`, from its sessions); None when both are missing."""
    if reported is None and not settled:
        return None
    reported = reported or AtHome()
    word = Position({origin: whole_runs(ranges.run_from(0)) for origin, ranges in settled.items()})
    return AtHome(reported.position.merged(word), reported.floors, reported.why)


def last_home_report(log: LogReader, stream: str, about: str, writers: Collection[str] | None = None) -> AtHome | None:
    """Return the last report on `about` in `stream` by any of `writers` (nodes; None: any node); None when there is none."""
    merged = None
    for body in _latest(log, stream, HOME + about, writers, _Home):
        try:
            why = {Origin.parse(origin): why for origin, why in body.why.items()}
            report = AtHome(Position.from_json(body.position), Position.from_json(body.floors), why)
        except ValueError:
            continue  # what is of no origin says nothing
        merged = report if merged is None else _merged(merged, report)
    return merged


def _merged(one: AtHome, other: AtHome) -> AtHome:
    """Return the union of two reports; each floor has the reason of the higher one."""
    higher = {origin: why for origin, why in other.why.items() if other.floors[origin] >= one.floors[origin]}
    return AtHome(one.position.merged(other.position), one.floors.merged(other.floors), {**one.why, **higher})


def ashore(log: LogReader, stream: str, writers: Collection[str]) -> dict[Origin, RangeSet]:
    """Return the offsets of `stream` that these nodes of one ship have recorded as durable ashore, per origin of the ship."""
    found: dict[Origin, RangeSet] = {}
    for said in _latest(log, CONSUMERS, ASHORE + stream, writers, _Ashore):
        for origin, ranges in said.ranges.items():
            with suppress(ValueError):  # as above
                found.setdefault(Origin.parse(origin), RangeSet()).update(ranges)
    return found


def ashore_append(stream: str, known: Mapping[Origin, RangeSet]) -> Append:
    """Return the record in which a node stores which of its ship's own records are durable ashore."""
    position = Position({origin: ranges.run_from(0) for origin, ranges in known.items()})
    ranges = {str(origin): list(ranges) for origin, ranges in sorted(known.items())}
    body = {"stream": stream, "position": position.to_json(), "ranges": ranges}
    return Append(CONSUMERS, to_batch([Record(ASHORE + stream, body=body)]))


def in_whole_runs(ranges: RangeSet) -> RangeSet:
    """Return the whole runs of `ranges`."""
    whole = RangeSet()
    for first, end in ranges:
        low, high = whole_runs(first + RUN - 1), whole_runs(end)
        if low < high:
            whole.add(low, high)
    return whole


class _Home(msgspec.Struct):
    position: dict[str, int]
    floors: dict[str, int]
    why: dict[str, str] = {}


class _Ashore(msgspec.Struct):
    ranges: dict[str, list[tuple[int, int]]]


Said = TypeVar("Said", _Home, _Ashore)


def _latest(log: LogReader, stream: str, topic: str, writers: Collection[str] | None, form: type[Said]) -> Iterator[Said]:
    """Yield the last record there of each origin of `writers`. Skips bodies of another form: a log holds whatever its peers bring."""
    for batch in log.latest(stream, topic, writers):
        with suppress(msgspec.MsgspecError, RecursionError):
            yield msgspec.json.decode(batch.records.column(BODY)[0].as_py() or "", type=form)
