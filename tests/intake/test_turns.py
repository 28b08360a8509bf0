"""Goal: who sends more than is done waits for itself alone; the others have their turn. A message costs what it is long."""

from __future__ import annotations

import asyncio
import itertools
import struct
import sys
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cargo.vocabulary.trade_codes import make_container
from intake import fair_queue
from intake.fair_queue import SLICE_MESSAGES, FairQueue
from intake.message_types import Outcome, Publish
from intake.mqtt.packets import packet
from intake.pipeline_batches import believed_times, prepare
from intake.settings import PipelineSettings
from intake.topic_routes import Routes
from landfall.storage.file_log import FileLogOptions
from streams.model.clock import StillClock
from tests.intake.stand import DEADLINE_S, TOPIC, eventually, payload, stand
from tests.intake.test_floods import client, connect_packet
from tests.streams.logkit import FullDisk

NOW_MS = 1_777_593_600_000


class Hearing:
    """A sender that notes whether it is held."""

    def __init__(self, account: str) -> None:
        self.account, self.held = account, False

    def hold(self, held: bool) -> None:
        assert held != self.held
        self.held = held

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        raise AssertionError("nothing is done here")

    def let_go(self) -> None:
        raise AssertionError("nothing is lost here")


def published(topic: str, number: int, said: bytes) -> bytes:
    """A PUBLISH of QoS 1 with this packet identifier."""
    return packet(0x32, struct.pack(">H", len(topic)) + topic.encode() + struct.pack(">H", number) + said)


def some(count: int, size: int = 100) -> list[Publish]:
    return [Publish(b"t", bytes(size)) for _ in range(count)]


def shares(batch: Sequence[fair_queue.Parcel]) -> Counter[str]:
    """How many messages of each account are in it."""
    return Counter({account: sum(len(messages) for one, messages, _ in batch if one.account == account) for account in "abc"})


def test_no_account_fills_more_than_its_share_while_others_come_that_send_less_and_its_senders_have_equal_parts() -> None:
    queue = FairQueue(PipelineSettings(batch_readings_max=8_192, pending_readings_max=10_000_000))
    greedy, other, lone = Hearing("a"), Hearing("a"), Hearing("b")
    for sender, count in ((greedy, 5_000), (other, 600), (lone, 400)):
        queue.put(sender, some(count), 0.0)
    batch = queue.take()
    by = {sender: sum(len(messages) for one, messages, _ in batch if one is sender) for sender in (greedy, other, lone)}
    assert by == {greedy: 256, other: 256, lone: 400}
    assert queue.messages == 6_000 - 912
    queue.put(lone, some(1), 0.0)
    assert shares(queue.take()) == {"a": 512, "b": 1, "c": 0}


def test_of_large_messages_an_account_has_its_share_of_the_bytes_and_of_one_that_is_larger_that_one() -> None:
    queue = FairQueue(PipelineSettings(pending_bytes_max=1 << 30))
    greedy, lone = Hearing("a"), Hearing("b")
    queue.put(greedy, some(100, size=30_000), 0.0)
    queue.put(lone, some(1), 0.0)
    assert shares(queue.take()) == {"a": 2, "b": 1, "c": 0}, "of 64 KiB; few messages are many when they are long"
    queue.put(lone, [*some(1, size=900_000), *some(1)], 0.0)
    assert shares(queue.take()) == {"a": 2, "b": 1, "c": 0}
    assert shares(queue.take()) == {"a": 2, "b": 1, "c": 0}


def test_accounts_that_all_send_much_fill_a_batch_together_and_who_did_not_come_into_it_comes_into_the_next() -> None:
    queue = FairQueue(PipelineSettings(batch_readings_max=1_024, pending_readings_max=10_000_000))
    for account, count in (("a", 2_000), ("b", 2_000), ("c", 300)):
        queue.put(Hearing(account), some(count), 0.0)
    assert queue.gives(1_000)
    assert shares(queue.take()) == {"a": 384, "b": 320, "c": 300}, "64 by turns; a batch is 1,024"
    assert not queue.gives(4_001)
    assert shares(queue.take()) == {"a": 512, "b": 512, "c": 0}


def test_an_account_beside_which_nobody_sends_less_fills_batches() -> None:
    queue = FairQueue(PipelineSettings(batch_readings_max=4_096, pending_readings_max=10_000_000))
    greedy = Hearing("a")
    queue.put(greedy, some(20_000), 0.0)
    assert len(queue.take()) * 256 == 4_096
    queue.put(Hearing("b"), some(1), 10.0)
    assert not queue.gives(1_000), "of 20,000 that wait"
    assert shares(queue.take()) == {"a": 256, "b": 1, "c": 0}
    assert shares(queue.take()) == {"a": 256, "b": 0, "c": 0}, "it is still there, and may come again at any moment"
    queue.put(greedy, some(1), 9.9 + fair_queue.NOT_ALONE_S)
    assert shares(queue.take())["a"] == 256, "another came a minute ago, and may come again"
    queue.put(greedy, some(1), 10.0 + fair_queue.NOT_ALONE_S)
    assert queue.gives(1_000)
    assert shares(queue.take())["a"] == 4_096


