"""Readings that came before: a bounded window of identities, rebuilt from the node's own log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cargo.identity import core_body, identities
from streams.log import LogReader
from streams.records import BODY, DEVICE, DEVICE_AT, TOPIC, Batch, signal_names


class RepeatWindow:
    """Remembers at least the last `readings_max` identities it was given, and fewer than twice as many."""

    def __init__(self, readings_max: int) -> None:
        self._readings_max = readings_max
        self._recent: set[bytes] = set()
        self._older: set[bytes] = set()

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._recent or identity in self._older

    def remember(self, seen: Iterable[bytes]) -> None:
        """`seen` are in the log now: durable, not merely on their way."""
        self._recent.update(seen)
        if len(self._recent) >= self._readings_max:
            self._older, self._recent = self._recent, set()

    @classmethod
    def rebuilt(cls, log: LogReader, node: str, stream: str, readings_max: int) -> RepeatWindow:
        """The window as the last `readings_max` rows that `node` itself appended to `stream` leave it, over all generations of its log."""
        window = cls(readings_max)
        for batch in _last_batches(log, node, stream, readings_max):
            window.remember(batch_identities(batch))
        return window


def batch_identities(batch: Batch) -> list[bytes]:
    """The identities of stored rows, equal to those they had on their way in."""
    records = batch.records
    bodies = {
        row: core for row, text in enumerate(records.column(BODY).to_pylist()) if text is not None and (core := core_body(text)) is not None
    }
    signals = {name: records.column(name) for name in signal_names(records)}
    return identities(
        records.column(TOPIC).to_pylist(), records.column(DEVICE).to_pylist(), records.column(DEVICE_AT).to_pylist(), signals, bodies
    )


def _last_batches(log: LogReader, node: str, stream: str, readings_max: int) -> Iterator[Batch]:
    own = sorted((origin, ledger.held) for origin, ledger in log.ledger(stream).items() if origin.node == node)
    wanted: list[tuple[int, int, int]] = []
    left = readings_max
    for number, (_, held) in reversed(list(enumerate(own))):
        for first, end in reversed(list(held)):
            taken = min(left, end - first)
            left -= taken
            if taken:
                wanted.append((number, end - taken, end))
    for number, first, end in reversed(wanted):
        yield from log.run(stream, own[number][0], first, end)
