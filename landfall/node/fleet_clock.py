"""The fleet's time from a clock that serves it over HTTP as JSON `{"wall_at_ms", "fleet_at_ms", "speed", "stops_at_ms"?}` (FleetTime)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.error
import urllib.request
from functools import partial

from landfall.system.hung_calls import apart
from streams.model.clock import Clock, FleetClock, FleetTime, WallClock
from streams.model.errors import RetryLater

logger = logging.getLogger("landfall.node")

POLL_EVERY_S = 0.5
POLL_TIMEOUT_S = 2.0
FIRST_WORD_S, FIRST_WORD_EVERY_S = 60.0, 0.1


def clock_of(clock: str) -> Clock:
    """Return the clock that a setting names: "wall", or a URL. Wait until the clock at a URL has sent the time; from then on it is to be
    followed (`follow`).

    Raises RetryLater when it does not within FIRST_WORD_S: records with another time than the fleet's could never be corrected.
    """
    return WallClock() if clock == "wall" else FleetClock(first_word(clock), partial(ask, clock))


def first_word(url: str, within_s: float = FIRST_WORD_S) -> FleetTime:
    """Return how the fleet's time runs by the clock at `url`, and wait for it. Raises RetryLater when the clock sends nothing within
    `within_s`.
    """
    deadline_s = time.monotonic() + within_s
    while (fleet_time := ask(url)) is None:
        if time.monotonic() > deadline_s:
            raise RetryLater(
                f"the fleet clock at {url} does not report the time",
                hint="start it first, or set the clock to 'wall'",
                code="fleet_clock_silent",
            )
        time.sleep(FIRST_WORD_EVERY_S)
    return fleet_time


def ask(url: str) -> FleetTime | None:
    """Return how the fleet's time runs now, by the clock at `url`; None when the clock sends no time. Blocks up to POLL_TIMEOUT_S."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=POLL_TIMEOUT_S) as answer:
            fields = json.load(answer)
        stops = fields.get("stops_at_ms")
        times = (int(fields["wall_at_ms"]), int(fields["fleet_at_ms"]), float(fields["speed"]))
        return FleetTime(*times, None if stops is None else int(stops), str(fields.get("state", "running")))
    except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


async def follow(clock: FleetClock, url: str) -> None:
    """Let `clock` run as the clock at `url` does, which is asked every POLL_EVERY_S. While that does not answer, its last answer holds."""
    there = True
    while True:
        fleet_time = await apart("fleet clock", partial(ask, url))
        if fleet_time is not None:
            clock.follow(fleet_time)
        if there != (fleet_time is not None):
            there = not there
            logger.info("the fleet clock at %s %s", url, "answers again" if there else "does not answer: its last word holds")
        await asyncio.sleep(POLL_EVERY_S)
