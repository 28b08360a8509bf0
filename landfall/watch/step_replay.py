"""The steps of a watch that are taken again after a start: where they were cut, and what each of them read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from streams.consumers import CONSUMERS, NO_TIMES, Times
from streams.log import Log, LogReader
from streams.model.identifiers import Origin, Position
from streams.model.records import BODY, OFFSET, Batch

Positions = Mapping[str, Position]
TIMES = AT_MS, RESUMED_AT_MS = "at_ms", "resumed_at_ms"
"""Names of the times stored with a step: its own time, if it followed from the time alone; since when the node listens again, if it
began with that."""


class Retaking:
    """Rows of several streams from `since` to `reached`, step by step. For one thread.

    Each block is unpacked once, however many steps it holds: a merged one holds a hundred, and takes as long as all else that a step
    does.
    """

    def __init__(self, log: LogReader, since: Positions, reached: Positions) -> None:
        self._log, self._at, self._reached = log, dict(since), reached
        self._reading: dict[tuple[str, Origin], Iterator[Batch]] = {}
        self._ahead: dict[tuple[str, Origin], Batch] = {}

    def until(self, stream: str, position: Position) -> Iterator[Batch]:
        """Yield the rows that follow in `stream` up to `position`, which is not beyond `reached`.

        Take all of them before the next call. Raises as `LogReader.run`.
        """
        since, self._at[stream] = self._at[stream], position
        for origin, end in position.items():
            if end > since[origin]:
                yield from self._rows(stream, origin, since[origin], end)

    def _rows(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[Batch]:
        key = stream, origin
        if key not in self._reading:
            self._reading[key] = self._log.run(stream, origin, first, self._reached[stream][origin])
        while (batch := self._ahead.pop(key, None) or next(self._reading[key], None)) is not None:
            count = int(np.searchsorted(batch.records.column(OFFSET).to_numpy(), end))
            if count < batch.records.num_rows:
                self._ahead[key] = replace(batch, records=batch.records.slice(count))
            own = self._log.own(replace(batch, records=batch.records.slice(0, count)))
            if own.records.num_rows:
                yield own
            if key in self._ahead:
                return


def cuts(log: Log, reached: Positions, committed: Position) -> Iterator[tuple[dict[str, Position], Times]]:
    """Yield the Positions after each step whose commit lies beyond `committed` in CONSUMERS, in order, and the times (UTC ms, by name) kept
    with them. A stream that an earlier version of this program did not read stood at its beginning then.
    """
    names = {f"watch/{stream}": stream for stream in reached}
    commits: dict[str, list[tuple[Position, Times]]] = {stream: [] for stream in reached}
    newest = max((origin.generation for origin in committed), default=0)
    for origin, ledger in sorted(log.ledger(CONSUMERS).items(), key=lambda line: line[0]):
        if origin.node == log.node and origin.generation >= newest:
            for batch in log.run(CONSUMERS, origin, max(committed[origin], ledger.floor), ledger.end()):
                for topic, body in zip(batch.records.column("topic").to_pylist(), batch.records.column(BODY).to_pylist(), strict=True):
                    if topic in names:
                        fields = json.loads(body)
                        times = {name: fields[name] for name in TIMES if name in fields}
                        commits[names[topic]].append((Position.from_json(fields["position"]), times))
    steps = max(len(positions) for positions in commits.values())
    commits = {stream: [(Position(), NO_TIMES)] * (steps - len(positions)) + positions for stream, positions in commits.items()}
    for step in zip(*commits.values(), strict=True):
        times = {name: at_ms for _, kept in step for name, at_ms in kept.items()}
        yield dict(zip(commits, (position for position, _ in step), strict=True)), times
