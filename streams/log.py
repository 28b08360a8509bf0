"""The Log port: what every floor above may ask of a node's log, whatever keeps it (its own files, Kafka)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from streams.block import Block
from streams.errors import NotAllowed
from streams.ledger import GoneReason, Ledger
from streams.records import Batch
from streams.words import Origin, Position

READ_RECORDS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Append:
    """Records for one stream, to be given offsets here.

    `producer` and `sequence` make a retry harmless: a sequence not above the last one of (stream, producer) changes nothing.
    """

    stream: str
    records: pa.RecordBatch
    producer: str | None = None
    sequence: int | None = None

    def __post_init__(self) -> None:
        if (self.producer is None) != (self.sequence is None):
            raise ValueError("producer and sequence go together")


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to one Append: offsets `first .. first + count - 1` of this node's origin.

    `repeated` (count 0): it was a retry, and `origin` and `first` are those given to the producer's last sequence, perhaps in an older
    generation.
    """

    stream: str
    origin: Origin
    first: int
    count: int
    repeated: bool = False


Witness = Callable[[str, Origin, Sequence[pa.RecordBatch]], Append | None]
"""What a log shows the stamped rows of one (stream, origin) before it commits them: it may answer with one more Append for that commit.

Called with the log's write lock held; it may read the log, and must not raise. The commit may yet fail: then the same offsets come again.
"""


@dataclass(frozen=True, slots=True)
class History:
    """One topic's rows merged in one order (order time, origin, offset), equal at every copy that holds the same records.

    `rows` has the columns `stream` and `origin` beside those of a batch. `positions` says, per stream, the Position it was read at.
    """

    rows: pa.Table
    positions: dict[str, Position]


@dataclass(frozen=True, slots=True)
class Span:
    """Held offsets `first .. end - 1`, as this copy stores them. Order times (UTC ms, both inclusive) bound those inside, not tightly.

    `stored_bytes`: what they take here. Bytes that several spans share are counted at the first of them.
    """

    first: int
    end: int
    order_first_ms: int
    order_last_ms: int
    stored_bytes: int


