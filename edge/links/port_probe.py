"""In which port a ship lies that does not know where it is, and whether headquarters can be had over a network that is not metered: where
an address answers that does so there alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from edge.settings import PortOfCall
from landfall.transport.name_lookups import LookUps
from streams.model.clock import Clock

POSITION_COUNTS_MS = 3_600_000
"""Greatest age of a usable position, ms of the fleet's time: the ship may have come some 20 nm since."""
SEEK_EVERY_S = 60.0
"""Interval between two tries of all doors, seconds (wall): over a satellite each try may cost a few packets outside the budget."""
ANSWERS_WITHIN_S = 3.0
TRIAL_S, IN_VAIN_S_MAX = 5.0, 3_600.0
"""Time (wall) that headquarters' door, once it answered on a network that is not metered, has to admit the ship. In vain, it is left alone
for SEEK_EVERY_S, and each time twice as long, up to an hour: another may answer there, and each trial interrupts the satellite's link.
"""
_PORTS = {"https": 443, "http": 80}


class Seeking:
    """The doors of those `ports` that answer there alone, tried while the ship has no position. Call it from the node's event loop."""

    def __init__(self, ports: Sequence[PortOfCall], clock: Clock) -> None:
        self._look_ups = LookUps()
        self._doors = [port for port in ports if port.only_there]
        self._clock = clock
        self._due_s = 0.0
        self.found: PortOfCall | None = None

    @property
    def possible(self) -> bool:
        """Whether there is any such door."""
        return bool(self._doors)

    async def seek(self) -> None:
        """Set `found` to a port whose door has taken a connection, if any has in the last round. The ship learns which node it is when it
        dials it."""
        now_s = self._clock.monotonic_s()
        if self.found is None and self._doors and now_s >= self._due_s:
            self._due_s = now_s + SEEK_EVERY_S
            answers = await asyncio.gather(*(_answers(door.url, self._look_ups) for door in self._doors))
            self.found = next((door for door, answered in zip(self._doors, answers, strict=True) if answered), None)

    def give_up(self) -> None:
        """Discard the door that was found: it was none, or the ship has left. The search goes on when the next round is due."""
        self.found = None


class Yard:
    """Headquarters' door on a network that is not metered (`url`; None: there is none). Call it from the node's event loop."""

    def __init__(self, url: str | None, clock: Clock) -> None:
        self._url, self._clock, self._look_ups = url, clock, LookUps()
        self._due_s, self._since_s, self._in_vain_s = 0.0, 0.0, SEEK_EVERY_S
        self.there = False

    @property
    def possible(self) -> bool:
        """Whether there is such a door."""
        return self._url is not None

    async def look(self, let_in: bool) -> None:
        """Set `there`, whether the door is to be dialled: it answered, as it is asked every SEEK_EVERY_S, and has `let_in` the ship, or may
        yet."""
        now_s = self._clock.monotonic_s()
        if self._url is None or let_in:
            self._since_s, self._in_vain_s = now_s, SEEK_EVERY_S
            return
        if self.there and now_s - self._since_s >= TRIAL_S:
            self.there, self._due_s = False, now_s + self._in_vain_s
            self._in_vain_s = min(2 * self._in_vain_s, IN_VAIN_S_MAX)
        elif self.there or now_s >= self._due_s:
            before, self.there = self.there, await _answers(self._url, self._look_ups)
            if self.there and not before:
                self._since_s = self._clock.monotonic_s()
            self._due_s = max(self._due_s, now_s + SEEK_EVERY_S)


async def _answers(url: str, look_ups: LookUps) -> bool:
    """Return whether one of the addresses of `url` accepts a connection within ANSWERS_WITHIN_S."""
    at = urlsplit(url)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            for found in await look_ups.resolve(at.hostname or "", at.port or _PORTS[at.scheme]):
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(found["host"], found["port"])
                    writer.close()
                    return True
    return False