def test_the_order_of_each_sender_is_kept_and_nothing_is_left_out() -> None:
    queue = FairQueue(PipelineSettings())
    senders = [Hearing(account) for account in ("a", "a", "b")]
    sent: dict[Hearing, list[Publish]] = {sender: [] for sender in senders}
    for number, sender in enumerate(itertools.islice(itertools.cycle(senders), 60)):
        messages = some(1 + number * 37 % 700, size=1 + number * 997 % 9_000)
        sent[sender] += messages
        queue.put(sender, messages, 0.0)
    taken: dict[Hearing, list[Publish]] = {sender: [] for sender in senders}
    while queue.messages:
        batch = queue.take()
        assert sum(len(messages) for _, messages, _ in batch) <= 4_096
        assert sum(len(message.payload) for _, messages, _ in batch for message in messages) <= fair_queue.BATCH_BYTES
        for taker, messages, _ in batch:
            assert isinstance(taker, Hearing)
            taken[taker] += messages
    assert queue.bytes == 0
    assert [list(map(id, taken[sender])) for sender in senders] == [list(map(id, sent[sender])) for sender in senders]
    assert not any(sender.held for sender in senders)
    with pytest.raises(KeyError):
        queue.take()


def test_who_has_more_waiting_than_its_share_is_held_until_half_of_it_is_done() -> None:
    queue = FairQueue(PipelineSettings(pending_readings_max=4_000, batch_readings_max=256))
    greedy, modest = Hearing("a"), Hearing("a")
    queue.put(modest, some(10), 0.0)
    queue.put(greedy, some(900), 0.0)
    assert not greedy.held
    queue.put(greedy, some(101), 0.0)
    assert greedy.held, "of 2,000 for two"
    while greedy.held:
        queue.take()
    assert not modest.held
    assert 500 < queue.messages <= 1_000, "alone it may have all of the half, and goes on at half of that"
    queue.put(greedy, some(50, size=600_000), 0.0)
    assert not greedy.held
    queue.put(greedy, some(10, size=600_000), 0.0)
    assert greedy.held, "of 64 MiB, too"


def test_an_account_that_has_more_waiting_than_its_share_is_held_until_half_of_it_is_done() -> None:
    """Each of its many senders would bring as much as is read at once."""
    told: list[tuple[str, bool]] = []
    limits = PipelineSettings(pending_readings_max=4_000, batch_readings_max=256)
    queue = FairQueue(limits, lambda account, held: told.append((account, held)))
    queue.put(Hearing("b"), some(10), 0.0)
    crowd = [Hearing("a") for _ in range(50)]
    for number, sender in enumerate(crowd):
        assert told == ([("a", True)] if number > 25 else []), "of 1,000 for each of two"
        queue.put(sender, some(40), 0.0)
    while not told[1:]:
        assert queue.held_accounts == {"a"}
        queue.take()
    assert told == [("a", True), ("a", False)]
    assert 744 < queue.messages <= 1_000, "alone it may have all of the half, and goes on at half of that"
    queue.put(crowd[0], some(60, size=600_000), 0.0)
    assert told[2:] == [("a", True)], "of 64 MiB, too"
    while queue.messages:
        queue.take()
    assert told[3:] == [("a", False)]


async def test_beside_a_crowd_of_one_account_an_honest_client_is_read_from(tmp_path: Path) -> None:
    """What it brings in its first turn is more than may wait of all: most of it is not read before there is room."""
    disk, number = FullDisk(), itertools.count(1)
    limits = PipelineSettings(pending_readings_max=2_000, retry_ms=10)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(stand(tmp_path, pipeline_settings=limits, options=FileLogOptions(disk=disk)))
        honest, asking = await stack.enter_async_context(client(one))
        crowd = [await stack.enter_async_context(client(one, "127.0.0.2")) for _ in range(40)]
        for name, (reader, writer) in enumerate([(honest, asking), *crowd]):
            writer.write(connect_packet(f"client-{name}"))
            await reader.readexactly(4)
        disk.writes_left = 0
        for _, writer in crowd:
            writer.write(b"".join(published(TOPIC, n + 1, payload(next(number))) for n in range(SLICE_MESSAGES)))
        await eventually(lambda: one.pipeline.holds("at 127.0.0.2/32"))
        before = one.counts()["intake_received"]
        asking.write(published(TOPIC, 1, payload(0)))
        await eventually(lambda: one.counts()["intake_received"] > before)
        assert not one.pipeline.full
        disk.writes_left = None
        async with asyncio.timeout(DEADLINE_S):
            for reader, _ in crowd:
                await reader.readexactly(4 * SLICE_MESSAGES)
            assert await honest.readexactly(4) == b"\x40\2\0\1"


