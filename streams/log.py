"""Log port: what every floor above may request of a node's log, whatever stores it (its own files, Kafka)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from streams.model.block import Block
from streams.model.errors import NotAllowed
from streams.model.identifiers import Origin, Position
from streams.model.ledger import GoneReason, Ledger
from streams.model.ranges import RangeSet
from streams.model.records import Batch

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


Witness = Callable[[str, Origin, Sequence[pa.RecordBatch], Callable[[str], int | None]], Append | None]
"""Function that receives the stamped rows of one (stream, origin) before their commit, and may return one more Append for that commit.

Its last argument returns the offset at which that Append will begin in a stream; None where the commit has other rows for the stream.

Called with the log's write lock held; it may read the log, and must not raise. The commit may yet fail: then the same offsets come again.
"""


@dataclass(frozen=True, slots=True)
class History:
    """One topic's rows merged in one order (order time, origin, offset), equal at every copy that holds the same records.

    `rows` has the columns `stream` and `origin` in addition to those of a batch. `positions`: per stream, the Position it was read at.
    """

    rows: pa.Table
    positions: dict[str, Position]


@dataclass(frozen=True, slots=True)
class HeldSpan:
    """Held offsets `first .. end - 1`, as this copy stores them. Order times (UTC ms, both inclusive) bound those inside, not tightly.

    `stored_bytes`: what they take here. Bytes that several spans share are counted at the first of them. `readable`: False in a block of a
    codec version that is unknown here: kept and served, not decoded.
    """

    first: int
    end: int
    order_first_ms: int
    order_last_ms: int
    stored_bytes: int
    readable: bool = True


@dataclass(frozen=True, slots=True)
class HeldBlock:
    """Block as it is stored; the copy holds its offsets `first .. end - 1`."""

    first: int
    end: int
    block: Block


class LogReader(Protocol):
    """Read access to a node's log: for the node itself, sessions, the API, Spark, tools.

    Safe from any thread; a reader in another process sees a consistent view and never blocks the writer. A snapshot is of one commit; its
    age at the time of use is not promised. Every method may raise RetryLater (the index is being rebuilt, Kafka does not answer). Where
    bytes do not verify, the log's own process sets them aside and passes them over. A reader elsewhere raises Corrupt, and another
    LandfallError where the index itself is damaged: only the writer repairs.
    """

    @property
    def node(self) -> str:
        """Node whose log this is. Never changes. A reader raises RetryLater while the log has no generation yet."""
        ...

    def streams(self) -> list[str]:
        """Return the names of all streams this copy knows, sorted. Called for lists, and when a session meets a peer.

        A stream stays known when all its records are gone or trimmed. A stream that headquarters has defined and no node has written is
        not included.
        """
        ...

    def ledger(self, stream: str) -> Ledger:
        """Return a snapshot of what this copy knows of `stream`, per origin; empty for an unknown stream.

        Called where ranges matter: sync, retention, proof. The snapshot belongs to the caller and does not change with the log. It does
        not promise that held bytes still verify: that shows when they are read.
        """
        ...

    def position(self, stream: str) -> Position:
        """Return the Position of this copy of `stream`: `position_of(ledger(stream))`, but cheap.

        Called to see whether there is anything new. The Position goes back in two cases only while the log lives: something is set aside
        (a damaged block, records that are not what was signed), or an old backup is restored.
        """
        ...

    def positions(self) -> Mapping[str, Position]:
        """Return the Position of every stream, all as the same commit left them.

        Called by components that read several streams up to one point in time, such as the watch. Promises what `position` promises.
        """
        ...

    def blocks(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[Block]:
        """Yield blocks that together hold every held offset of `first .. end - 1`, in ascending order, each offset once, cut at the
        edges.

        Called to send records on as they are stored. A block of an unknown codec version can not be cut and is yielded whole. A damaged
        frame is left out, set aside and reported: the ledger then wants its offsets again. The method does not promise where blocks
        begin, nor that all of them are of one commit: records that are trimmed during the iteration may be missing.
        """
        ...

    def whole_blocks(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[HeldBlock]:
        """Yield the blocks that `blocks` yields, but uncut, each with the offsets to take from it. Reads a block when it is requested.

        Called by callers that decode the blocks.
        """
        ...

    def run(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[Batch]:
        """Yield the rows of every held offset of `first .. end - 1`, decoded, in ascending order, at most READ_RECORDS_MAX rows a batch.

        Called by callers that know which offsets they want, across holes or not. Offsets that are not held are skipped without a report.
        Raises Misuse at a block of an unknown codec version.
        """
        ...

    def spans(self, stream: str, origin: Origin, first: int = 0) -> Iterator[HeldSpan]:
        """Yield what this copy holds from offset `first` on, ascending, without reading any block. Called by retention and by tools.

        Together the spans are the ledger's held offsets. The boundary between two spans means nothing, and may change at any time.
        """
        ...

    def read(self, stream: str, position: Position, topics: Collection[str] | None = None) -> Iterator[Batch]:
        """Yield all rows from `position` up to this copy's Position at the call, in offset order within each origin; only of `topics`,
        if given.

        Called by consumers. For a Position ahead of this copy it yields nothing: the copy is behind, and the caller waits for it. It
        never reads beyond a hole: rows after wanted offsets wait for them. It passes over offsets that are gone. It does not promise how
        origins interleave, nor where batches end. Raises Trimmed when `position` lies below this copy's floor, Misuse at a block of an
        unknown codec version.
        """
        ...

    def history(
        self, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None, streams: Collection[str] | None = None
    ) -> History:
        """Return every held row of `topic` with since <= order time < until (UTC ms), over `streams` (default: all with the topic), merged.

        Called for one container or ship. The answer skips holes and does not list missing rows: its `positions` give how far each stream
        is whole. Where thinning has left nothing else, it contains the rows thinning kept: their `stream` ends in `.kept`, `source_…` names
        the original record. It leaves out rows of blocks of an unknown codec version silently: `spans` lists those blocks.
        """
        ...

    def topic_rows(self, stream: str, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None) -> Iterator[Batch]:
        """Yield every held row of `topic` in one stream with since <= order time < until (UTC ms), ascending at each origin, as it was
        appended.

        Called by callers that hand records on. Unlike `history`, it merges nothing: a signal with different types in different rows keeps
        them, one type per batch. It reads across holes. As `history`, it leaves out rows of blocks of an unknown codec version.
        """
        ...

    def latest(self, stream: str, topic: str, nodes: Collection[str | None] | None = None) -> list[Batch]:
        """Return the last held row of `topic` at each origin of `stream` that has one, a batch of one row each. Searches from the end.

        `nodes`: search origins of these nodes alone, which saves reading the records of others.
        Called for states, settings and consumers' Positions, where the newest counts. "Last" is by offset, not by time; beyond a hole too.
        The search skips blocks of an unknown codec version: where `spans` lists one behind the row, the row may not be the last held.
        """
        ...

    def admissions(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield runs of held offsets of `first .. end - 1` that this copy admitted from elsewhere, ascending: first offset, end,
        admission time.

        The admission time is the end of the minute, UTC ms. The log's own records have no runs. Called by callers that must not trust the
        time in the record itself.
        """
        ...

    def own(self, batch: Batch) -> Batch:
        """Return the rows of a batch of `run` or `read` that their writer may write.

        Everything that acts on records or shows them takes these rows alone. `history`, `topic_rows` and `latest` return no others.
        """
        ...


