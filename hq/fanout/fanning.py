"""The fan-out: headquarters' streams into Kafka, each record once for whoever reads only what is committed.

A start is 1 rights as the settings say, 2 a new producer, which puts an end to an earlier process and its open transaction, 3 the
Positions, read from Kafka alone. A step is 4 records read from those Positions, 5 their messages and the new Positions written in one
transaction, 6 the commit. Killed anywhere, or unsure what became of 6, it starts again at 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from hq.fanout.kafka import ANSWER_S_MAX, Transactions, committed_positions
from hq.fanout.messages import Message, messages
from hq.fanout.rights import Rights
from hq.fanout.routes import kafka_topic, route
from hq.fanout.settings import FanoutSettings
from hq.opening import read_on
from streams.crash import commit_point
from streams.errors import Misuse
from streams.log import LogReader
from streams.logs.kafka.client import check_lets_in
from streams.metrics import Metrics
from streams.records import OFFSET, Batch
from streams.words import Position


@dataclass(slots=True)
class Fanout:
    """Brings a log into a Kafka. For one thread. After any error but NotAllowed, `start` again."""

    reader: LogReader
    settings: FanoutSettings
    metrics: Metrics
    _transactions: Transactions | None = None
    _rights: Rights | None = None
    _positions: dict[str, Position] = field(default_factory=dict)

    def start(self) -> None:
        """All is ready to step. Raises RetryLater when Kafka does not answer; NotAllowed when it does not let us in."""
        self._transactions = None
        check_lets_in(self.settings.kafka, ANSWER_S_MAX)
        self._rights = Rights(self.settings)
        self._rights.settle()
        commit_point("fanout.settled")
        self._transactions = Transactions(self.settings.kafka, self.settings.transactional_id)
        self._positions = committed_positions(self.settings.kafka)

    def step(self) -> int:
        """Fan out what is new, at most `transaction_records_max` records, in one transaction; returns how many they were.

        Raises NotAllowed when another process has taken over, RetryLater when Kafka did not do it or did not say.
        """
        if self._transactions is None or self._rights is None:
            raise Misuse("a fan-out is started before it steps")
        ends = {stream: self.reader.position(stream) for stream in route(self.reader.streams())}
        behind = {stream: end for stream, end in ends.items() if not self._position(stream).reaches(end)}
        if not behind:
            return 0
        self._rights.make_topics(behind)
        commit_point("fanout.topics")
        began_s = time.perf_counter()
        step = _Step(self.reader, self.metrics, self.settings.transaction_records_max)
        topics = {kafka_topic(stream): step.messages(stream, self._position(stream), end) for stream, end in behind.items()}
        self._transactions.write(topics, lambda: step.reached)
        commit_point("fanout.written")
        self._transactions.commit()
        commit_point("fanout.committed")
        self._positions |= step.reached
        self.metrics.count("records", step.taken)
        self.metrics.observe("step", (time.perf_counter() - began_s) * 1000)
        return step.taken

    @property
    def ready(self) -> bool:
        """Whether Kafka answered and the Positions are known."""
        return self._transactions is not None

    def _position(self, stream: str) -> Position:
        return self._positions.get(stream, Position())


@dataclass(slots=True)
class _Step:
    """One transaction: how many records it may still take, how many it took, and the Positions after them."""

    reader: LogReader
    metrics: Metrics
    left: int
    taken: int = 0
    reached: dict[str, Position] = field(default_factory=dict)

    def messages(self, stream: str, position: Position, end: Position) -> Iterator[Message]:
        """Messages of `stream` from `position` on, as many as may still be taken; what they reach is known once all are."""
        if self.left == 0:
            return
        for batch in read_on(self.reader, stream, position, self.metrics):
            records = batch.records.slice(0, self.left)
            yield from messages(Batch(batch.stream, batch.origin, records))
            position = position.advanced(batch.origin, records.column(OFFSET)[-1].as_py() + 1)
            self.reached[stream] = position
            self.taken += records.num_rows
            self.left -= records.num_rows
            if self.left == 0:
                return
        self.reached[stream] = position.merged(end)
