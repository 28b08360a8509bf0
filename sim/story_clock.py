"""The story's clock: pause, speed and jumps; it waits for what is not yet published, so that time never runs ahead of the readings."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sim.arrays import SECOND_MS
from sim.settings import SPEED_MAX
from sim.story import Chapter
from streams.model.clock import Clock
from streams.model.errors import Misuse

JUMP_SPEED_START = 20_000.0
JUMP_SPEED_LANDING = 600.0
LANDING_S = 0.5
"""A jump slows down so that at no time it would arrive sooner: who asks the time that often does not overshoot."""
JUMP_BEFORE_MS = 30 * SECOND_MS
"""A jump ends so long before its chapter begins."""
LEAD_WALL_S = 1.5
LEAD_MS_MIN, LEAD_MS_MAX = 2 * SECOND_MS, 18 * 60 * SECOND_MS
"""Bounds of fleet time within which the clock may be ahead, by that of the wall, of what is acknowledged, ms. A reading is received at most
so late, less than `cargo.loss.event_time.SOUND_MS`: beyond that its device's clock would be taken for one that fell back."""

ClockState = Literal["running", "paused", "jumping", "waiting", "ended"]


SLOWER, FASTER = 0.8, 1.25
JUDGE_S = 0.25
SHARE_MIN = 0.05
"""Never slower than this share of the speed it began with: what is held longer stands still anyway, and should be back soon."""


