"""The path of a commit into Kafka: one transaction, then the index, then memory; and what to do when Kafka does not report the result."""

from __future__ import annotations

import hashlib
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from landfall.storage.append_planner import NewBlock
from landfall.storage.damage import Damage
from landfall.storage.disk import Disk
from landfall.storage.epoch_marker import Marker, check_node
from landfall.storage.frames import FrameHeader
from landfall.storage.index import INDEX_NAME, IndexDamaged
from landfall.storage.index_integrity import wal_problem
from landfall.storage.index_writer import IndexWriter, put_in_place, remove_index
from landfall.storage.kafka.kafka_configuration import Fenced, check_lets_in
from landfall.storage.kafka.kafka_reader import leave_settings
from landfall.storage.kafka.kafka_records import COMMIT_MAX, block_headers, control_records
from landfall.storage.kafka.kafka_topics import KafkaTopics
from landfall.storage.kafka.lease import Lease
from landfall.storage.kafka.settings import KafkaLogSettings
from landfall.storage.kafka.topic_follower import NO_FILE, KafkaTopicFollower, RecordsLost, change_of
from landfall.storage.kafka.topic_names import KafkaTopicNames
from landfall.storage.kafka.transactions import NOTHING_CHANGED, LogTransactions, Outgoing
from landfall.storage.log_state import Book, FileLocation, LineKey, PlacedBlock
from landfall.storage.rejected_records import Disowned
from streams.commit_points import commit_point
from streams.integrity.record_authorization import Entitled
from streams.model.errors import Corrupt, LandfallError, Misuse, RetryLater, Unclear

MARKER_COMMITS = 4_096
"""Number of commits after which the marker is synced; it records every one."""
FOLLOW_EVERY_S = 1.0
"""Time between two looks of a standby for what the writer has added, seconds: what it has read already, it need not read when it takes
over.
"""
logger = logging.getLogger("landfall.log")


@dataclass(frozen=True, slots=True)
class KafkaLogPlace:
    """The place of the log of `node`: in Kafka as `settings` define; its index in `folder`, its marker outside of it."""

    settings: KafkaLogSettings
    node: str
    folder: Path
    marker: Path

    @property
    def names(self) -> KafkaTopicNames:
        """Names of its Kafka topics."""
        return KafkaTopicNames(self.settings.prefix)


def instance(place: KafkaLogPlace) -> str:
    """Return the name of the process that has this folder on this machine: one at a time, which the folder's lock ensures."""
    folder = hashlib.sha256(f"{socket.gethostname()}:{place.folder.absolute()}".encode()).hexdigest()[:16]
    return f"{place.node}.{folder}"


def _silent(damage: Damage) -> None:
    """Ignore the damage: no caller asked for reports."""


@dataclass(frozen=True, slots=True)
class KafkaLogOptions:
    """The options that the node or a test may set.

    `on_damage` is called, from the thread that finds it, for records that do not verify and are set aside; it must not call the log. A
    standby stops waiting once `stopping` is set. `entitled` decides who may write which records; None: all records count. The other options
    are for tests.
    """

    on_damage: Callable[[Damage], None] = _silent
    stopping: threading.Event = field(default_factory=threading.Event)
    disk: Disk = field(default_factory=Disk)
    randbits: Callable[[int], int] = secrets.randbits
    transactions: Callable[[KafkaLogSettings], LogTransactions] = LogTransactions
    lease: Callable[[KafkaLogSettings, str, str], Lease] = Lease
    entitled: Entitled | None = None


