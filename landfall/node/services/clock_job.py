"""A node's own clock under check: its steps are reported, and its last confirmed time is kept in the node's folder."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from landfall.storage.log_core import KeptLog
from landfall.system.release import RELEASED_AT_MS
from landfall.system.replaced_files import replace_file
from streams.log import Append
from streams.model.clock import Clock, FleetClock
from streams.model.clock_check import STEP_MS_MAX, CheckedClock, ClockCheck, LastConfirmed
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics
from streams.model.records import with_clock_doubted

FILE_NAME = "clock.json"
LOOK_EVERY_S = 1.0
"""The time between two looks at the clock, seconds."""
KEPT_EVERY_S = 3_600.0
"""The minimum time between two writes of the last confirmed time, seconds."""
SHOWN_S = 86_400.0
"""Time for which a step is shown in `status`, seconds."""
REPORTS_MAX, REPORTS_WITHIN_S = 20, 86_400.0
"""Maximum number of steps reported within so many seconds; more are counted (`clock_steps`)."""
CODE = "clock_stepped"
MARKED = frozenset({"alerts", "decisions", "events", "exceptions", "reports"})
"""Streams whose records state times by the clock of the node that wrote them."""
REOPENED_S_MIN = 6 * 3_600.0
"""The minimum time between two generations of the log that are opened because the clock went back, seconds."""
REOPENED_WHY = "the clock was ahead, and is right again"
_HINT = "check the machine's clock, its battery and its time service"
logger = logging.getLogger("landfall.node")


@dataclass(frozen=True, slots=True)
class Step:
    """The clock changed by `stepped_ms` (negative: back) to `at_ms`, UTC ms; `at_start`: before this process was started."""

    stepped_ms: int
    at_ms: int
    at_start: bool


class ClockKeeper:
    """The owner of the check of a node's clock. `run` it as background work; `clock` is the clock for everything else of the node.

    A fleet clock may jump: its steps are not looked for, and no time of it is kept.
    """

    def __init__(self, folder: Path, clock: Clock, boot_id: str, metrics: Metrics, report: Callable[..., None]) -> None:
        """Read the last confirmed time. `folder`: the node's. `boot_id`: the id of this start of the machine, empty where it is unknown."""
        self._path, self._metrics, self._report = folder / FILE_NAME, metrics, report
        followed = isinstance(clock, FleetClock)
        last = None if followed else _read(self._path)
        self.check = ClockCheck(clock) if followed else ClockCheck(clock, boot_id, last)
        self._checked = None if followed else CheckedClock(clock, self.check)
        self.clock: Clock = self._checked or clock
        if self._checked is not None and (clock.now_ms() < RELEASED_AT_MS or (last and self.check.confirmed_ms() is None)):
            self._checked.doubt()
        self._kept_s = self._found_s = self._reopened_s = -math.inf
        self._last: Step | None = None
        self._reported_s: deque[float] = deque(maxlen=REPORTS_MAX)

    async def run(self, log: KeptLog) -> None:
        """Look at the clock every LOOK_EVERY_S, until cancelled. `log`: the node's, open."""
        if self._checked is not None:
            self.look_at_start(await asyncio.to_thread(log.newest_received_ms))
            self._reopened_s = self._last_reopened_s(log)
        while self._checked is not None:
            self.look(self._checked)
            await asyncio.to_thread(self.keep)
            await asyncio.to_thread(self.reopen, log)
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.Event().wait()

    def look_at_start(self, newest_received_ms: int) -> None:
        """Report a clock that is more than STEP_MS_MAX before the log's newest received time (UTC ms), or before RELEASED_AT_MS."""
        now_ms = self.clock.now_ms()
        behind_ms = max(newest_received_ms - STEP_MS_MAX, RELEASED_AT_MS) - now_ms
        if behind_ms > 0:
            if self._checked is not None:
                self._checked.doubt()
            self._found(Step(now_ms - max(newest_received_ms, RELEASED_AT_MS), now_ms, at_start=True))

    def look(self, checked: CheckedClock) -> None:
        """Report a step since the last look, and write to `troubles` what is wrong now."""
        if stepped_ms := checked.step_ms():
            self._found(Step(stepped_ms, self.clock.now_ms(), at_start=False))
        trouble = self._trouble()
        if trouble:
            self._metrics.troubles[CODE] = trouble
        else:
            self._metrics.troubles.pop(CODE, None)

    def marked(self, appends: Sequence[Append]) -> Sequence[Append]:
        """Return these appends. While the clock is doubted, the bodies of MARKED streams say so (`clock_doubted`). Raises as
        `with_clock_doubted`."""
        if not self.clock.doubted():
            return appends
        return [replace(one, records=with_clock_doubted(one.records)) if one.stream in MARKED else one for one in appends]

    def keep(self) -> None:
        """Write the last confirmed time, at most every KEPT_EVERY_S. A disk that does not take it is asked again at the next look."""
        now_s = self.clock.boot_s()
        if now_s - self._kept_s < KEPT_EVERY_S or (last := self.check.last_confirmed()) is None:
            return
        try:
            replace_file(self._path, msgspec.json.encode(last))
            self._kept_s = now_s
        except OSError as problem:
            logger.warning("cannot write the last confirmed time: %s: %s", self._path, problem)

    def reopen(self, log: KeptLog) -> None:
        """Open a new generation of `log` where its newest received time is more than STEP_MS_MAX ahead of a confirmed clock.

        Received times never fall within a generation: records would go on being dated as the clock was wrong. At most one is opened in
        REOPENED_S_MIN. A log that can not be written now is asked again at the next look.
        """
        now_s, now_ms = self.clock.boot_s(), self.check.confirmed_ms()
        if now_ms is None or now_s - self._reopened_s < REOPENED_S_MIN:
            return
        if (ahead_ms := log.newest_received_ms() - now_ms) <= STEP_MS_MAX:
            return
        try:
            origin = log.open_generation(REOPENED_WHY)
        except RetryLater as problem:
            logger.warning("a new generation of the log is opened later: %s", problem)
            return
        self._reopened_s = now_s
        outcome = f"a new generation of the log is opened: {origin}"
        self._report("records were dated ahead of this node's clock", outcome, code="log_reopened", hint=_HINT, ahead_ms=ahead_ms)

    def status(self) -> dict[str, Any]:
        """Return whether the clock is confirmed, whether all peers' times contradict it, and its last step of the last SHOWN_S."""
        return {
            "confirmed": self.check.confirmed_ms() is not None,
            "contradicted": self.check.contradicted(),
            "step": asdict(step) if (step := self._shown()) else None,
        }

    def _found(self, step: Step) -> None:
        now_s = self.clock.boot_s()
        self._last, self._found_s = step, now_s
        self._metrics.count("clock_steps")
        if len(self._reported_s) == REPORTS_MAX and now_s - self._reported_s[0] < REPORTS_WITHIN_S:
            return
        self._reported_s.append(now_s)
        confirmed = self.check.confirmed_ms() is not None
        outcome = "peers' times confirm it" if confirmed else "not confirmed: nothing is dropped by age"
        self._report("this node's clock has stepped", outcome, code=CODE, hint=_HINT, **asdict(step))

    def _last_reopened_s(self, log: KeptLog) -> float:
        """Return when the log's last generation was opened because of the clock, in boot seconds, by the present clock."""
        opened = [one.at_ms for one in log.generations() if one.why == REOPENED_WHY]
        return self.clock.boot_s() - abs(self.clock.now_ms() - opened[-1]) / 1000 if opened else -math.inf

    def _shown(self) -> Step | None:
        return self._last if self.clock.boot_s() - self._found_s < SHOWN_S else None

    def _trouble(self) -> str:
        """Return a sentence for people; empty while nothing is wrong."""
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