class SustainedPace:
    """The speed that can be sustained, at most `wished`: a fifth less when the clock was held, else a quarter more, each JUDGE_S seconds.

    Not safe for use from several threads.
    """

    def __init__(self, wished: float, now_s: float, start: float | None = None) -> None:
        self.wished = wished
        self.speed = wished if start is None else min(start, wished)
        self._least = SHARE_MIN * self.speed
        self._judged_s = now_s
        self._held = False

    def judge(self, now_s: float, *, held: bool) -> None:
        """`held`: the clock had to wait for acknowledgements just now. Decides once in JUDGE_S."""
        self._held = self._held or held
        if now_s - self._judged_s < JUDGE_S:
            return
        wanted = self.speed * (SLOWER if self._held else FASTER)
        self.speed = min(self.wished, max(wanted, self._least))
        self._judged_s, self._held = now_s, False


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings that a person makes and a restart keeps."""

    speed: float
    paused: bool


class StoryClock:
    """The one clock of the fleet. Safe from any thread.

    `confirm` must be called every few tens of ms by the publisher; without it the clock stops within its lead. Time never goes back.
    With `hold` it waits, whatever else is asked of it, until `start`.
    """

    def __init__(
        self, ends_at_ms: int, chapters: Sequence[Chapter], fleet_at_ms: int, setting: Setting, wall: Clock, *, hold: bool = False
    ) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._chapters = tuple(chapters)
        self._ends_at_ms = ends_at_ms
        self._speed, self._paused = setting.speed, setting.paused
        self._pace = SustainedPace(setting.speed, wall.monotonic_s())
        self._fleet_at_ms, self._at_s = float(fleet_at_ms), wall.monotonic_s()
        self._limit_ms = float(fleet_at_ms)
        self._target_ms: int | None = None
        self._stalled = False
        self._held = hold

    def now_ms(self) -> int:
        """Return the fleet's time, UTC ms."""
        with self._lock:
            return int(self._now())

    def setting(self) -> Setting:
        """Return speed and pause as last set; a jump under way is not part of it."""
        with self._lock:
            return Setting(self._speed, self._paused)

    def confirm(self, acknowledged_ms: int) -> None:
        """Record that everything sent up to this fleet time (UTC ms) is published and acknowledged: the clock may run on to a little beyond
        it."""
        with self._lock:
            now, wall_s = self._now(), self._wall.monotonic_s()
            self._stalled = self._limit_ms <= now < self._ends_at_ms and self._free() > now
            self._pace.judge(wall_s, held=self._stalled)
            self._fleet_at_ms, self._at_s = now, wall_s
            if self._target_ms is not None and now >= self._target_ms:
                self._land(wall_s)
            self._limit_ms = max(float(acknowledged_ms + self._lead_ms()), now)

    def start(self) -> None:
        """End the hold: time goes on as set, a paused story stays paused. Changes nothing when there is no hold."""
        with self._lock:
            self._settle()
            self._held = False

    def pause(self) -> None:
        """Time stands still, where followers may have run ahead to already: none has to go back. A jump under way ends here."""
        with self._lock:
            self._settle()
            if self._running():
                self._fleet_at_ms = self._stop_ms()
            self._paused = True
            self._land(self._wall.monotonic_s())

    def resume(self) -> None:
        """Time runs on at the speed last set."""
        with self._lock:
            self._settle()
            self._paused = False

    def change_speed(self, speed: float) -> None:
        """Run from now on `speed` times as fast as the wall's clock; a paused clock stays paused. Raises Misuse beyond SPEED_MAX."""
        if not 0 < speed <= SPEED_MAX:
            raise Misuse(f"a speed is above 0 and at most {SPEED_MAX:,.0f}, not {speed:g}", code="speed_invalid")
        with self._lock:
            self._settle()
            self._speed = speed
            if self._target_ms is None:
                self._pace = SustainedPace(speed, self._wall.monotonic_s())

    def jump(self, chapter_id: str) -> None:
        """Run flat out to just before the chapter, then on as before. Raises Misuse for an unknown chapter and for one that has begun."""
        chapter = next((chapter for chapter in self._chapters if chapter.id == chapter_id), None)
        if chapter is None:
            raise Misuse(
                f"there is no chapter {chapter_id!r}",
                hint=f"there are {', '.join(each.id for each in self._chapters)}",
                code="chapter_unknown",
            )
        with self._lock:
            self._settle()
            if self._fleet_at_ms > chapter.begins_at_ms:
                raise Misuse(
                    f"chapter {chapter.id} is behind us: the story only runs forward", hint="start again with --fresh", code="chapter_past"
                )
            self._target_ms = chapter.begins_at_ms - JUMP_BEFORE_MS
            self._pace = SustainedPace(SPEED_MAX, self._wall.monotonic_s(), start=max(self._speed, JUMP_SPEED_START))

    def view(self) -> dict[str, Any]:
        """Return the answer of `GET /clock`: `FleetTime`'s fields, and what a person wants to know. `speed` is 0 while time stands still;
        whatever happens, time goes no further than `stops_at_ms` before it is asked again.
        """
        with self._lock:
            now = self._now()
            written = [chapter.id for chapter in self._chapters if chapter.written_at_ms <= now]
            state = self._state(now)
            return {
                "wall_at_ms": self._wall.now_ms(),
                "fleet_at_ms": int(now),
                "stops_at_ms": int(self._stop_ms()),
                "speed": round(self._effective(), 3) if state in ("running", "jumping") else 0.0,
                "speed_set": self._speed,
                "state": state,
                "chapter": written[-1] if written else None,
                "chapters": {chapter.id: chapter.begins_at_ms for chapter in self._chapters},
                "ends_at_ms": self._ends_at_ms,
            }

    def _state(self, now: float) -> ClockState:
        if now >= self._ends_at_ms:
            return "ended"
        if self._target_ms is None and self._paused:
            return "paused"
        if self._held or self._stalled or now >= self._limit_ms:
            return "waiting"
        return "running" if self._target_ms is None else "jumping"

    def _running(self) -> bool:
        return not self._held and (self._target_ms is not None or not self._paused)

    def _free(self) -> float:
        """Return what the time would be if nothing held it."""
        if not self._running():
            return self._fleet_at_ms
        return self._fleet_at_ms + (self._wall.monotonic_s() - self._at_s) * 1_000 * self._effective()

    def _now(self) -> float:
        return max(self._fleet_at_ms, min(self._free(), self._stop_ms()))

    def _stop_ms(self) -> float:
        """Return what time can not pass as things stand: a hold, what is acknowledged and a little, the end of the jump, the story's
        end."""
        if self._held:
            return self._fleet_at_ms
        return max(self._fleet_at_ms, min(self._limit_ms, self._ends_at_ms, float("inf") if self._target_ms is None else self._target_ms))

    def _effective(self) -> float:
        """Return fleet time per wall time: what the pace allows; a jump slows down towards its end, so that those who follow do not
        overshoot."""
        if self._target_ms is None:
            return self._pace.speed
        landing = (self._target_ms - self._fleet_at_ms) / 1_000 / LANDING_S
        return min(self._pace.speed, max(landing, self._speed, JUMP_SPEED_LANDING))

    def _lead_ms(self) -> float:
        return min(max(self._effective() * LEAD_WALL_S * 1_000, LEAD_MS_MIN), LEAD_MS_MAX)

    def _settle(self) -> None:
        """Make this instant the new beginning, before the speed changes."""
        self._fleet_at_ms, self._at_s = self._now(), self._wall.monotonic_s()

    def _land(self, wall_s: float) -> None:
        """End a jump: the speed is again the one that was set."""
        if self._target_ms is not None:
            self._target_ms = None
            self._pace = SustainedPace(self._speed, wall_s)
