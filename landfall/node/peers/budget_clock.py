"""The time by which the days of a node's link budgets begin: a step of the wall clock opens no day."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from landfall.system.replaced_files import replace_file
from streams.model.clock import Clock

FILE_NAME = "budget_clock.json"
DAY_MS = 86_400_000
logger = logging.getLogger("landfall.node")


class Anchor(msgspec.Struct, frozen=True):
    """It was `at_ms` (UTC ms) `boot_s` seconds after the machine's start `boot_id`."""

    boot_id: str
    at_ms: int
    boot_s: float

    def at(self, boot_s: float) -> int:
        """The time (UTC ms) `boot_s` seconds after that start."""
        return self.at_ms + round((boot_s - self.boot_s) * 1000)


class BudgetClock:
    """The wall's time, carried on by boot time from one midnight (UTC) to the next, over restarts of the process too.

    Only there does it follow the wall clock, and only where that is not doubted: so each day lasts until its midnight by boot time. After a
    restart of the machine a clock that is doubted, or behind, goes on from the last day's beginning. Call it from one thread.
    """

    def __init__(self, folder: Path, wall: Clock, doubted: Callable[[], bool], boot_id: str) -> None:
        """`folder`: the node's. `boot_id`: the id of this start of the machine, empty where it is unknown."""
        self._path, self._wall, self._doubted, self._boot_id = folder / FILE_NAME, wall, doubted, boot_id
        self._anchor: Anchor | None = None

    def now_ms(self) -> int:
        """UTC milliseconds. Writes its file when a day begins; a disk that does not take it costs at most one more day after a restart."""
        boot_s = self._wall.boot_s()
        anchor = self._anchor or self._kept(boot_s)
        if anchor is None or anchor.at(boot_s) // DAY_MS != anchor.at_ms // DAY_MS:
            at_ms = anchor.at(boot_s) if anchor is not None and self._doubted() else self._wall.now_ms()
            anchor = Anchor(self._boot_id, at_ms, boot_s)
        if anchor != self._anchor:
            self._anchor = anchor
            self._keep(anchor)
        return anchor.at(boot_s)

    def _kept(self, boot_s: float) -> Anchor | None:
        """What an earlier process left; None where the wall clock is to be followed now."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=Anchor)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, OSError) as problem:
            logger.warning("cannot read when the day of the link budgets began, so the wall clock is followed: %s: %s", self._path, problem)
            return None
        if kept.boot_id and kept.boot_id == self._boot_id and kept.boot_s <= boot_s:
            return kept
        wrong = self._doubted() or self._wall.now_ms() < kept.at_ms
        return Anchor(self._boot_id, kept.at_ms, boot_s) if wrong else None

    def _keep(self, anchor: Anchor) -> None:
        try:
            replace_file(self._path, msgspec.json.encode(anchor))
        except OSError as problem:
            logger.warning("cannot write when the day of the link budgets began: %s: %s", self._path, problem)