class LogReader(Protocol):
    """Reading a node's log. Safe from any thread; a reader in another process sees a consistent view and never blocks the writer."""

    def streams(self) -> list[str]:
        """The names of all streams this copy knows, sorted."""
        ...

    def ledger(self, stream: str) -> Ledger:
        """A snapshot of what this copy knows of `stream`, per origin; empty for a stream it has never heard of."""
        ...

    def position(self, stream: str) -> Position:
        """The Position of this copy of `stream`: `position_of(ledger(stream))`, but cheap."""
        ...

    def positions(self) -> Mapping[str, Position]:
        """The Position of every stream, all as one and the same commit left them."""
        ...

    def blocks(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[Block]:
        """Blocks that together hold every held offset of `first .. end - 1`, in ascending order, each offset once, cut at the edges.

        A block of an unknown codec version can not be cut and comes whole. A damaged frame is left out, set aside and reported: the ledger
        then wants its offsets again. Nothing is promised about where blocks begin.
        """
        ...

    def run(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[Batch]:
        """The rows of every held offset of `first .. end - 1`, decoded, in ascending order, at most READ_RECORDS_MAX rows a batch."""
        ...

    def spans(self, stream: str, origin: Origin, first: int = 0) -> Iterator[Span]:
        """What this copy holds from offset `first` on, ascending, told without reading any block.

        Together they are the ledger's held offsets; where one ends and the next begins means nothing, and may change at any time.
        """
        ...

    def read(self, stream: str, position: Position, topics: Collection[str] | None = None) -> Iterator[Batch]:
        """All rows from `position` up to this copy's Position at the call, in offset order within each origin; only of `topics`, if given.

        Never beyond a hole: what lies after wanted offsets waits for them. Promises nothing about how origins interleave.
        Raises Trimmed when `position` lies below this copy's floor.
        """
        ...

    def history(
        self, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None, streams: Collection[str] | None = None
    ) -> History:
        """Every held row of `topic` with since <= order time < until, over `streams` (default: all that know the topic), merged.

        Where thinning has left nothing else, the rows it kept: their `stream` ends in `.kept`, `source_…` says which record each was.
        """
        ...

    def latest(self, stream: str, topic: str) -> list[Batch]:
        """The last held row of `topic` at each origin of `stream` that has one, a batch of one row each. Found from the end."""
        ...


class Log(LogReader, Protocol):
    """A node's log, opened by the one process that writes it. Safe from any thread."""

    @property
    def node(self) -> str:
        """The node whose log this is."""
        ...

    @property
    def origin(self) -> Origin:
        """The origin of what is appended here: this node, and the generation opened when the log was."""
        ...

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Give offsets to new records: all of `appends` or none, in one commit. Durable (one fdatasync) when it returns.

        Called by the node for its own records and by its append door. Received times are monotone per stream.
        Raises RetryLater when the disk is full (nothing changed), Misuse for records `check_given` refuses.
        """
        ...

    def admit(self, blocks: Sequence[Block]) -> int:
        """Take blocks from elsewhere, any ranges, in any order; returns how many records were new. Durable when it returns. Idempotent.

        Offsets already settled are passed over; nothing held is ever replaced. Raises Corrupt for a block whose payload can not be what its
        header says, PeerKnowsMore for a block of this very origin's own future, RetryLater when the disk is full.
        """
        ...

    def declare_gone(self, stream: str, origin: Origin, first: int, end: int, reason: GoneReason) -> None:
        """Record that `first .. end - 1` will never come; held records there are dropped. Durable, idempotent. The origin alone decides."""
        ...

    def trim(self, stream: str, origin: Origin, floor: int) -> None:
        """Drop everything of (stream, origin) below `floor` from this copy, and remember that. Never moves a floor back."""
        ...

    def set_aside(self, stream: str, origin: Origin, first: int, end: int, why: str) -> int:
        """What is held of `first .. end - 1` is not what its origin signed: its bytes are kept aside, and it is wanted again.

        Returns how many offsets that is. Not for records of this node's own, which nobody else may have.
        """
        ...

    def own_end(self, stream: str, origin: Origin) -> int:
        """One past the last offset that this log itself gave under `origin`, its present one or an older one; 0 when it gave none.

        What it holds from there on came back from elsewhere.
        """
        ...

    def open_generation(self, why: str) -> Origin:
        """From now on appends go to a new origin, which names this one as its predecessor. Called after PeerKnowsMore, or a restore."""
        ...

    def witnessed_by(self, witness: Witness) -> None:
        """From now on every commit of appends is shown to `witness` first; what it answers is part of that commit. One at most."""
        ...

    def subscribe(self, changed: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Call `changed` with the streams of every commit, right after it, from the thread that committed; returns how to stop that.

        `changed` must return at once and not call the log.
        """
        ...

    def close(self) -> None:
        """Everything appended is durable already; releases the files. The log can not be used afterwards."""
        ...


class PeerKnowsMore(NotAllowed):
    """A peer holds more of this node's own origin than this log does: the log is an old copy and must open a new generation."""


class Upkeep(Protocol):
    """What a log kept in files of its own needs besides: merging, moving, freeing, repair. Nothing of it changes a record, an offset, a
    ledger or a Position. Safe from any thread beside all else; a commit waits for the moment alone in which the index is swapped.
    """

    def step(self) -> bool:
        """One bounded piece of work: merge a group of small blocks, move what a half-dead file still holds, or free a file.

        Called again and again by the node, in the background. Returns whether there is more to do now. Whenever the process dies, every
        record is found once: where it was, or where it went. Raises RetryLater when the disk is full.
        """
        ...

    def check(self, stream: str, origin: Origin) -> int:
        """Reads every block of (stream, origin) and verifies it; returns how many offsets were set aside, reported and wanted again."""
        ...
