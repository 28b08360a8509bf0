"""The log in Kafka: one Kafka topic per stream, a block per Kafka record, a commit per transaction."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from landfall.storage.append_planner import NewBlock
from landfall.storage.disk import CLOSED
from landfall.storage.kafka.commit_transaction import KafkaKeeper, KafkaLogOptions, KafkaLogPlace
from landfall.storage.kafka.kafka_reader import KafkaLogReader
from landfall.storage.kafka.record_sizes import SizedCodec
from landfall.storage.log_core import KeptLog
from landfall.storage.log_opener import lock_folder
from landfall.storage.rejected_records import Disowned
from landfall.storage.segments import SEGMENTS
from streams.log import Append, Appended, Upkeep
from streams.model.block import Block, Codec
from streams.model.clock import Clock
from streams.model.errors import LandfallError, Misuse, Unclear

URGENT = ("alerts",)
"""Streams whose appends wait for no other appends."""


@dataclass(slots=True)
class _Caller:
    appends: Sequence[Append]
    answers: list[Appended] | None = None
    problem: LandfallError | None = None
    done: bool = False


class Gathering:
    """A gatherer of several callers' appends into one transaction: the first waits a moment for the others, unless it is urgent.

    It is safe to use from any thread. A caller's mistake affects only that caller.
    """

    def __init__(self, append: Callable[[Sequence[Append]], list[Appended]], gather_ms: int) -> None:
        self._append = append
        self._gather_s = gather_ms / 1000
        self._waiting: list[_Caller] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._urgent = threading.Event()

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Return what `append` answers for `appends`, durable then, all of them or none. Raises what it raises."""
        caller = _Caller(appends)
        with self._lock:
            self._waiting.append(caller)
        if any(append.stream in URGENT for append in appends):
            self._urgent.set()
        with self._turn:
            if not caller.done:
                self._urgent.wait(self._gather_s)
                self._commit(self._taken())
        if caller.problem is not None:
            raise caller.problem
        if caller.answers is None:
            raise Unclear("the thread that appended this together with its own records failed", hint="its own error says why")
        return caller.answers

    def _taken(self) -> list[_Caller]:
        with self._lock:
            callers, self._waiting = self._waiting, []
            self._urgent.clear()
        return callers

    def _commit(self, callers: Sequence[_Caller]) -> None:
        try:
            answers = iter(self._append([append for caller in callers for append in caller.appends]))
            for caller in callers:
                caller.answers = [next(answers) for _ in caller.appends]
        except Misuse as problem:
            if len(callers) > 1:
                for caller in callers:
                    self._commit([caller])
            else:
                callers[0].problem = problem
        except LandfallError as problem:
            for caller in callers:
                caller.problem = problem
        finally:
            for caller in callers:
                caller.done = True


class KafkaLog(KeptLog, KafkaLogReader):
    """A node's log in Kafka, written by this process alone. It is safe to use from any thread; commits go one after another.

    `folder` holds only the index, which is rebuilt from the broker when it is lost. Another process that opens the log stands by. When it
    takes over, every write of this one raises Fenced, and changes nothing.
    """

    def __init__(self, place: KafkaLogPlace, codec: Codec, clock: Clock, options: KafkaLogOptions) -> None:
        """Open the log, or make it, after the process that writes it now has gone. The marker lies outside the folder and in no backup.

        Raises Misuse when the log is another node's or in files, RetryLater when Kafka does not answer, NotAllowed when it refuses the
        login.
        """
        settings, folder = place.settings, place.folder
        super().__init__(place.node, codec, clock, options.on_damage, options.randbits)
        self._encoding = self._sized = SizedCodec(codec, settings.record_bytes_max)
        self._gathering = Gathering(super().append, settings.gather_ms)
        if (folder / SEGMENTS).exists():
            raise Misuse(
                f"{folder} holds a log in files",
                hint="give the log in Kafka a folder of its own; a peer brings the records over",
                code="log_in_files",
            )
        with ExitStack() as undo:
            self._lock_descriptor = lock_folder(folder, group=settings.group)
            undo.callback(os.close, self._lock_descriptor)
            self._disowned = Disowned(folder, options.disk, codec)
            if self._disowned.damaged is not None:
                options.on_damage(self._disowned.damaged)
            self._keeper = self._kafka = KafkaKeeper(place, options, self._disowned)
            undo.callback(self._kafka.close)
            self._check_node(place.names.control)
            KafkaLogReader.__init__(self, folder, codec, entitled=options.entitled)
            undo.callback(super().close)
            self._enter(self._kafka.doubt)
            undo.pop_all()

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Assign offsets to new records, together with other threads' appends within `gather_ms`, and return the answers; alerts do not
        wait.

        Raises RetryLater, Misuse as any log. Raises Unclear, a RetryLater, when Kafka did not report whether it took them: with a producer
        and its sequence the same append can be repeated without harm. Raises Fenced when another process writes the log by now.
        """
        return self._gathering.append(appends)

    @property
    def upkeep(self) -> Upkeep:
        """The background work of the node: Kafka maintains itself, so little is left."""
        return KafkaUpkeep(self)

    def settle(self) -> None:
        """Make available to every reader what Kafka has committed and the local disk had no space to index.

        Raises RetryLater when there is no space yet or Kafka does not answer; Fenced when another process has taken over.
        """
        with self._write_lock, self._notifying():
            self._with_index(self._kafka.settle)

    def close(self) -> None:
        """Release everything. The log can not be used afterwards."""
        with self._write_lock:
            if self._lock_descriptor != CLOSED:
                super().close()
                self._kafka.refresh_marker()
                self._kafka.close()
                os.close(self._lock_descriptor)
                self._lock_descriptor = CLOSED

    def _to_store(self, block: Block) -> list[NewBlock]:
        return [new for part in self._fitting(block) for new in super(KafkaLog, self)._to_store(part)]

    def _fitting(self, block: Block) -> Iterator[Block]:
        """Yield the block, cut until each part fits a Kafka record."""
        if self._sized.fits(block):
            yield block
        elif block.count == 1 or not self._codec.knows(block.codec):
            raise Misuse(
                f"{block.stream}:{block.origin} {block.first}..{block.end - 1} takes {len(block.payload)} bytes and can not be cut here",
                hint="raise record_bytes_max in the node's settings, and max.message.bytes of its Kafka topics",
                code="block_too_large",
            )
        else:
            middle = block.first + block.count // 2
            for first, end in ((block.first, middle), (middle, block.end)):
                yield from self._fitting(self._codec.cut(block, first, end))


@dataclass(frozen=True, slots=True)
class KafkaUpkeep:
    """The upkeep that remains for a log that Kafka maintains."""

    log: KafkaLog

    def step(self) -> bool:
        """Make available to readers what a full disk kept from them, once there is space. Raises the same errors as `KafkaLog.settle`: on
        Fenced the node ends and does not refuse every append for ever.
        """
        self.log.settle()
        return False

    def walk(self) -> Iterator[int]:
        """Yield nothing: the brokers verify what surrounds the blocks."""
        return iter(())
