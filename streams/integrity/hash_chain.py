"""The hash chain of one (stream, origin): closed runs of RUN offsets, each head over the one before and the run's root.

head 0     = BLAKE2b-256 of 0x05, "landfall chain 1", stream, 0x00, origin
head k + 1 = BLAKE2b-256 of 0x04, head k, the root of run k, k as 8 bytes
"""

from __future__ import annotations

import struct

import pyarrow as pa

from streams.integrity.altered_records import SUMS_BYTES, sums_of
from streams.integrity.canonical_bytes import DIGEST_BYTES, digest, row_digests
from streams.integrity.merkle_tree import Entry, Tree, entry_bytes
from streams.model.errors import Misuse
from streams.model.identifiers import Origin
from streams.model.records import OFFSET, ORDER_AT, TOPIC

RUN = 4096
"""Number of offsets in a run: run k holds `k * RUN .. (k + 1) * RUN - 1`."""
UNKNOWN = bytes(DIGEST_BYTES)
"""Root of a run that its origin itself could no longer read when it came to sign it: nothing is proven of its rows."""
_HEAD, _BEGIN = b"\x04", b"\x05landfall chain 1"
_RUN = struct.Struct("<Q")


def first_head(stream: str, origin: Origin) -> bytes:
    """Return the head before any run is closed."""
    return digest(_BEGIN, stream.encode(), b"\x00", str(origin).encode())


def next_head(head: bytes, root: bytes, run: int) -> bytes:
    """Return the head after closed run number `run`."""
    return digest(_HEAD, head, root, _RUN.pack(run))


def entries(records: pa.RecordBatch) -> list[Entry]:
    """Return the rows of a stamped batch as the tree of their run has them."""
    times = records.column(ORDER_AT).to_pylist()
    topics = records.column(TOPIC).to_pylist()
    return [(topic, entry_bytes(at_ms, row)) for topic, at_ms, row in zip(topics, times, row_digests(records), strict=True)]


class Chain:
    """Chain of one (stream, origin), followed row by row from a known head. Not safe from several threads.

    `roots`, `sums`: of the runs closed since the start, or since the last call of `clear_stored`. `newest_at_ms`: the largest order time of
    all rows.
    """

    def __init__(self, stream: str, origin: Origin, runs: int = 0, head: bytes | None = None, newest_at_ms: int = 0) -> None:
        self.stream, self.origin, self.runs = stream, origin, runs
        self.head = head or first_head(stream, origin)
        self.newest_at_ms = newest_at_ms
        self.roots: list[bytes] = []
        self.sums: list[bytes] = []
        self._tail: list[Entry] = []
        self._skipped = 0

    @property
    def end(self) -> int:
        """Last offset followed, plus one."""
        return self.runs * RUN + len(self._tail) + self._skipped

    @property
    def whole(self) -> bool:
        """Whether every row of the open run was seen, so that its root can be computed."""
        return not self._skipped

    def follow(self, records: pa.RecordBatch) -> None:
        """Add the stamped rows that come next. Raises Misuse when they do not begin at `end`."""
        offsets = records.column(OFFSET)
        if records.num_rows and (offsets[0].as_py() != self.end or offsets[-1].as_py() != self.end + records.num_rows - 1):
            raise Misuse(
                f"{self.stream}:{self.origin} goes on at {self.end}, not at {offsets[0].as_py()}..{offsets[-1].as_py()}",
                code="offsets_not_consecutive",
            )
        if records.num_rows:
            self.newest_at_ms = max(self.newest_at_ms, int(records.column(ORDER_AT).to_numpy().max()))
        at = 0
        while at < records.num_rows:
            part = entries(records.slice(at, RUN - (len(self._tail) + self._skipped)))  # a run at a time spares memory
            self._tail += part
            at += len(part)
            self._close_full()

    def skip(self, end: int) -> None:
        """Skip the rows up to `end`, which can not be read: their runs get the root UNKNOWN."""
        while self.end < end:
            self._skipped += min(end - self.end, RUN - len(self._tail) - self._skipped)
            self._close_full()

    def tail_root(self) -> bytes | None:
        """Return the root of the rows since the last closed run; None when there are none, or not all could be read."""
        return Tree(self._tail).root() if self._tail and self.whole else None

    def all_sums(self) -> tuple[bytes, ...]:
        """Return the sums of the runs of `roots`, then of the open run, if it has a root."""
        return (*self.sums, sums_of(self._tail)) if self._tail and self.whole else tuple(self.sums)

    def clear_stored(self) -> None:
        """Start `roots` and `sums` again: all of them so far are stored in a statement."""
        self.roots, self.sums = [], []

    def _close_full(self) -> None:
        if len(self._tail) + self._skipped == RUN:
            root = Tree(self._tail).root() if self.whole else UNKNOWN
            self.head = next_head(self.head, root, self.runs)
            self.roots.append(root)
            self.sums.append(sums_of(self._tail) if self.whole else bytes(SUMS_BYTES))
            self.runs += 1
            self._tail, self._skipped = [], 0
