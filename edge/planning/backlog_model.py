"""What of each stream is not ashore yet, while time passes over a link, or over none: a fluid that flows in its lanes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from edge.planning.record_bytes import MessageCarrier
from edge.planning.stream_flows import Flow
from streams.replication.sender import LINGER_RECORDS, LIVE_RECORDS

_NOTHING = 1e-6
"""Less than so much of a record is none."""


@dataclass(frozen=True, slots=True)
class PlannedLink:
    """A link that is up: what carries its messages, the bytes a second it takes, those a second that it takes idle, which streams it
    carries."""

    carrier: MessageCarrier
    bytes_s: float
    idle_bytes_s: float
    streams: Collection[str]


@dataclass(slots=True)
class LegTally:
    """Result of one leg for one stream. Seconds from the leg's beginning; None: not within it. `newest_after_s`: when the newest record was
    ashore for the first time, `all_after_s`: when every record was. `lag_max_s`: the greatest age of a record that was not ashore."""

    carried: bool = False
    sent_records: float = 0.0
    sent_bytes: float = 0.0
    newest_after_s: float | None = None
    all_after_s: float | None = None
    lag_max_s: float = 0.0
    waits_records_max: float = 0.0


@dataclass(slots=True)
class StreamService:
    """Service of the link for one stream: records a second of the newest and of the backlog, and the bytes a second they take."""

    newest_per_s: float = 0.0
    backlog_per_s: float = 0.0
    bytes_s: float = 0.0


@dataclass(eq=False, slots=True)
class StreamBacklog:
    """The waiting records of one stream: the newest, sent concurrently with the backlog, and the backlog, the oldest written at `head_s`.

    `newest_bytes`, `backlog_bytes`: what a record of either takes on the link that is up.
    """

    flow: Flow
    newest: float = 0.0
    backlog: float = 0.0
    head_s: float = 0.0
    split_s: float = 0.0
    newest_bytes: float = 0.0
    backlog_bytes: float = 0.0
    live_bytes: float = 0.0
    tally: LegTally = field(default_factory=LegTally)

    @property
    def records(self) -> float:
        """Number of waiting records."""
        return self.newest + self.backlog

    def oldest_s(self, at_s: float) -> float:
        """Return when the oldest waiting record was written; now, when none waits."""
        if self.backlog:
            return self.head_s
        return at_s - self.newest / self.flow.records_per_s if self.flow.records_per_s else self.head_s if self.newest else at_s

    def opened(self, carrier: MessageCarrier, at_s: float) -> None:
        """Begin a session: of the waiting records, send the newest concurrently with the others."""
        waits, oldest_s, flow = self.records, self.oldest_s(at_s), self.flow
        self.newest = min(waits, float(LIVE_RECORDS))
        self.backlog = waits - self.newest
        self.head_s, self.split_s = oldest_s, at_s - self.newest / flow.records_per_s if flow.records_per_s else oldest_s
        self.live_bytes = flow.live_bytes(carrier)
        self.newest_bytes = flow.backlog_bytes(carrier, self.newest or LINGER_RECORDS)
        self.backlog_bytes = flow.backlog_bytes(carrier, self.backlog or LINGER_RECORDS)

    def let_go(self, records: float) -> None:
        """Remove so many of the oldest records."""
        of_backlog = min(records, self.backlog)
        self._sent_of_backlog(of_backlog)
        self.newest = _some(self.newest - (records - of_backlog))

    def flowed(self, served: StreamService, dt_s: float, at_s: float) -> None:
        """`dt_s` have passed until `at_s`."""
        self._sent_of_backlog(served.backlog_per_s * dt_s)
        self.newest = _some(self.newest + (self.flow.records_per_s - served.newest_per_s) * dt_s)
        self.tally.sent_records += (served.newest_per_s + served.backlog_per_s) * dt_s
        self.tally.sent_bytes += served.bytes_s * dt_s

    def noted(self, at_s: float, since_s: float) -> None:
        """Update the tally by the state at `at_s`, in a leg that began at `since_s`."""
        tally = self.tally
        tally.lag_max_s = max(tally.lag_max_s, at_s - self.oldest_s(at_s))
        tally.waits_records_max = max(tally.waits_records_max, self.records)
        if tally.carried and tally.newest_after_s is None and not self.newest:
            tally.newest_after_s = at_s - since_s
        if tally.carried and tally.all_after_s is None and not self.records:
            tally.all_after_s = at_s - since_s

    def _sent_of_backlog(self, records: float) -> None:
        if self.backlog:
            self.head_s += (self.split_s - self.head_s) * min(1.0, records / self.backlog)
            self.backlog = _some(self.backlog - records)


class ShipBacklog:
    """All streams of a ship, from `at_s` on, with nothing waiting. `at_s` moves as time passes."""

    def __init__(self, flows: Sequence[Flow], at_s: float) -> None:
        self.at_s = self.begun_s = at_s
        self.waiting = [StreamBacklog(flow) for flow in flows]
        self._since_s = at_s

    def wait(self, flow: Flow, records: float) -> None:
        """Replace the waiting records of the flow's stream by so many records of this flow, the oldest since the ship sailed."""
        self.waiting = [one for one in self.waiting if one.flow.stream != flow.stream]
        self.waiting.append(StreamBacklog(flow, newest=records, head_s=self.begun_s))

    def ends(self, streams: Collection[str]) -> None:
        """End the writing to these streams."""
        for one in (one for one in self.waiting if one.flow.stream in streams):
            one.head_s, one.flow = one.oldest_s(self.at_s), replace(one.flow, records_per_s=0.0)

    def flows(self, streams: Collection[str]) -> list[Flow]:
        """Return the flows of these streams."""
        return [one.flow for one in self.waiting if one.flow.stream in streams]

    def leg_begins(self, carried: Collection[str]) -> None:
        """Begin another leg: from now on all reports are of this leg, whose link carries these streams."""
        self._since_s = self.at_s
        for one in self.waiting:
            one.tally = LegTally(carried=one.flow.stream in carried)
        self.note()

    def opened(self, line: PlannedLink) -> None:
        """Begin a session of every stream that the link carries: the link is up."""
        for one in self._carried(line):
            one.opened(line.carrier, self.at_s)

    def pass_until(self, until_s: float, line: PlannedLink | None, allowed_bytes: float | None = None) -> float:
        """Let time pass until `until_s`, or until `allowed_bytes` have passed the link, and return how many bytes that were."""
        passed = 0.0
        while self.at_s < until_s:
            served = {} if line is None else self._served(line)
            bytes_s = 0.0 if line is None else line.idle_bytes_s + sum(one.bytes_s for one in served.values())
            dt_s = min([until_s - self.at_s, *self._emptied_s(served)])
            spent = allowed_bytes is not None and passed + bytes_s * dt_s >= allowed_bytes
            if spent and allowed_bytes is not None:
                dt_s = max(0.0, (allowed_bytes - passed) / bytes_s)
            last = not spent and dt_s >= until_s - self.at_s
            self.at_s = until_s if last else self.at_s + dt_s
            passed += bytes_s * dt_s
            for one in self.waiting:
                one.flowed(served.get(one, StreamService()), dt_s, self.at_s)
            self.note()
            if spent:
                break
        return passed

    def note(self) -> None:
        """Update the tallies of all streams by their present state."""
        for one in self.waiting:
            one.noted(self.at_s, self._since_s)

    def _carried(self, line: PlannedLink) -> list[StreamBacklog]:
        carried = [one for one in self.waiting if one.flow.stream in line.streams]
        return sorted(carried, key=lambda one: one.flow.lane)

    def _emptied_s(self, served: dict[StreamBacklog, StreamService]) -> Iterator[float]:
        """Yield in how many seconds the newest, or the backlog, of some stream are all sent."""
        for one, rate in served.items():
            faster = rate.newest_per_s - one.flow.records_per_s
            if one.newest and faster > 0:
                yield one.newest / faster
            if one.backlog and rate.backlog_per_s:
                yield one.backlog / rate.backlog_per_s

    def _served(self, line: PlannedLink) -> dict[StreamBacklog, StreamService]:
        """Return the link's present service for each stream: the more urgent lane first, and only what it leaves for the next."""
        left, served = max(0.0, line.bytes_s - line.idle_bytes_s), {one: StreamService() for one in self._carried(line)}
        for _, lane in groupby(served, key=lambda one: one.flow.lane):
            members = list(lane)
            left -= _as_it_comes([one for one in members if not one.newest], served, left)
            newest, backlog = [one for one in members if one.newest], [one for one in members if one.backlog]
            slots = bool(newest) + bool(backlog)
            for one in newest:
                rate = left / slots / len(newest)
                served[one].newest_per_s += rate / one.newest_bytes
                served[one].bytes_s += rate
            for one in backlog:
                rate = left / slots / len(backlog)
                served[one].backlog_per_s += rate / one.backlog_bytes
                served[one].bytes_s += rate
            left = 0.0 if slots else left
        return served


def _as_it_comes(streams: Sequence[StreamBacklog], served: dict[StreamBacklog, StreamService], left: float) -> float:
    """Serve the streams whose newest records are ashore as their records come, and return the bytes a second of `left` that this takes.

    Where there is less room than they take as they come, more of their records go together; where that is not enough either they fall
    behind, all alike."""
    wanted = [one.flow.records_per_s * one.live_bytes for one in streams]
    if sum(wanted) <= left:
        for one, bytes_s in zip(streams, wanted, strict=True):
            served[one] = StreamService(one.flow.records_per_s, bytes_s=bytes_s)
        return sum(wanted)
    least = [one.flow.records_per_s * min(one.live_bytes, one.newest_bytes) for one in streams]
    share = left / sum(least)
    for one, bytes_s in zip(streams, least, strict=True):
        served[one] = StreamService(one.flow.records_per_s * min(1.0, share), bytes_s=bytes_s * share)
    return left


def _some(records: float) -> float:
    return records if records > _NOTHING else 0.0
