"""A node's own clock under check: its steps are reported, and its last confirmed time is kept in the node's folder."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from streams.clock import Clock, FleetClock
from streams.clockcheck import STEP_MS_MAX, ClockCheck, ClockSteps, LastConfirmed
from streams.log import Log
from streams.metrics import Metrics
from streams.replacing import replace_file

FILE_NAME = "clock.json"
EARLIEST_AT_MS = 1_767_225_600_000
"""The year of this release, 2026-01-01, UTC ms: a clock before it is wrong."""
LOOK_EVERY_S = 1.0
"""The time between two looks at the clock, seconds."""
KEPT_EVERY_S = 3_600.0
"""The minimum time between two writes of the last confirmed time, seconds."""
SHOWN_S = 86_400.0
"""How long a step is shown in `status`, seconds."""
REPORTS_MAX, REPORTS_WITHIN_S = 20, 86_400.0
"""Maximum number of steps reported within so many seconds; more are counted (`clock_steps`)."""
CODE = "clock_stepped"
_HINT = "check the machine's clock, its battery and its time service"
logger = logging.getLogger("landfall.node")


@dataclass(frozen=True, slots=True)
class Step:
    """The clock changed by `stepped_ms` (negative: back) to `at_ms`, UTC ms; `at_start`: before this process was started."""

    stepped_ms: int
    at_ms: int
    at_start: bool


class ClockKeeper:
    """Owns the check of a node's clock. `run` it as background work.

    A fleet clock may jump: its steps are not looked for, and no time of it is kept.
    """

    def __init__(self, folder: Path, clock: Clock, boot_id: str, metrics: Metrics, report: Callable[..., None]) -> None:
        """`folder`: the node's. `boot_id`: the id of this start of the machine, empty where it is unknown."""
        self._path, self._clock, self._metrics, self._report = folder / FILE_NAME, clock, metrics, report
        followed = isinstance(clock, FleetClock)
        self.check = ClockCheck(clock) if followed else ClockCheck(clock, boot_id, _read(self._path))
        self._steps = None if followed else ClockSteps(clock)
        self._kept_s = self._found_s = -math.inf
        self._last: Step | None = None
        self._reported_s: deque[float] = deque(maxlen=REPORTS_MAX)

    async def run(self, log: Log) -> None:
        """Look at the clock every LOOK_EVERY_S, until cancelled. `log`: the node's, open."""
        if self._steps is not None:
            self.look_at_start(await asyncio.to_thread(log.newest_received_ms))
        while self._steps is not None:
            self.look(self._steps)
            await asyncio.to_thread(self.keep)
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.Event().wait()

    def look_at_start(self, newest_received_ms: int) -> None:
        """Report a clock that is more than STEP_MS_MAX before the log's newest received time (UTC ms), or before EARLIEST_AT_MS."""
        now_ms = self._clock.now_ms()
        behind_ms = max(newest_received_ms - STEP_MS_MAX, EARLIEST_AT_MS) - now_ms
        if behind_ms > 0:
            self._found(Step(now_ms - max(newest_received_ms, EARLIEST_AT_MS), now_ms, at_start=True))

    def look(self, steps: ClockSteps) -> None:
        """Report a step since the last look, and say in `troubles` what is wrong now."""
        if stepped_ms := steps.look():
            self._found(Step(stepped_ms, self._clock.now_ms(), at_start=False))
        trouble = self._trouble()
        if trouble:
            self._metrics.troubles[CODE] = trouble
        else:
            self._metrics.troubles.pop(CODE, None)

    def keep(self) -> None:
        """Write the last confirmed time, at most every KEPT_EVERY_S. A disk that does not take it is asked again at the next look."""
        now_s = self._clock.boot_s()
        if now_s - self._kept_s < KEPT_EVERY_S or (last := self.check.last_confirmed()) is None:
            return
        try:
            replace_file(self._path, msgspec.json.encode(last))
            self._kept_s = now_s
        except OSError as problem:
            logger.warning("cannot write the last confirmed time: %s: %s", self._path, problem)

    def status(self) -> dict[str, Any]:
        """Return whether the clock is confirmed, whether all peers' times contradict it, and its last step of the last SHOWN_S."""
        return {
            "confirmed": self.check.confirmed_ms() is not None,
            "contradicted": self.check.contradicted(),
            "step": asdict(step) if (step := self._shown()) else None,
        }

    def _found(self, step: Step) -> None:
        now_s = self._clock.boot_s()
        self._last, self._found_s = step, now_s
        self._metrics.count("clock_steps")
        if len(self._reported_s) == REPORTS_MAX and now_s - self._reported_s[0] < REPORTS_WITHIN_S:
            return
        self._reported_s.append(now_s)
        confirmed = self.check.confirmed_ms() is not None
        outcome = "peers' times confirm it" if confirmed else "not confirmed: nothing is dropped by age"
        self._report("this node's clock has stepped", outcome, code=CODE, hint=_HINT, **asdict(step))

    def _shown(self) -> Step | None:
        return self._last if self._clock.boot_s() - self._found_s < SHOWN_S else None

    def _trouble(self) -> str:
        """A sentence for people; empty while nothing is wrong."""
        if self.check.contradicted():
            return f"the clock is more than a day away from those of all peers, and nothing is dropped by age: {_HINT}"
        if (step := self._shown()) is None:
            return ""
        way = f"{abs(step.stepped_ms) / 3_600_000:,.1f} h {'ahead' if step.stepped_ms > 0 else 'back'}"
        return f"the clock has stepped {way} within the last day: {_HINT}"


def machine_boot_id() -> str:
    """Return the id that Linux gives this start of the machine; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _read(path: Path) -> LastConfirmed | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=LastConfirmed)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, OSError) as problem:
        logger.warning("cannot read the last confirmed time, so a peer's time is waited for: %s: %s", path, problem)
        return None
