"""Readings that this node or another of its ship or port has received before: a bounded window of identities, rebuilt from the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cargo.vocabulary.reading_identity import IDENTITY_BYTES, core_body, identities
from intake.pipeline_batches import whose_of
from intake.stuck_clocks import LastSaid
from streams.log import LogReader
from streams.model.clock import Clock
from streams.model.errors import InvalidValue
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import BODY, DEVICE, DEVICE_AT, RECEIVED_AT, TOPIC, Batch, signal_names

ROWS_AT_ONCE = 8_192
"""Maximum number of rows processed at a time: each takes hundreds of bytes meanwhile."""


Words = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.intp]
_WORDS = IDENTITY_BYTES // 8


def words_of(identities: Sequence[bytes]) -> Words:
    """Return identities as numbers, two of each: (identities, 2)."""
    return np.frombuffer(b"".join(identities), np.uint64).reshape(-1, _WORDS)


class KnownIdentities:
    """Up to `most` identities in a hash table, of which half at least is free: two that meet at one place find the next soon.

    For the results of `cargo.vocabulary.reading_identity.identities`, which are spread evenly over all bits. An identity of zeros alone, 1
    in 2^128, is never known."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._places = np.zeros((1 << (2 * most - 1).bit_length(), _WORDS), np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has(self, words: Words) -> npt.NDArray[np.bool_]:
        """Return for each of these whether it is known."""
        known = np.zeros(len(words), np.bool_)
        for rows, places in self._walk(words):
            known[rows] = (self._places[places] == words[rows]).all(axis=1)
        return known

    def add(self, words: Words) -> None:
        """Add these. Raises ValueError for more than there is room for, known ones counted too."""
        if self._count + len(words) > self.most:
            raise InvalidValue(f"{len(words)} identities besides {self._count} are more than {self.most}", code="identities_too_many")
        for rows, places in self._walk(words):
            free = ~self._places[places].any(axis=1)
            self._places[places[free]] = words[rows[free]]
            self._count += len(np.unique(places[free]))

    def _walk(self, words: Words) -> Iterator[tuple[_Places, _Places]]:
        """Yield the rows that have found neither themselves nor a free place, and the next place of each."""
        rows, last = np.arange(len(words)), len(self._places) - 1
        places = (words[:, 0] & np.uint64(last)).astype(np.intp)
        while len(rows):
            yield rows, places
            standing = self._places[places]
            taken = standing.any(axis=1) & (standing != words[rows]).any(axis=1)
            rows, places = rows[taken], (places[taken] + 1) & last


class RepeatWindow:
    """Window of at least the last `readings_max` identities it was given, and fewer than twice as many."""

    def __init__(self, readings_max: int) -> None:
        self._recent, self._older = KnownIdentities(readings_max), KnownIdentities(1)

    def known(self, identities: Sequence[bytes]) -> list[bool]:
        """Return for each of `identities` whether it is in the window."""
        words = words_of(identities)
        known: list[bool] = (self._recent.has(words) | self._older.has(words)).tolist()
        return known

    def remember(self, seen: Sequence[bytes]) -> None:
        """Add `seen`, which are in the log now: durable, not only on their way."""
        words = words_of(seen)
        while len(words):
            room = self._recent.most - len(self._recent)
            self._recent.add(words[:room])
            words = words[room:]
            if len(self._recent) == self._recent.most:
                self._older, self._recent = self._recent, KnownIdentities(self._recent.most)

    @classmethod
    def rebuilt(
        cls, log: LogReader, nodes: Sequence[str], stream: str, readings_max: int, said: LastSaid | None = None, clock: Clock | None = None
    ) -> RepeatWindow:
        """Return the window after the last `readings_max` rows that each of `nodes` appended to `stream`, over all generations of its log.

        The window is larger by the number of nodes. `said` receives the rows of the first node, by `clock`."""
        window = cls(readings_max * len(nodes))
        for node in nodes:
            for batch in _last_batches(log, node, stream, readings_max):
                known = batch_identities(batch)
                window.remember(known)
                if said is not None and clock is not None and node == nodes[0]:
                    _note(batch, known, said, clock)
        return window


def _note(batch: Batch, known: Sequence[bytes], said: LastSaid, clock: Clock) -> None:
    """Record that these rows, with those identities, came when they were received."""
    records, now_s, now_ms = batch.records, clock.monotonic_s(), clock.now_ms()
    whose = whose_of(records.column(TOPIC).to_pylist(), records.column(DEVICE).to_pylist())
    times_ms, received_at_ms = records.column(DEVICE_AT).to_pylist(), records.column(RECEIVED_AT).to_pylist()
    came_s = [now_s - max(0, now_ms - received_ms) / 1000 for received_ms in received_at_ms]
    said.note(whose, times_ms, known, came_s)
    said.fallen.note(whose, times_ms, received_at_ms)


class TakenInElsewhere:
    """Readings that other nodes of the same ship or port received, as they come here: a sensor may send the same reading to several nodes.

    `stream`: the stream of the window. Made before the window is rebuilt; then `news` returns what has come since, of each node the last
    `readings_max`."""

    def __init__(self, log: LogReader, nodes: Sequence[str], stream: str, readings_max: int) -> None:
        self._log, self._nodes, self._stream, self._readings_max = log, nodes, stream, readings_max
        self._read = {origin: held.copy() for origin, held in self._held()}

    def news(self) -> list[bytes]:
        """Return the identities of what has come here since the last call. Raises as `LogReader.run`; the next call then returns them."""
        found: list[bytes] = []
        for origin, held in self._held():
            fresh = held.without(self._read.get(origin, ()))
            for first, end in fresh.within(max(0, held.end() - self._readings_max), held.end()):
                for batch in self._log.run(self._stream, origin, first, end):
                    found += batch_identities(batch)
            self._read[origin] = held.copy()
        return found

    def _held(self) -> list[tuple[Origin, RangeSet]]:
        return [(origin, one.held) for origin, one in self._log.ledger(self._stream).items() if origin.node in self._nodes]


def batch_identities(batch: Batch) -> list[bytes]:
    """Return the identities of stored rows, equal to those they had on their way in."""
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
        for batch in log.run(stream, own[number][0], first, end):
            for at in range(0, batch.records.num_rows, ROWS_AT_ONCE):
                yield replace(batch, records=batch.records.slice(at, ROWS_AT_ONCE))