class KafkaKeeper:
    """The keeper of a log in Kafka. It is not safe to use from several threads: the log's lock guards it.

    A commit is 1 to 3 of `LogTransactions`, 4 indexed in one SQLite transaction, 5 remembered in memory. If the process is killed after 3,
    the commit is kept: opening brings the index up. Kafka may not report whether 3 is done, or another producer of the log may end this one
    while it is this process's turn. A new producer then ends it one way or the other, and reading shows which.
    """

    def __init__(self, place: KafkaLogPlace, options: KafkaLogOptions, disowned: Disowned) -> None:
        """Wait for the turn to write, and open. Raises RetryLater, NotAllowed; Misuse when `tls_ca` does not read."""
        self._place, self._disk, self._stopping = place, options.disk, options.stopping
        self._marker = Marker(place.marker, place.node, options.disk)
        self._marker_due = 0
        self._settled = True
        """True while the book has all that Kafka was ever asked to commit."""
        self._lost: Fenced | Corrupt | None = None
        settings, names = place.settings, place.names
        check_lets_in(settings, settings.answer_s)
        self._topics = KafkaTopics(settings, names)
        self._topics.make_control()
        self._follower = KafkaTopicFollower(settings, names, options.on_damage, disowned)
        check_node(place.node, self._follower.node(), names.control)  # before anything here reports a log that is another node's
        leave_settings(place.folder, settings)  # before there is an index: without, a reader takes it for that of a log in files
        self._transactions = options.transactions(settings)
        self._lost_records: str | None = None
        self.book, self._index = self._opened()
        self._lease = options.lease(settings, names.control, instance(place))
        with ExitStack() as undo:
            undo.callback(self.close)
            self.doubt = self._take_over()
            undo.pop_all()

    def ready(self) -> None:
        """Settle what an earlier commit may have left open, so that the book has it. Raises RetryLater; Fenced when another process is
        known to write the log.
        """
        self.check_ours()
        if not (self._settled and self._transactions.connected):
            self._reconnect()

    def settle(self) -> None:
        """Bring what Kafka may have committed and the book does not have into the index and the book. Raises RetryLater when the disk is
        full or Kafka does not answer; Fenced when another process is known to write the log.
        """
        self.check_ours()
        if not self._settled:
            self._reconnect()

    def check_ours(self) -> None:
        """Raise Fenced when another process is known to write the log, Corrupt when Kafka lost what it had acknowledged."""
        if self._lost is not None:
            raise self._lost

    def commit(self, header: FrameHeader, blocks: Sequence[NewBlock] = ()) -> None:
        """Make `header` and `blocks` committed, indexed and part of the book; `commit` of the header is filled in here. When the index can
        not be written, they are only committed. They are in index and book once `settle` or `ready` returns; there is no other commit
        before that.

        Raises RetryLater when Kafka does not take it: then nothing has changed; Unclear when Kafka did not report the result, even after a
        wait. Raises Fenced when another process writes the log by now; Misuse when another writer has used up the log's commit numbers.
        """
        number = self.book.commit + 1
        if number > COMMIT_MAX:
            raise Misuse(
                f"commit {number} can not be distinguished from what others write",
                hint="give the log another prefix: peers bring its records",
                code="commits_exhausted",
            )
        header = msgspec.structs.replace(header, commit=number)
        streams = {new.block.stream for new in blocks}
        self._topics.make(streams)
        control = [Outgoing(self._place.names.control, value, [("commit", str(number))], key) for key, value in control_records(header)]
        sent = [*(self._outgoing(new, number) for new in blocks), *control]
        try:
            offsets = self._transactions.write(sent)
            self._settled = False
            self._transactions.commit()
        except (Fenced, Unclear) as problem:
            self._clear_up(problem)
            if self.book.commit < number:
                raise RetryLater("Kafka did not take it", hint=NOTHING_CHANGED, code="kafka_refused") from None
        except RetryLater as problem:
            self._settled = True
            raise RetryLater(str(problem.args[0]), hint=self._topics.why_short(streams), code="kafka_refused") from problem
        else:
            self._take(header, blocks, sent, offsets)
        with suppress(OSError):  # what the marker said before is true too
            self._marker.note((*self.book.openings, *header.openings)[-1].generation, number)
        commit_point("log.kafka.indexed")
        if number >= self._marker_due:
            self.refresh_marker()
        self._drop_fronts({floor.stream for floor in header.floors} | {gone.stream for gone in header.gone})

    def set_aside(self, key: LineKey, first: int, end: int) -> None:
        """Mark offsets `first .. end - 1`, which do not verify, as wanted again. Raises RetryLater when the index can not be written."""
        changed = self.book.line(key).without(first, end)
        self._index.set_aside(key, first, end, changed)
        self.book.set_lines({key: changed})

    def rebuild_index(self, why: str) -> str | None:
        """Rebuild the index and the book from the broker, because of `why`. Raises RetryLater when it does not answer."""
        logger.warning("the index is damaged, and rebuilt from the broker: %s", why)
        self.book, self._index = self._rebuilt(self._index.close)
        return None

    def refresh_marker(self) -> None:
        """Write this generation and commit to the marker, on the disk too. If the disk is full, the next commit tries again."""
        with suppress(OSError):
            self._marker.write(self.book.openings[-1].generation, self.book.commit)
            self._marker_due = self.book.commit + MARKER_COMMITS

    def close(self) -> None:
        """Release everything; another process may write."""
        self._transactions.close()
        self._lease.close()
        self._index.close()

    def _outgoing(self, new: NewBlock, commit: int) -> Outgoing:
        return Outgoing(self._place.names.topic(new.block.stream), new.block.to_bytes(), block_headers(new, commit))

    def _take(self, header: FrameHeader, blocks: Sequence[NewBlock], records: Sequence[Outgoing], offsets: Sequence[int]) -> None:
        """Put what is committed into index and book. When the disk is full or the index damaged, it goes into neither: no reader sees what
        others do not, and the next write finds the damage before anything of it is committed.
        """
        placed = [
            PlacedBlock(new.block, FileLocation(NO_FILE, at, len(record.value)), new.topics, new.received_at_ms, admitted=new.admitted)
            for new, record, at in zip(blocks, records, offsets, strict=False)
        ]
        followed = {record.topic: at + 1 for record, at in zip(records, offsets, strict=True)}
        change = change_of(self.book, header, placed, followed)
        with suppress(RetryLater, IndexDamaged):
            self._index.apply([change])
            self.book.take(change)
            self._settled = True

    def _drop_fronts(self, streams: Collection[str]) -> None:
        """Let Kafka delete the records before the first that holds anything. When it does not answer, that waits for the next trim or
        loss.
        """
        for stream in streams:
            [(before,)] = self._index.rows(
                "SELECT min(pieces.at) FROM pieces JOIN lines ON lines.id = pieces.line WHERE lines.stream = ?", (stream,)
            )
            self._topics.make([stream])
            with suppress(RetryLater):
                self._topics.drop_front(stream, before)

    def _clear_up(self, cause: Fenced | Unclear) -> None:
        try:
            self._reconnect()
        except (RetryLater, IndexDamaged) as problem:
            if self._settled:
                raise RetryLater(str(problem.args[0]), hint=NOTHING_CHANGED, code="kafka_refused") from cause
            raise Unclear(str(cause.args[0]), hint="whether it was kept shows when Kafka answers again", code="kafka_unclear") from problem

    def _reconnect(self) -> None:
        """Connect a new producer: what the one before it left open is settled, and in the book. Raises RetryLater, Fenced, Corrupt.

        It first asks Kafka whose turn it is: a process that was suspended would otherwise end the producer of the process that has taken
        over.
        """
        self._transactions.close()
        try:
            self._lease.confirm(self._place.settings.answer_s)
        except Fenced as problem:
            self._lost = problem
            raise
        self._transactions.connect()
        book = self.book.copy()
        try:
            self._follower.follow(book, self._index)
        except RecordsLost as problem:
            self._lost = Corrupt(
                f"Kafka lost what it had acknowledged: {problem}",
                hint="start the node again: it opens a new generation",
                code="kafka_records_lost",
            )
            raise self._lost from problem
        except LandfallError:
            self._transactions.close()
            self.book = self._index.load()  # which may have a part of what was followed
            raise
        self.book, self._settled = book, True

    def _take_over(self) -> str | None:
        """Wait until this process may write, end all others, and read what they wrote. Return why this may not be the latest copy, or
        None.
        """
        self._follow()
        doubt = self._why_not_latest()
        asked_s, standby_s = time.monotonic(), self._place.settings.standby_s
        waits = False
        while not self._lease.held(FOLLOW_EVERY_S):
            if standby_s is not None and time.monotonic() > asked_s + standby_s:
                raise RetryLater(
                    f"another process writes the log {self._place.settings.prefix}",
                    hint="stop it, or wait for it to end",
                    code="log_locked",
                )
            if self._stopping.is_set():
                raise RetryLater("asked to end while another process writes the log", code="asked_to_end")
            if not waits:
                logger.info(
                    "stands by: another process writes the log %s, or one that was killed still counts as doing so",
                    self._place.settings.prefix,
                )
                waits = True
            self._follow()
            if doubt is None:
                self.refresh_marker()
        self._transactions.connect()
        self._follow()
        return self._lost_records or doubt or self._why_not_latest()

    def _follow(self) -> None:
        """Bring index and book up to date with the broker. Rebuild them when the broker has less than they record."""
        try:
            self._follower.follow(self.book, self._index)
        except IndexDamaged as problem:
            self._lost_records = str(problem) if isinstance(problem, RecordsLost) else self._lost_records
            self._index.close()
            self.book, self._index = self._rebuilt()

    def _why_not_latest(self) -> str | None:
        if not self.book.openings:
            return "the log is new"
        return self._marker.why_not_latest(self.book.openings[-1].generation, self.book.commit)

    def _opened(self) -> tuple[Book, IndexWriter]:
        path = self._place.folder / INDEX_NAME
        if not path.exists():
            return self._rebuilt()
        if (damaged := wal_problem(path)) is not None:
            logger.warning("the index: %s: cut short with the power, or damaged; what follows in it is taken from the broker", damaged)
        try:
            with ExitStack() as failed:
                index = failed.enter_context(closing(IndexWriter.open_for(path, self._disk)))
                book = index.load()
                index.verify(book)
                failed.pop_all()
        except IndexDamaged as problem:
            logger.warning("the index is damaged, and rebuilt from the broker: %s", problem)
            return self._rebuilt()
        return book, index

    def _rebuilt(self, release: Callable[[], None] = lambda: None) -> tuple[Book, IndexWriter]:
        """Build the index again next to the old one, which `release` closes, and put it in the old one's place. Readers see either the old
        or the new index.
        """
        path, new_path = self._place.folder / INDEX_NAME, self._place.folder / f"new-{INDEX_NAME}"
        remove_index(new_path)
        book = Book()
        with closing(IndexWriter.open_for(new_path, self._disk)) as index:
            self._follower.follow(book, index)
        release()
        remove_index(path)
        put_in_place(new_path, path)
        self._disk.sync_folder(self._place.folder)
        return book, IndexWriter.open_for(path, self._disk)
