"""State of one box and of one gateway in a node's memory, and its update by each reading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import msgspec

from cargo.loss.loss_classifier import (
    GONE_STATES,
    INTERVALS_MISSING,
    KINEMATIC_WINDOW_MS,
    LAST_WORDS_MS,
    SHOCK_G,
    SHORT_FALL_MS,
    TILT_DEG,
    Evidence,
    State,
)
from cargo.loss.packed_track import last, packed, unpacked
from cargo.loss.reading_rows import Value
from cargo.loss.report_interval import Habit
from cargo.loss.voyage import ShipVoyage
from cargo.rules.episodes import RuleMemory

LATELY_READINGS = 4_000
LATELY_READINGS_MIN = 50
MISSED_MAX = 5
CHANCE_MAX = 1e-4
KEPT_READINGS = 10
"""Excess of late readings over timely ones that shows that the gateway stored them, not that clocks are wrong."""
RSSI_BUCKET_MS = 6 * 3_600_000
RSSI_BUCKETS = 5
RSSI_SLIDE_DB = 6.0
FIXES_MAX = 8
ACCURACY_M_MAX = 1_000
FIX_SLACK_MS = 20 * 60_000
RADIO_NM = 10.0
"""Maximum distance at which a gateway of a ship receives a box, nautical miles [A]. Beyond it, the position of a received box is wrong."""
BATTERY_LOW_MV = 3_300
"""Voltage of the 3.6 V cells of trackers at about a tenth of their charge, millivolts [A]."""


class Gateway(msgspec.Struct):
    """State of one gateway: when it last passed a reading on, and since when it receives again after an outage (UTC ms).

    `came` and `missed`: how many readings of regular boxes came recently, and how many were lost on the air. `behind`: how many more of its
    last readings came late than in time. `out_told_ms`: since when the log reports it as out (UTC ms; 0: it does not)."""

    heard_at_ms: int = 0
    back_at_ms: int = 0
    out_told_ms: int = 0
    came: int = 0
    missed: int = 0
    behind: int = 0

    def note(self, gap_ms: int, interval_ms: int) -> None:
        """Count a regular box's gap between two readings: all intervals in it but one were missed."""
        self.came += 1
        self.missed += min(MISSED_MAX, max(0, round(gap_ms / interval_ms) - 1))
        if self.came >= LATELY_READINGS:
            self.came, self.missed = self.came // 2, self.missed // 2

    def arrive(self, *, late: bool, now_ms: int) -> None:
        """Record whether a box's message came late.

        A gateway that delivers stored readings counts as out until now: the last messages of its boxes are known only when all of it is
        here. Their silence begins then."""
        self.behind = min(KEPT_READINGS, self.behind + 1) if late else max(0, self.behind - 1)
        if self.behind == KEPT_READINGS:
            self.back_at_ms = now_ms

    def patience(self) -> int:
        """Return after how many missed intervals a silence is no longer chance: 2 on a clean radio, more when more readings are lost on the
        air.

        With this number of intervals, chance alone causes the silence once in 10,000."""
        if self.came < LATELY_READINGS_MIN or not self.missed:
            return INTERVALS_MISSING
        share = min(0.5, self.missed / (self.came + self.missed))
        return max(INTERVALS_MISSING, math.ceil(math.log(CHANCE_MAX) / math.log(share)))


class BoxLoss(msgspec.Struct, frozen=True):
    """Contents of the alert of a lost box when it was raised: its text, the probability and the evidence."""

    detail: str
    posterior: float
    evidence: tuple[Evidence, ...]

    def is_last_word(self, at_ms: int) -> bool:
        """Return whether a message of this time (UTC ms, by the box's own clock) comes from the fall itself, so it does not show the box is
        there."""
        return any(piece.family == "kinematic" and at_ms - piece.at_ms <= LAST_WORDS_MS for piece in self.evidence)