class Log(LogReader, Protocol):
    """Log of a node, opened by the one process that writes it. Safe from any thread; commits go one after another.

    All writing methods have this in common. When a method returns, its change is durable and every reader sees it. When it raises, none
    of its changes is made, and the earlier content stands.

    If the local disk of a log in Kafka is full at that moment, readers, Position and ledger show the change later. It appears once the
    disk has room again and upkeep has made a step, or before the next write. Until then every writing method raises RetryLater.

    A writing method raises RetryLater when the disk is full or read-only, or Kafka does not answer: the same call may succeed later. It
    raises Misuse for an invalid stream, range or reason, and for more than one commit can hold. It raises Unclear, a RetryLater, where
    Kafka did not report whether it committed, or a refused commit could not be cut off the disk. Then either the whole change was made or
    none of it, and a repeat is harmless (of an append, with producer and sequence). A log in Kafka also raises Fenced when another
    process has taken the log over, for good. It raises Corrupt when the content in Kafka is not what this log wrote there.
    """

    @property
    def origin(self) -> Origin:
        """Origin of records appended here: this node and its present generation.

        It changes with `open_generation`, so callers do not keep it beyond a call: an answer to `append` contains the origin it used.
        """
        ...

    def newest_received_ms(self) -> int:
        """Return the newest received time (UTC ms) in the present generation, 0 while it has no record. Ages of other records count back
        from it."""
        ...

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Give offsets to new records: all of `appends` or none, in one commit. Durable (one fdatasync) when it returns.

        Called by the node for its own records and by its append door. Offsets are the next ones of (stream, `origin`), dense, and
        received times never go back at it; where a new generation begins they may, with the clock. A sequence that is not above the
        producer's last adds nothing and is answered `repeated`. Does not promise that callers' commits come in the order of their calls,
        and does not search records for duplicates.

        Raises Misuse for records `check_given` refuses, or a producer or sequence no log can keep, and as every writing method.
        """
        ...

    def repeats(self, append: Append) -> bool:
        """Return whether `append` would now be answered `repeated`: its producer has sent this sequence, or a later one, before.

        The door calls it before it refuses what it took earlier, so that a retry gets the answer of the first attempt. Writes nothing. Does
        not know of concurrent appends. Raises RetryLater while a log in Kafka can not say whether its last commit was kept.
        """
        ...

    def admit(self, blocks: Sequence[Block]) -> int:
        """Admit blocks from elsewhere, any ranges, in any order; return how many records were new. Durable when it returns. Idempotent.

        Called with blocks that peers send or a carried file brings. Offsets already held or below the floor are passed over; held records
        are never replaced. Gone offsets of this node's own are not admitted again. Gone offsets of another node's are admitted, and are
        not gone any more: another node's claim that they are gone may be untrue, the record itself is not. A consumer that has passed
        them by is not given them.

        Does not check that the records are what their origin signed: that is judged afterwards. Raises Corrupt for a block whose payload
        can not be what its header says. Raises PeerKnowsMore for a block of this very origin's own future, Misuse for a block that Kafka
        accepts in no record, and as every writing method. In each case none of `blocks` is admitted.
        """
        ...

    def replace(self, block: Block, unread: RangeSet) -> int:
        """Admit this one block as `admit` does, but first release its held offsets in `unread`, which the disk can not read any more.

        Called with a block that a peer has sent for those offsets. The release is reported as damage, piece by piece. The method releases
        offsets only once it has checked that the block can be what its header says. If the block can not be written then, the released
        offsets are wanted again. Raises as `admit`.
        """
        ...

    def declare_gone(self, stream: str, origin: Origin, first: int, end: int, reason: GoneReason) -> None:
        """Record that `first .. end - 1` will never come: held records there are dropped of this node's own, and stay of another's.

        Called by the origin, which alone decides it, when it thins or loses records, and by copies that receive its claim. Durable and
        idempotent; for this node's own offsets final. Readers are passed over these offsets from then on. Does not reach copies that hold
        the records, which keep them, whichever came first. The disk space is freed later. Raises Misuse for offsets of `origin` that were
        not given yet, and as every writing method.
        """
        ...

    def declare_all_gone(self, stream: str, origin: Origin, ranges: RangeSet, reason: GoneReason) -> None:
        """Declare all `ranges` gone, as `declare_gone` does, in one commit: all of them or none. Raises as `declare_gone`.

        Empty `ranges`, or ranges that are gone already, change nothing.
        """
        ...

    def trim(self, stream: str, origin: Origin, floor: int) -> None:
        """Drop everything of (stream, origin) below `floor` from this copy, and remember that. Durable. Never moves a floor back.

        Called by retention, with the first offset that is kept. From then on offsets below are not held, wanted or admitted again;
        offsets that were declared gone there stay gone. A floor that is not above the present one changes nothing. The stream stays
        known, and its offsets continue. Other copies are not touched. Does not check whether another node has the records, and does not
        wait for consumers: one below the floor gets Trimmed. Does not promise when the disk has room for it: upkeep frees files later,
        Kafka its segments. Raises Misuse for a floor below 0 or beyond what this log's own origin has given, and as every writing method.
        """
        ...

    def set_aside(self, stream: str, origin: Origin, first: int, end: int, why: str) -> int:
        """Set aside the held records of `first .. end - 1`, which are not what their origin signed: keep their bytes apart and want them
        again.

        Called by the watch over signatures, with `why` for `exceptions`. Returns the number of these offsets: 0 where none is held, which
        changes nothing. The change is then durable, also through a rebuilt index, and reported as damage, block by block. The copy's
        Position may go back. Unlike the other writing methods it is no single commit: where it raises, what was set aside before stays
        so, and the same call does the rest. It does not prevent the same records from being admitted again: a node that requests them
        asks another peer. Raises Misuse for records of this node's own, which no other node may have, and for an invalid range; else as
        every writing method.
        """
        ...

    def own_end(self, stream: str, origin: Origin) -> int:
        """Return one past the last offset that this log itself gave under `origin`, its present one or an older one; 0 when it gave
        none.

        Called to distinguish the log's own records from those of a twin. Records that the log holds from that offset on came back from
        elsewhere.
        """
        ...

    def open_generation(self, why: str) -> Origin:
        """Open a new origin for later appends, which names the present one as its predecessor, and return it. Durable.

        Called after PeerKnowsMore or a restore, when the log can not prove to be the latest. The log itself does so at opening, and when
        a rebuilt index leaves doubt. `why` is kept with it, for people. Offsets of each stream begin at 0 under the new origin, which is
        above every earlier generation of this log. Records of the old origins stay as they are, `own_end` still returns their end, and
        their producers are still known: a retry is answered with the old origin. The marker names the new origin when this returns. Does
        not fetch lost records: sync does. Does not promise that two copies of one log can not both open a generation: they get different
        ones, by chance of 20 bits and the clock. Raises as every writing method; then the old origin stays in use.
        """
        ...

    def witnessed_by(self, witness: Witness) -> None:
        """Show every later commit of appends to `witness` first; the Append it returns is part of that commit. A later witness replaces
        this one.

        Called once, by the node, with its signer. Admitted blocks are not shown.
        """
        ...

    def subscribe(self, changed: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Call `changed` with the streams of every commit, right after it, from the thread that committed; returns how to stop that.

        Called by components that wait for news. `changed` must return at once, not raise and not call the log. A call may still come while
        it is being stopped, and calls may come out of the order of commits: a call says that there is something new, not what.
        """
        ...

    def close(self) -> None:
        """Release the files once a commit under way is done. Everything appended is durable already.

        Called when nobody uses the log any more. Later calls of other methods fail in any way, and write to no file. A second `close`
        does nothing.
        """
        ...


