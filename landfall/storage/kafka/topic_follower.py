"""The follower of a log's Kafka topics, from where the index stands up to their ends. It rebuilds a lost index from the broker alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import msgspec
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from landfall.storage.damage import Damage
from landfall.storage.frames import FrameHeader
from landfall.storage.index import IndexDamaged
from landfall.storage.index_writer import IndexWriter
from landfall.storage.kafka.block_fetcher import POLL_S, WHO, consumer_settings
from landfall.storage.kafka.kafka_configuration import asked, asked_of_leaders, client_settings, unanswered
from landfall.storage.kafka.kafka_records import check_follows, control_header, placed_block
from landfall.storage.kafka.settings import KafkaLogSettings
from landfall.storage.kafka.topic_names import KafkaTopicNames
from landfall.storage.log_state import Book, FileLocation, FrameChange, PlacedBlock
from landfall.storage.rejected_records import Disowned
from streams.model.errors import Corrupt, RetryLater

FOLLOWED_MAX = 256
"""Number of records that go into the index in one transaction."""
NO_FILE = 0
"""Value in the index for the number of a file, and for where a file ends."""


class RecordsLost(IndexDamaged):
    """The index has seen records that Kafka no longer has, and that were not trimmed."""


class KafkaTopicFollower:
    """A reader of all that is committed of a log. It is not safe to use from several threads."""

    def __init__(self, settings: KafkaLogSettings, names: KafkaTopicNames, on_damage: Callable[[Damage], None], disowned: Disowned) -> None:
        """Prepare the follower. Records that are `disowned` are not taken into an index again."""
        self._settings, self._names, self._on_damage, self._disowned = settings, names, on_damage, disowned
        self._admin = AdminClient(client_settings(settings))
        self._reported: set[tuple[str, int]] = set()

    def node(self) -> str | None:
        """Return the node whose log it is, by the first generation in its Kafka topics; None while it belongs to no node. Raises
        RetryLater.
        """
        firsts, ends = self._bounds()
        control = self._names.control
        starts = {control: firsts[control]} if firsts.get(control, 0) < ends.get(control, 0) else {}
        with closing(self._messages(starts, ends)) as messages:
            for message in messages:
                with suppress(Corrupt):  # it is reported when it is followed
                    if openings := control_header(message.value() or b"").openings:
                        return openings[0].node
        return None

    def follow(self, book: Book, index: IndexWriter) -> None:
        """Bring `book` and `index` to what the broker holds at the time of the call. No record is read twice, so that what was set aside
        stays so. Raises RecordsLost, RetryLater.
        """
        firsts, ends = self._bounds()
        for topic, start in book.followed.items():
            if start > ends.get(topic, 0):
                raise RecordsLost(f"{topic} ends at {ends.get(topic, 0)}, and {start} records of it were indexed")
        todo = {topic: max(book.followed.get(topic, 0), first) for topic, first in firsts.items()}
        todo = {topic: start for topic, start in todo.items() if start < ends[topic]}
        waiting: list[FrameChange] = []
        for message in self._messages(todo, ends):
            change = self._change(book, message)
            book.take(change)
            waiting.append(change)
            if len(waiting) >= FOLLOWED_MAX:
                index.apply(waiting)
                waiting = []
        if waiting:
            index.apply(waiting)

    def _bounds(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the first record and the end of what is committed, for each Kafka topic of the log. A topic that was just made may have no
        leader yet.
        """
        return asked_of_leaders(self._bounds_now, WHO, self._settings.answer_s)

    def _bounds_now(self) -> tuple[dict[str, int], dict[str, int]]:
        answer_s = self._settings.answer_s
        known = self._admin.list_topics(timeout=answer_s).topics
        topics = [TopicPartition(name, 0) for name in known if name == self._names.control or self._names.stream(name)]
        if not topics:
            return {}, {}
        firsts, ends = (
            self._admin.list_offsets(dict.fromkeys(topics, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=answer_s)
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )

        def offsets(futures: Mapping[TopicPartition, object]) -> dict[str, int]:
            return {partition.topic: int(future.result().offset) for partition, future in futures.items()}  # type: ignore[attr-defined]

        return offsets(firsts), offsets(ends)

    def _messages(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> Generator[Message, None, None]:
        """Yield every record from `starts` up to `ends`, topic by topic in their order."""
        if not starts:
            return
        settings = consumer_settings(self._settings) | {"queued.min.messages": 10_000, "queued.max.messages.kbytes": 32_768}
        left = dict(starts)
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(topic, 0, start) for topic, start in starts.items()])
            deadline_s = time.monotonic() + self._settings.answer_s
            while left:
                message = asked(lambda: consumer.poll(POLL_S), WHO)
                if message is None:
                    if time.monotonic() > deadline_s:
                        raise unanswered(self._settings, f"Kafka does not give what is in {', '.join(left)}")
                    continue
                deadline_s = time.monotonic() + self._settings.answer_s
                topic, offset, problem = message.topic() or "", message.offset() or 0, message.error()
                if problem is None:
                    yield message
                elif problem.code() == KafkaError._PARTITION_EOF:
                    if offset >= ends[topic]:
                        left.pop(topic, None)
                elif not problem.retriable():
                    raise RetryLater(f"Kafka: {topic}: {problem.str()}", code="kafka_failed")

    def _change(self, book: Book, message: Message) -> FrameChange:
        """Return what a record changes. A record that does not verify changes only where the next one begins, and is reported."""
        topic, at, value = message.topic() or "", message.offset() or 0, message.value() or b""
        header, placed = FrameHeader(), list[PlacedBlock]()
        try:
            if topic == self._names.control:
                control = control_header(value)
                check_follows(control, book.openings)
                header = control
            else:
                fields: Any = message.headers() or []  # typed as what they never are
                headers = {name: data or b"" for name, data in fields}
                commit, block = placed_block(headers, value, FileLocation(NO_FILE, at, len(value)))
                if block.block.stream != self._names.stream(topic):
                    raise Corrupt(f"a block of {block.block.stream} stands in {topic}", code="kafka_record_corrupt")
                header, placed = FrameHeader(commit=commit), [replace(block, left_out=self._disowned.among(block.block))]
        except Corrupt as problem:
            if (topic, at) not in self._reported:
                self._reported.add((topic, at))
                self._on_damage(Damage(NO_FILE, at, len(value), f"{topic}: {problem}", code="kafka_record_corrupt"))
        header = msgspec.structs.replace(header, commit=max(header.commit, book.commit))  # the topics are read one after another
        return change_of(book, header, placed, {topic: at + 1})


def change_of(book: Book, header: FrameHeader, blocks: Iterable[PlacedBlock], followed: dict[str, int]) -> FrameChange:
    """Return what Kafka records change, after which `followed` are the next records of each Kafka topic."""
    return replace(book.change(header, blocks, NO_FILE, NO_FILE), followed=followed)