class Box(msgspec.Struct, omit_defaults=True):
    """State of one box. `newest_at_ms` is by its own clock, `heard_at_ms` by the node's.

    `waiting_from_ms`: since when it could have been heard if it never was. `shock` and `free_fall` are (value, own time); `tilt` is the
    residual (degrees, own time), `tilt_from_ms` when it began; `fixes` wait until the ship's track reaches beyond them. `rssi` is the
    strongest (dBm) of each of the last spans of 6 h, packed (`cargo.loss.packed_track`).

    `off_since_ms`: when it was last heard before its own positions left the ship's track; `off_at_ms`: the time of its last position that
    left the track, whatever the cause (0: it was on the track). `again_ms`: after how long it reports again, by its own last message (0:
    the message gave no time). `said_where`, `said_g`, `said_fall_ms`: the values of its last message, or of its last position.

    `answers`: how often it has recently answered a roll call, `answered_at_ms` the last time; it is called from `called_at_ms` on, before
    `call_until_ms`. `listened_from_ms`: its silence counts from then on, because no node listened before, when it may have reported
    (`cargo.loss.watch`; UTC ms). `by_hand`: a person set its state; no silence overrules it until it is heard or the ship sails from the
    next port."""

    number: str
    habit: Habit
    rules: RuleMemory
    newest_at_ms: int = 0
    heard_at_ms: int = 0
    waiting_from_ms: int = 0
    listened_from_ms: int = 0
    first_at_ms: int = 0
    gateway: str = ""
    aboard: bool = False
    aboard_at_ms: int = 0
    told: tuple[str, ...] = ()
    felt: dict[str, int] = {}
    state: State = "ONBOARD"
    by_hand: bool = False
    due_at_ms: int = 0
    shock: tuple[float, int] | None = None
    free_fall: tuple[int, int] | None = None
    tilt_rest_deg: float | None = None
    tilt: tuple[float, int] | None = None
    tilt_from_ms: int = 0
    power_off_at_ms: int = 0
    battery_mv: int = 0
    rssi: bytes = b""
    fixes: tuple[tuple[int, float, float, bool], ...] = ()
    fixes_nm: tuple[float, ...] = ()
    said_where: tuple[float, float] | None = None
    said_g: float = 0.0
    said_fall_ms: int = 0
    off_at_ms: int = 0
    off_since_ms: int = 0
    again_ms: int = 0
    answers: int = 0
    answered_at_ms: int = 0
    called_at_ms: int = 0
    call_until_ms: int = 0
    incident_id: str = ""
    alert_id: str = ""
    lost_at_ms: int = 0
    loss: BoxLoss | None = None

    @classmethod
    def new(cls, number: str) -> Box:
        """Return a new box without any known facts."""
        return cls(number, Habit(), RuleMemory())

    def fold(self, at_ms: int, signals: Mapping[str, Value], voyage: ShipVoyage) -> None:
        """Apply the facts of one reading, also of a late one. The same reading again changes nothing.

        A blow or a fall with the same value as in the previous reading is the same event, which the device repeats."""
        shock_g, fell_ms = float(signals.get("shock_g", 0.0)), int(signals.get("free_fall_ms", 0))
        if at_ms < self.newest_at_ms:
            if self.shock is None or shock_g != self.shock[0]:
                self._shock(at_ms, shock_g)
            if self.free_fall is None or fell_ms != self.free_fall[0]:
                self._fall(at_ms, fell_ms)
            return
        if shock_g != self.said_g:
            self._shock(at_ms, shock_g)
        if fell_ms != self.said_fall_ms:
            self._fall(at_ms, fell_ms)
        self.said_g, self.said_fall_ms = shock_g, fell_ms
        self.again_ms = 1_000 * int(signals.get("again_in_s", 0))
        if "tilt_deg" in signals:
            self._tilt(at_ms, float(signals["tilt_deg"]), voyage)
        if "power_on" in signals:
            self.power_off_at_ms = 0 if signals["power_on"] else self.power_off_at_ms or at_ms
        if "battery_mv" in signals:
            self.battery_mv = int(signals["battery_mv"])
        if "rssi_dbm" in signals:
            self._rssi(at_ms, float(signals["rssi_dbm"]))
        if "latitude_deg" in signals and "longitude_deg" in signals:
            self._fix(at_ms, signals)
        if self.fixes_nm and "gateway" in signals and self._outran(at_ms, voyage):
            self.fixes_nm, self.off_since_ms = (), 0

    def base_ms(self) -> int:
        """Return since when it is silent, by the box's own messages alone (UTC ms on the node's clock)."""
        return self.off_since_ms or self.heard_at_ms or self.waiting_from_ms

    @property
    def battery_low(self) -> bool:
        """Whether its last battery reading was below a tenth."""
        return 0 < self.battery_mv < BATTERY_LOW_MV

    @property
    def rssi_sliding(self) -> bool:
        """Whether its signal fell through the last 24 hours: every 6 hours weaker than before, by 6 dB in all."""
        best = [strength for _, strength in unpacked(self.rssi)]
        falling = all(later < earlier for earlier, later in pairwise(best))
        return len(best) == RSSI_BUCKETS and falling and best[0] - best[-1] >= RSSI_SLIDE_DB

    def struck(self, sailed_at_ms: int) -> bool:
        """Return whether its last message reported a blow above 4 g on the leg the ship sailed then: a blow at the berth was handling."""
        return self.shock is not None and self.shock[1] >= sailed_at_ms and abs(self.newest_at_ms - self.shock[1]) <= KINEMATIC_WINDOW_MS

    def said_more(self) -> bool:
        """Return whether a message came after its last blow that was not of the same fall: the box is then still there."""
        return self.shock is not None and self.newest_at_ms - self.shock[1] > LAST_WORDS_MS

    def fell_with(self, at_ms: int) -> bool:
        """Return whether the box is reported lost, and a message of this time (UTC ms, by its own clock) comes from the fall itself."""
        return self.state in GONE_STATES and self.loss is not None and self.loss.is_last_word(at_ms)

    def judge_fixes(self, voyage: ShipVoyage) -> None:
        """Measure the waiting positions against the ship's track, as far as the track is known by now."""
        while self.fixes and self.fixes[0][0] + FIX_SLACK_MS <= voyage.fixed_until_ms():
            (at, latitude, longitude, by_radio), *others = self.fixes
            self.fixes = tuple(others)
            off_nm = voyage.off_track_nm(at, latitude, longitude, FIX_SLACK_MS)
            if off_nm <= 0.5 or not voyage.at_sea or at < voyage.sailed_at_ms + FIX_SLACK_MS:
                self.fixes_nm, self.off_since_ms, self.off_at_ms = (), 0, 0
            elif off_nm != math.inf:
                far, first_ms = by_radio and off_nm > RADIO_NM, self.off_at_ms if self.fixes_nm else at
                self.off_at_ms, again = at, bool(self.fixes_nm)
                self.fixes_nm = () if far else (*self.fixes_nm[-2:], off_nm)
                if far:
                    self.off_since_ms = 0
                elif again or not by_radio:  # one that the ship hears is believed to be elsewhere by its second position, not by one
                    self.off_since_ms = self.off_since_ms or first_ms

    def _outran(self, at_ms: int, voyage: ShipVoyage) -> bool:
        """Return whether the ship, which receives it, is out of radio range of its last reported position: that position was never
        right."""
        return self.said_where is not None and RADIO_NM < voyage.off_track_nm(at_ms, *self.said_where, FIX_SLACK_MS) < math.inf

    def _shock(self, at_ms: int, shock_g: float) -> None:
        if shock_g <= SHOCK_G:
            return
        if self.shock is None or at_ms > self.shock[1] + KINEMATIC_WINDOW_MS:
            self.shock = (shock_g, at_ms)
        elif at_ms >= self.shock[1] - KINEMATIC_WINDOW_MS:
            self.shock = max(self.shock, (shock_g, at_ms))

    def _fall(self, at_ms: int, free_fall_ms: int) -> None:
        if free_fall_ms < SHORT_FALL_MS:
            return
        if self.free_fall is None or at_ms > self.free_fall[1] + KINEMATIC_WINDOW_MS:
            self.free_fall = (free_fall_ms, at_ms)
        elif at_ms >= self.free_fall[1] - KINEMATIC_WINDOW_MS:
            self.free_fall = max(self.free_fall, (free_fall_ms, at_ms))

    def _tilt(self, at_ms: int, tilt_deg: float, voyage: ShipVoyage) -> None:
        """Update the residual: the angle from its attitude at rest, less the largest roll the ship measured around then, whatever the
        sign."""
        if self.tilt_rest_deg is None:
            self.tilt_rest_deg = tilt_deg
        roll, _, _ = voyage.roll(at_ms - 10 * 60_000, at_ms + 60_000)
        residual = abs(tilt_deg - self.tilt_rest_deg) - roll
        if residual <= TILT_DEG:
            self.tilt, self.tilt_from_ms = None, 0
        else:
            self.tilt_from_ms = self.tilt_from_ms or at_ms
            self.tilt = (residual, at_ms)

    def _rssi(self, at_ms: int, rssi_dbm: float) -> None:
        """Keep the strongest value of every 6 hours, so that a repeat changes nothing."""
        bucket = at_ms // RSSI_BUCKET_MS
        newest = last(self.rssi, 1)
        if not newest or newest[0][0] != bucket:
            self.rssi = packed([*(kept for kept in unpacked(self.rssi) if kept[0] > bucket - RSSI_BUCKETS), (bucket, rssi_dbm)])
        elif rssi_dbm > newest[0][1]:
            self.rssi = packed([*unpacked(self.rssi)[:-1], (bucket, rssi_dbm)])

    def _fix(self, at_ms: int, signals: Mapping[str, Value]) -> None:
        accuracy = signals.get("accuracy_m")
        if isinstance(accuracy, int | float) and accuracy > ACCURACY_M_MAX:
            return
        where = (float(signals["latitude_deg"]), float(signals["longitude_deg"]))
        if where != self.said_where:  # no receiver finds the very same place twice: one that says so stands still
            self.fixes = (*self.fixes[1 - FIXES_MAX :], (at_ms, *where, "gateway" in signals))
        self.said_where = where
