"""Goal: whoever is asked to stop stops, in whatever it is at that instant."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from landfall.system.stop_flag import Stop

TIMES = 300
DEADLINE_S = 60.0


@pytest.fixture
def asked() -> Iterator[list[Stop]]:
    """SIGTERM sets the last of these."""
    stops: list[Stop] = []
    before = signal.signal(signal.SIGTERM, lambda *_: stops[-1].set())
    yield stops
    signal.signal(signal.SIGTERM, before)


def test_a_signal_that_comes_while_it_is_waited_for_ends_the_waiting(asked: list[Stop]) -> None:
    """Mostly within the waiting itself: with a threading.Event one of a few such signals finds its lock taken by its own thread."""
    for _ in range(TIMES):
        stop = Stop()
        asked.append(stop)
        threading.Timer(0.0005, os.kill, (os.getpid(), signal.SIGTERM)).start()
        while not stop.wait(0.0):
            pass
        assert stop.is_set()


def test_everybody_who_waits_goes_on() -> None:
    stop, ended = Stop(), list[bool]()
    waiting = [threading.Thread(target=lambda: ended.append(stop.wait(DEADLINE_S))) for _ in range(5)]
    for one in waiting:
        one.start()
    stop.set()
    for one in waiting:
        one.join(DEADLINE_S)
    assert ended == [True] * 5
    assert stop.wait(DEADLINE_S)


def test_without_a_request_the_wait_ends_after_its_time() -> None:
    assert not Stop().wait(0.01)
    assert not Stop().is_set()