class PeerKnowsMore(NotAllowed):
    """A peer holds more of this node's own origin than this log does: the log is an old copy and must open a new generation."""

    code = "peer_knows_more"


class NotProven(NotAllowed):
    """A block of records that others act upon, of a node whose key is known, is not covered by anything that node signed.

    `forged`: it signed something else.
    """

    code = "not_proven"

    def __init__(self, message: str, forged: bool, code: str = "") -> None:
        super().__init__(message, code=code)
        self.forged = forged


class UnknownWriter(NotProven):
    """Block by a node that is unknown here, in a stream where the writer matters."""

    code = "writer_unknown"

    def __init__(self, message: str) -> None:
        super().__init__(message, forged=True)


class Upkeep(Protocol):
    """Background work of a log kept in files of its own: merging, moving, freeing. It changes no record, offset, ledger or Position.

    Safe from any thread, concurrently with all other methods. A commit waits only while the index is swapped.
    """

    def step(self) -> bool:
        """Do one bounded piece of work: merge a group of small blocks, move what a half-dead file still holds, or free a file.

        Called repeatedly by the node, in the background. Returns whether there is more to do now. Whenever the process dies, every record
        is found once: at its old place or at its new one. Raises RetryLater when the disk is full.
        """
        ...

    def walk(self) -> Iterator[int]:
        """Verify what the log's files hold around the blocks (reading verifies the blocks); yield, after each part, its size in bytes.

        Called in rounds by the node, in the background. What does not verify is reported once in the life of the process; nothing is lost
        with it while there is an index. Raises LandfallError where the index does not read.
        """
        ...
