"""The fleet's clock at headquarters: the wall's by default, or the one a clock URL tells (the demo's simulator)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from streams.clock import FleetClock, FleetTime
from streams.node.fleetclock import POLL_EVERY_S, ask


@contextmanager
def following(clock: str) -> Iterator[FleetClock]:
    """While the block runs, the clock given runs as the setting says: "wall", or as the clock at a URL, asked twice a second.

    While the URL does not answer, time goes on as it last said; before its first answer, as the wall's.
    """
    wall_ms = time.time_ns() // 1_000_000
    wall = FleetTime(wall_ms, wall_ms, 1.0)
    if clock == "wall":
        yield FleetClock(wall)
        return
    followed = FleetClock(ask(clock) or wall)
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