async def test_beside_a_flood_an_honest_client_waits_for_a_batch_or_two(tmp_path: Path) -> None:
    """Of the flood's messages most are still to come when it hears; one after the other it would have waited for all that are read."""
    flood = 12_000
    topic = struct.pack(">H", len(TOPIC)) + TOPIC.encode()
    limits = PipelineSettings(batch_readings_max=512)
    async with stand(tmp_path, pipeline_settings=limits) as one, client(one) as (greedy, flooding), client(one) as (honest, asking):
        for reader, writer, name in ((greedy, flooding, "greedy"), (honest, asking, "honest")):
            writer.write(connect_packet(name))
            await reader.readexactly(4)
        flooding.write(b"".join(packet(0x32, topic + struct.pack(">H", n + 1) + b"junk") for n in range(flood)))
        await eventually(lambda: one.pipeline._waiting.messages >= 2_000)
        before = one.counts().get("intake_malformed", 0)
        asking.write(packet(0x32, topic + b"\0\1" + payload(1)))
        async with asyncio.timeout(DEADLINE_S):
            assert await honest.readexactly(4) == b"\x40\2\0\1"
        assert one.counts()["intake_malformed"] - before <= 3 * 512
        async with asyncio.timeout(DEADLINE_S):
            await greedy.readexactly(4 * flood)


async def test_a_flood_of_ever_new_topics_fills_no_commit_beside_an_honest_client(tmp_path: Path) -> None:
    """Of what waits of the flood a part of a batch goes into a commit, however many topics it is; the others' messages into the next.
    A span is a commit here: nothing merges them."""
    flood = 6_000
    limits = PipelineSettings(batch_readings_max=2_048)
    async with (
        stand(tmp_path, pipeline_settings=limits) as one,
        client(one, "127.0.0.2") as (greedy, flooding),
        client(one) as (honest, asking),
    ):
        for reader, writer, name in ((greedy, flooding, "greedy"), (honest, asking, "honest")):
            writer.write(connect_packet(name))
            await reader.readexactly(4)
        async with asyncio.timeout(DEADLINE_S):
            flooding.write(published(f"landfall/containers/{make_container('LFLU', flood)}/reading", 1, payload(1)))
            await greedy.readexactly(4)
            asking.write(published(TOPIC, 1, payload(1)))
            await honest.readexactly(4)
            numbers = (make_container("LFLU", number) for number in range(flood))
            flooding.write(b"".join(published(f"landfall/containers/{box}/reading", n + 1, payload(n)) for n, box in enumerate(numbers)))
            asking.write(published(TOPIC, 2, payload(2)))
            await honest.readexactly(4)
            await greedy.readexactly(4 * flood)
        (origin,) = one.log.ledger("containers")
        commits = [span.end - span.first for span in one.log.spans("containers", origin)]
    assert sum(commits) == flood + 3
    assert max(commits) <= 128 + 1
    assert len(commits) >= flood // 128


def test_a_topic_that_is_not_known_yet_costs_little_more_than_one_that_is() -> None:
    """Counted in calls: of Python's functions and of those it calls, in a path that a hostile client takes with each message."""
    topics = [f"landfall/containers/{make_container('LFLU', number)}/reading".encode() for number in range(1_000)]
    routes, calls = Routes(), Counter[str]()
    sys.setprofile(lambda frame, event, argument: calls.update((event,)))
    try:
        for topic in topics:
            routes.route(topic)
    finally:
        sys.setprofile(None)
    assert calls["call"] + calls["c_call"] <= 30 * len(topics)


def test_fields_of_many_names_cost_what_they_are_long() -> None:
    """100 messages of 500 names of their own: as many columns of as many rows would be 40 MB."""
    made = [
        Publish(TOPIC.encode(), b'{"device":"a",' + b",".join(b'"%x":1' % (number * 500 + n) for n in range(500)) + b"}")
        for number in range(100)
    ]
    tracemalloc.start()
    prepared = prepare(made, Routes(), believed_times(StillClock(NOW_MS)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert prepared.outcomes == [Outcome.ACCEPTED] * 100
    assert peak_bytes < 20_000_000
