"""The fleet's clock at headquarters: the wall clock by default, or the clock at a URL (the demo's simulator)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from landfall.node.fleet_clock import POLL_EVERY_S, ask, first_word
from streams.model.clock import FleetClock, FleetTime


@contextmanager
def following(clock: str) -> Iterator[FleetClock]:
    """Yield a clock that runs, while the block runs, as the setting says: "wall", or as the clock at a URL, asked twice a second.

    It waits for the first answer (RetryLater when it does not come). While the clock does not answer later, time continues by its last
    answer.
    """
    if clock == "wall":
        wall_ms = time.time_ns() // 1_000_000
        yield FleetClock(FleetTime(wall_ms, wall_ms, 1.0))
        return
    followed = FleetClock(first_word(clock))
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(followed, clock, stop), name="clock", daemon=True)
    thread.start()
    try:
        yield followed
    finally:
        stop.set()
        thread.join()


def _follow(clock: FleetClock, url: str, stop: threading.Event) -> None:
    while not stop.wait(POLL_EVERY_S):
        fleet_time = ask(url)
        if fleet_time is not None:
            clock.follow(fleet_time)
