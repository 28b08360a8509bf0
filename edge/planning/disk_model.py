"""The ship's disk while it is at sea: when it is full, and what thinning leaves then, by the keepers that thinning itself would choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from edge.planning.backlog_model import ShipBacklog, StreamBacklog
from edge.planning.stream_flows import Flow
from landfall.storage.append_planner import stamped
from streams.config.companion_streams import KEPT, kept_of
from streams.config.stream_definitions import Definitions
from streams.model.block import Codec
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import ORDER_AT, concat
from streams.retention.disk_budget import thinned_first
from streams.retention.droppable_runs import RUN, whole_runs
from streams.retention.kept_records import kept_rows
from streams.retention.thinner import UNIT_RUNS, WINDOWS_MS, keepers_of

UNIT_ROWS = UNIT_RUNS * RUN


@dataclass(frozen=True, slots=True)
class Rung:
    """Effect of one more thinning: `kept_share` of the records stay, for windows of `window_ms`, at `kept_bytes` each on the disk."""

    kept_share: float
    window_ms: int
    kept_bytes: float


@dataclass(slots=True)
class PlannedThinning:
    """Thinned records of a stream: how many, since when (seconds since 1970), and what of them stays, by their widest window."""

    records: float
    since_s: float
    kept: float = 0.0
    window_ms: int = 0


Rungs = Callable[[str], Sequence[Rung]]
"""Function from a stream to the effect of the first thinning of its records, that of the second on those kept, and so on."""


def rungs_of(stream: str, origin: Origin, samples: Sequence[pa.RecordBatch], codec: Codec) -> list[Rung]:
    """Return the effects of thinning, tried on `samples`: stamped rows of `stream` as one step of it would take them, one after another."""
    found: list[Rung] = []
    name = stream
    while samples:
        kept, window_ms, before = [], 0, 0
        for rows in samples:
            chosen = keepers_of(name, rows, _nothing_whole(name, 0, 0))
            if chosen is None:
                return found
            keep, wide_ms = chosen
            window_ms, before = max(window_ms, wide_ms), before + rows.num_rows
            kept.append(kept_rows(name, origin, rows.filter(pa.array(keep)), wide_ms))
        records = concat(kept)
        rows = stamped(records, 0, pc.max(samples[-1].column(ORDER_AT)).as_py())
        name = kept_of(stream)
        found.append(Rung(rows.num_rows / before, window_ms, len(codec.encode(name, origin, rows).to_bytes()) / rows.num_rows))
        samples = [rows]
    return found


class Buffer:
    """The records aboard that are not ashore, within `budget_bytes` of disk (None: as much as there is). What is ashore takes no room: it
    is dropped first."""

    def __init__(self, aboard: ShipBacklog, definitions: Definitions, budget_bytes: int | None, rungs: Rungs) -> None:
        self._aboard, self._definitions, self.budget_bytes, self._rungs = aboard, definitions, budget_bytes, rungs
        self._kept: dict[str, list[float]] = {}
        self.stored_bytes_max = 0.0
        self.full_s: float | None = None
        self.over_bytes = 0.0
        self.thinned: dict[str, PlannedThinning] = {}

    def look(self) -> None:
        """Thin the oldest while there is too much, readings first, as a node's retention does at intervals."""
        self.stored_bytes_max = max(self.stored_bytes_max, self._stored_bytes())
        if self.budget_bytes is None:
            return
        while (over := self._stored_bytes() - self.budget_bytes) > 0:
            self.full_s = self._aboard.at_s if self.full_s is None else self.full_s
            if not self._thin():
                break
        self.over_bytes = max(self.over_bytes, over)

    def _stored_bytes(self) -> float:
        return sum(one.records * one.flow.stored_bytes() for one in self._aboard.waiting)

    def _thin(self) -> bool:
        """Thin one step, and return whether there was anything to thin."""
        waiting = {one.flow.stream: one for one in self._aboard.waiting}
        for stream in thinned_first(waiting, self._definitions):
            if stream.endswith(KEPT):
                if self._thin_kept(stream):
                    return True
            elif self._thin_once(stream, waiting[stream]):
                return True
        return False

    def _thin_once(self, stream: str, waits: StreamBacklog) -> bool:
        old = waits.records - waits.flow.records_per_s * WINDOWS_MS[0] / 1000
        records = min(UNIT_ROWS, whole_runs(int(max(0.0, old))))
        rungs = self._rungs(stream) if records else ()
        if not rungs:
            return False
        waits.let_go(records)
        thinning = self.thinned.setdefault(stream, PlannedThinning(0.0, self._aboard.at_s))
        thinning.records += records
        layers = self._kept.setdefault(kept_of(stream), [0.0] * len(rungs))
        layers[0] += records * rungs[0].kept_share
        self._report_kept(stream, rungs)
        return True

    def _thin_kept(self, name: str) -> bool:
        stream, layers = name.removesuffix(KEPT), self._kept[name]
        rungs = self._rungs(stream)
        for at, rung in enumerate(rungs[1:]):
            records = min(UNIT_ROWS, whole_runs(int(layers[at])))
            if records:
                layers[at] -= records
                layers[at + 1] += records * rung.kept_share
                self._report_kept(stream, rungs)
                return True
        return False

    def _report_kept(self, stream: str, rungs: Sequence[Rung]) -> None:
        """Report how many kept records wait now, and at how many bytes each."""
        name = kept_of(stream)
        layers = self._kept[name]
        widest = max(at for at, records in enumerate(layers) if records)
        thinning = self.thinned[stream]
        thinning.kept, thinning.window_ms = sum(layers), rungs[widest].window_ms
        bytes_each = sum(records * rung.kept_bytes for records, rung in zip(layers, rungs, strict=True)) / sum(layers)
        flow = Flow(name, self._definitions.of(name).lane, 0.0, lambda records: bytes_each * records, max(1, round(sum(layers))))
        self._aboard.wait(flow, sum(layers))


def _nothing_whole(stream: str, since_ms: int, until_ms: int) -> Mapping[str, RangeSet]:
    return {}
