"""The fleet's clock at headquarters: the wall's by default, or the one a clock URL tells (the demo's simulator)."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from streams.clock import FleetClock, FleetTime

POLL_S = 0.5
TIMEOUT_S = 2.0


@contextmanager
def following(clock_url: str | None) -> Iterator[FleetClock]:
    """While the block runs, the clock given follows the one at `clock_url`, a JSON object of `FleetTime`'s fields asked twice a second.

    While the URL does not answer, time goes on as it last said; before its first answer, and without a URL, as the wall's.
    """
    wall_ms = time.time_ns() // 1_000_000
    clock = FleetClock(FleetTime(wall_ms, wall_ms, 1.0))
    if clock_url is None:
        yield clock
        return
    stop = threading.Event()
    _follow(clock, clock_url)
    thread = threading.Thread(target=_poll, args=(clock, clock_url, stop), name="clock", daemon=True)
    thread.start()
    try:
        yield clock
    finally:
        stop.set()
        thread.join()


def _poll(clock: FleetClock, clock_url: str, stop: threading.Event) -> None:
    while not stop.wait(POLL_S):
        _follow(clock, clock_url)


def _follow(clock: FleetClock, clock_url: str) -> None:
    try:
        with urllib.request.urlopen(clock_url, timeout=TIMEOUT_S) as answer:
            told = json.load(answer)
        clock.follow(FleetTime(int(told["wall_at_ms"]), int(told["fleet_at_ms"]), float(told["speed"])))
    except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError):
        return  # the simulator is not up, or is starting again: the last word stands
