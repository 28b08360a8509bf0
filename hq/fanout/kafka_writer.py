"""The fan-out: headquarters' streams into Kafka, each record once for consumers that read only what is committed.

A start is 1 rights as the settings say, 2 a new producer, which puts an end to an earlier process and its open transaction, 3 the
Positions, and what was skipped below them, read from Kafka alone. A step is 4 records read from there, 5 their messages, the new Positions
and what is skipped now written in one transaction, 6 the commit. Killed anywhere, or unsure what became of 6, it starts again at 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hq.fanout.customer_routes import FANNED_OUT, POSITIONS, kafka_topic, route
from hq.fanout.kafka_client import ANSWER_S_MAX, FanoutTransactions, committed_standings, standing_messages
from hq.fanout.kafka_messages import Message, messages
from hq.fanout.rights import KafkaRights
from hq.fanout.settings import FanoutSettings
from landfall.runtime.hole_patience import PatientReaders, count_polled
from landfall.runtime.skipped_watch import SkippedOffsets, unread_of
from landfall.storage.kafka.kafka_configuration import check_lets_in
from streams.commit_points import commit_point
from streams.gap_skipping_reader import Polled, ReaderStanding
from streams.log import LogReader
from streams.model.clock import Clock, WallClock
from streams.model.errors import Misuse
from streams.model.metrics import Metrics

LOOK_EVERY_S = 10.0
"""The time between two looks at the topics in Kafka, seconds."""


@dataclass(slots=True)
class Fanout:
    """Brings a log into a Kafka. For one thread. After any error but NotAllowed, `start` again."""

    reader: LogReader
    settings: FanoutSettings
    metrics: Metrics
    clock: Clock = field(default_factory=WallClock)
    _transactions: FanoutTransactions | None = None
    _rights: KafkaRights | None = None
    _standings: dict[str, ReaderStanding] = field(default_factory=dict)
    unread: list[SkippedOffsets] = field(default_factory=list)
    """Records below the log's floor, as last committed; removed by the caller that reports them."""
    lost: list[str] = field(default_factory=list)
    """Sentences on what was in Kafka and is not any more; removed by the caller that reports them."""
    _topic_ids: dict[str, str] = field(default_factory=dict)
    _looked_s: float = 0.0
    _writes_positions: bool = False
    """The topic of the Positions was deleted: those known here are written to the new one."""
    _readers: PatientReaders = field(init=False)

    def __post_init__(self) -> None:
        self._readers = PatientReaders(self.reader, self.clock)

    def start(self) -> None:
        """Prepare for the first step. Raises RetryLater when Kafka does not answer; NotAllowed when it refuses the login."""
        if self._transactions is not None:
            self._transactions.close()
        self._transactions = None
        check_lets_in(self.settings.kafka, ANSWER_S_MAX)
        self._rights = KafkaRights(self.settings)
        there = self._rights.topic_ids()
        self._rights.settle()
        commit_point("fanout.settled")
        self._transactions = FanoutTransactions(self.settings.kafka, self.settings.transactional_id)
        self._standings = committed_standings(self.settings.kafka) or self._standings
        self._miss(there, self._rights.topic_ids())

    def step(self) -> int:
        """Fan out what is new, at most `transaction_records_max` records, in one transaction; returns how many they were.

        Raises NotAllowed when another process has taken over, RetryLater when Kafka did not do it or did not say.
        """
        if self._transactions is None or self._rights is None:
            raise Misuse("a fan-out is started before it steps", code="fanout_not_started")
        self._look_for_topics(self._rights)
        if self._writes_positions:
            self._write_positions(self._transactions)
        self._readers.follow()
        behind = [stream for stream in route(self.reader.streams()) if self._readers.of(stream).moves(self._standing(stream))]
        if not behind:
            return 0
        self._rights.make_topics(behind)
        commit_point("fanout.topics")
        began_s = time.perf_counter()
        step = _Step(self._readers, self.settings.transaction_records_max)
        topics = {kafka_topic(stream): step.messages(stream, self._standing(stream)) for stream in behind}
        self._transactions.write(topics, step.standings)
        commit_point("fanout.written")
        self._transactions.commit()
        commit_point("fanout.committed")
        for stream, (before, polled) in step.polled.items():
            count_polled(self.metrics, before.skipped, polled)
            self.unread += unread_of(stream, before, polled)
            self._standings[stream] = polled.standing
        self.metrics.count("records", step.taken)
        self.metrics.observe("step", (time.perf_counter() - began_s) * 1000)
        return step.taken

    def _look_for_topics(self, rights: KafkaRights) -> None:
        """Make missing topics again, once in LOOK_EVERY_S."""
        if self.clock.monotonic_s() - self._looked_s < LOOK_EVERY_S:
            return
        there = rights.topic_ids()
        if self._topic_ids.keys() - there.keys():
            rights.settle()
            rights.make_topics(self._standings)
        self._miss(there, rights.topic_ids())

    def _write_positions(self, transactions: FanoutTransactions) -> None:
        """Write the Positions of all streams: the new topic has none of them."""
        kept = [
            message for stream, standing in self._standings.items() for message in standing_messages(stream, ReaderStanding(), standing)
        ]
        transactions.write({}, lambda: kept)
        transactions.commit()
        self._writes_positions = False

    def _miss(self, there: Mapping[str, str], made: dict[str, str]) -> None:
        """Note what was written to topics that are not `there`, or are others than before; from now on those that were `made` count."""
        was_fanned_out = bool(self._topic_ids) or any(kafka_topic(stream) in there for stream in FANNED_OUT)
        if was_fanned_out and (POSITIONS not in there or there[POSITIONS] != self._topic_ids.get(POSITIONS, there[POSITIONS])):
            outcome = "written again" if self._standings else "lost: each stream is fanned out from its beginning"
            self.lost.append(f"the Kafka topic {POSITIONS} was deleted: how far the streams are fanned out is {outcome}")
            self._writes_positions = bool(self._standings)
        for stream, standing in sorted(self._standings.items()):
            topic = kafka_topic(stream)
            if standing.position and (topic not in there or there[topic] != self._topic_ids.get(topic, there[topic])):
                what = f"what the fan-out had written there of {stream} is not in Kafka any more"
                self.lost.append(f"the Kafka topic {topic} was deleted: {what}")
        self._topic_ids, self._looked_s = made, self.clock.monotonic_s()

    @property
    def ready(self) -> bool:
        """Whether Kafka answered and the Positions are known."""
        return self._transactions is not None

    @property
    def standings(self) -> Mapping[str, ReaderStanding]:
        """Position in each stream, and the records that were passed over, as last committed."""
        return self._standings

    def _standing(self, stream: str) -> ReaderStanding:
        return self._standings.get(stream, ReaderStanding())


@dataclass(slots=True)
class _Step:
    """One transaction: how many records it may still take, how many it took, and by stream from where to where."""

    readers: PatientReaders
    left: int
    taken: int = 0
    polled: dict[str, tuple[ReaderStanding, Polled]] = field(default_factory=dict)

    def messages(self, stream: str, standing: ReaderStanding) -> Iterator[Message]:
        """Yield messages of `stream` from `standing` on, as many as may still be taken. The standing that they reach is known once all are
        yielded."""
        if self.left == 0:
            return
        polled = self.readers.of(stream).poll_from_floor(standing, self.left)
        for batch in (*polled.late, *polled.batches):
            yield from messages(batch)
        self.taken += polled.rows
        self.left -= polled.rows
        self.polled[stream] = (standing, polled)

    def standings(self) -> Iterator[Message]:
        """Yield the messages by which Kafka keeps the present standing of the streams."""
        for stream, (before, polled) in self.polled.items():
            yield from standing_messages(stream, before, polled.standing)
