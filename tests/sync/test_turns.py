"""Goal: what a message costs does not grow with the streams that wait, and what is left alone for a while goes when that is over."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streams.config.companion_streams import HEADS
from streams.config.roles import Lane
from streams.config.stream_definitions import Definitions
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication import sender as sending_module
from streams.replication.effects import Loaded
from streams.replication.link_terms import Key
from streams.replication.send_scheduler import Asleep, Turns
from streams.replication.sender import CLAIM_S, LATER_S, Sender
from streams.replication.sync_messages import Begin

HQ = Origin("hq", 1)


def key(number: int, ending: str = "") -> Key:
    return f"aboard/{1_000_000 + number}{ending}", HQ


def sending(keys: list[Key]) -> Sender:
    sender = Sender("tokyo", lambda _: RangeSet([(0, 1)]), lambda _: 0, lambda _: Lane.ALERTS)
    for one in keys:
        sender.work(one)
    return sender


def sent(sender: Sender, now_s: float) -> list[int]:
    """Drives it as a node does until nothing may go; the numbers of what went, each acknowledged."""
    numbers = []
    while loads := sender.loads(now_s):
        for load in loads:
            sender.loaded(load.number, Loaded(load.first, load.end, b"x", bytes(16)), now_s)
        while message := sender.next(now_s):
            assert isinstance(message, Begin)
            numbers.append(message.transfer)
            sender.acknowledged(message.transfer)
        sender.wake_s()
    return numbers


def calls_for(streams: int) -> int:
    """How many functions are called to send one record of each, while as many others are to be left alone."""
    sender = sending([key(number, ending) for number in range(streams) for ending in ("", HEADS)])
    for number in range(streams, 2 * streams):
        sender.claimed(key(number), 0, 1, 0.0)
        sender.work(key(number))
    calls = 0

    def count(frame: Any, event: str, given: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        numbers = sent(sender, 1.0)
    finally:
        sys.setprofile(None)
    assert len(numbers) == 2 * streams
    return calls


def test_what_a_message_costs_does_not_grow_with_the_streams_that_wait() -> None:
    assert calls_for(800) <= 1.2 * 8 * calls_for(100)


@pytest.mark.parametrize(("code", "wait_s"), [("later", LATER_S), ("elsewhere", CLAIM_S)])
def test_what_is_left_alone_goes_when_that_is_over(code: Any, wait_s: float) -> None:
    sender = sending([key(0)])
    [load] = sender.loads(0.0)
    sender.loaded(load.number, Loaded(0, 1, b"x", bytes(16)), 0.0)
    begun = sender.next(0.0)
    assert isinstance(begun, Begin)
    sender.rejected(begun.transfer, code, 0.0)
    assert not sent(sender, 0.0)
    assert sender.wake_s() == wait_s
    assert sender.backlog_records(wait_s) == 1, "what is left alone is counted once it may go, though nobody has asked for it yet"
    assert not sent(sender, wait_s - 0.001)
    assert len(sent(sender, wait_s)) == 1
    assert sender.wake_s() is None


def test_what_is_claimed_no_more_goes_at_once() -> None:
    sender = sending([key(0)])
    sender.claimed(key(0), 0, 1, 0.0)
    assert not sent(sender, 0.0)
    sender.track(key(0)).claims.void(0, 1)
    sender.work(key(0))
    assert len(sent(sender, 0.0)) == 1


def test_where_a_part_was_coming_from_elsewhere_and_is_not_after_all_the_whole_goes() -> None:
    """Goal: refused is the whole of what overlaps with what another brings; once that is not coming, nobody brings any of it."""
    sender = Sender("tokyo", lambda _: RangeSet([(0, 60)]), lambda _: 0, lambda _: Lane.EVENTS)
    sender.work(key(0))
    [load] = sender.loads(0.0)
    sender.loaded(load.number, Loaded(0, 60, b"x", bytes(16)), 0.0)
    begun = sender.next(0.0)
    assert isinstance(begun, Begin)
    sender.rejected(begun.transfer, "elsewhere", 0.0)
    sender.track(key(0)).claims.void(14, 18)
    sender.work(key(0))
    assert [(load.first, load.end) for load in sender.loads(0.0)] == [(0, 60)]


@pytest.mark.parametrize("stream", ["events", "registry"])
def test_what_is_believed_by_goes_however_much_waits_for_it(monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    """Goal: what is signed at once is acknowledged only when its statement is there: a window full of it lets that pass."""
    monkeypatch.setattr(sending_module, "WINDOW_BYTES", 100)
    monkeypatch.setattr(sending_module, "ALERT_WINDOW_BYTES", 100)
    held = {(stream, HQ): RangeSet([(0, 2)]), (stream + HEADS, HQ): RangeSet([(0, 1)])}
    sender = Sender("tokyo", lambda key: held[key], lambda _: 0, lambda name: Definitions().of(name).lane)

    def sent() -> list[Begin]:
        begun = []
        while loads := sender.loads(0.0):
            for load in loads:
                sender.loaded(load.number, Loaded(load.first, load.first + 1, bytes(200), bytes(16)), 0.0)
            while message := sender.next(0.0):
                assert isinstance(message, Begin)
                begun.append(message)
        return begun

    sender.work((stream, HQ))
    assert [(one.first, one.end) for one in sent()] == [(0, 1)], "the window is full"
    sender.work((stream + HEADS, HQ))
    assert [(one.first, one.end) for one in sent()] == [(0, 1)]


def test_what_is_signed_goes_before_others_and_each_takes_its_turn() -> None:
    turns = Turns()
    for one in (key(0), key(1), key(1, HEADS), key(0, HEADS), key(0)):
        turns.add(one)
    assert [turns.pop() for _ in range(4)] == [key(1, HEADS), key(0, HEADS), key(0), key(1)]
    assert turns.waiting == 0


def test_who_sleeps_is_remembered_once_for_each_time_it_is_to_be_woken() -> None:
    asleep = Asleep()
    for _ in range(1_000):
        asleep.add(key(0), 30.0)
    asleep.add(key(0), 2.0)
    assert list(asleep.woken(1.9)) == []
    assert list(asleep.woken(2.0)) == [key(0)]
    assert list(asleep.woken(30.0)) == [key(0)]
    assert asleep.wake_s() is None
