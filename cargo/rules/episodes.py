"""Common parts of the rules: limits, the memory of a box, the place of a reading, and the alert of one run beyond a limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from cargo.alerts.alert_log import Alert, AlertState, Figure, Severity, alert_id
from cargo.loss.loss_classifier import Evidence
from cargo.rules.climate_limits import Climate
from cargo.vocabulary.durations import duration_text

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits beyond which a value becomes an alarm. Starting values [A], except those of DOMAIN 4 and 5.

    A booking may have its own limits, and so may a size and type of container (`asked`). No share of humidity is an alarm unless a booking
    sets one: 16 to 85 % are usual for dry air."""

    above_c: float = 3.0
    below_c: float = 3.0
    band_lasts_ms: int = HOUR_MS
    clear_after_ms: int = HOUR_MS
    unmeasured_after_ms: int = 3 * HOUR_MS
    after_defrost_ms: int = HOUR_MS
    after_setpoint_ms: int = 6 * HOUR_MS
    supply_above_c: float = -10.0
    power_off_ms: int = 4 * HOUR_MS
    setpoint_within_c: float = 0.5
    setpoint_lasts_ms: int = HOUR_MS
    humidity_pct: tuple[float, float] = (0.0, 100.0)
    humidity_lasts_ms: int = HOUR_MS
    door_open_ms: int = 0
    tilt_lasts_ms: int = 2 * 60_000
    shock_at_sea_g: float = 4.0
    shock_ashore_g: float = 12.0
    shock_merges_ms: int = HOUR_MS // 2
    shock_clears_ms: int = 24 * HOUR_MS
    late_intervals: int = 2
    silent_intervals: int = 6

    def asked(self, climate: Climate) -> Limits:
        """Return these limits, replaced by those that the booking, or the size and type, has of its own."""
        own = {name: value for name, value in msgspec.structs.asdict(climate).items() if value is not msgspec.UNSET}
        return replace(self, **own)


class Episode(msgspec.Struct, omit_defaults=True):
    """One run of readings beyond a limit: since when, since when back within, the peak, and the alert raised for it (`raised_at_ms` 0:
    none).

    `degree_minutes`: distance from the setpoint times duration, as far as it was measured; `unmeasured_ms`: time without a measurement;
    `last_at_ms`, `last_beyond`: the reading before; `lasted`: it lasted long enough to count; `count`: how often it happened."""

    since_ms: int = 0
    back_ms: int = 0
    peak: float = 0.0
    degree_minutes: float = 0.0
    unmeasured_ms: int = 0
    last_at_ms: int = 0
    last_beyond: float = 0.0
    raised_at_ms: int = 0
    alert_id: str = ""
    lasted: bool = False
    count: int = 1


class Excursion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of an excursion of temperature that is over: its span (UTC ms), its peak (°C from the setpoint), degree-minutes and alert.

    `alert_id`: the alert raised for it ("": none); `unmeasured_ms`: the part of it without a measurement. `first_ms`: its beginning as
    first reported, which identifies it permanently; `retracted`: late readings show that it was none."""

    first_ms: int
    since_ms: int
    until_ms: int
    peak_c: float
    degree_minutes: float
    alert_id: str = ""
    retracted: bool = False
    unmeasured_ms: int = 0


class RuleMemory(msgspec.Struct, omit_defaults=True):
    """State of the rules for one box: its last setpoint, the times of its last change and defrost, its power, and an episode per rule.

    `power_on` is None where it is not reported yet. `samples`: time and °C from the setpoint of the last readings of the control air
    (`cargo.loss.packed_track`); `base`: the fold of those dropped before (the last at `dropped_at_ms`); `told`: the records of excursions
    that are over, `ended`: those of them to report now."""

    setpoint_c: float | None = None
    power_on: bool | None = None
    setpoint_at_ms: int = 0
    defrosted_at_ms: int = 0
    episodes: dict[str, Episode] = {}
    samples: bytes = b""
    base: Episode | None = None
    dropped_at_ms: int = 0
    told: tuple[Excursion, ...] = ()
    ended: tuple[Excursion, ...] = ()


class Where(msgspec.Struct, frozen=True, gc=False):
    """Box of a reading, and its place: number, ship (IMO) or None, slot or None, whether the ship is at sea.

    `laden`: whether a booking covers it now, so that its climate matters (True when its bookings are not known). `booked_c`: its booked
    setpoint, if any. `tilted`: whether this reading shows it lying (None: not reported, or at sea, where it is a stack). `historical`: the
    reading comes too late for an alarm: it may change what was reported, and reports nothing new. `interval_ms`: the expected interval of
    its readings (0: nothing is wrong so far, and the interval is not needed)."""

    container: str
    ship: str | None
    slot: str | None
    at_sea: bool
    side: str
    laden: bool = True
    booked_c: float | None = None
    tilted: bool | None = None
    historical: bool = False
    interval_ms: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    """Content of an alert: severity, title ("": that of its rule), detail, evidence, and figure.

    `count`: how often it happened; `last_at_ms`: the last time, where that is not now."""

    severity: Severity
    title: str
    detail: str
    proof: Evidence
    figure: Figure | None = None
    count: int = 1
    last_at_ms: int | None = None


def unmeasured(episode: Episode) -> str:
    """Return in words how much of the episode was not measured; "" where that is nothing."""
    return f", {duration_text(episode.unmeasured_ms)} of it not measured" if episode.unmeasured_ms else ""


def raise_alert(episode: Episode, rule: str, where: Where, at_ms: int, text: Text) -> list[Alert]:
    """Return a new alert; none while the readings are historical: what still lasts after them is raised then."""
    if where.historical:
        return []
    first = msgspec.structs.replace(text.proof, at_ms=episode.since_ms)
    episode.raised_at_ms, episode.alert_id = at_ms, alert_id(where.side, rule, where.container, first)
    return [change_alert(episode, "raised", rule, where, at_ms, text)]


def change_alert(episode: Episode, state: AlertState, rule: str, where: Where, at_ms: int, text: Text) -> Alert:
    """Return a change of the episode's alert."""
    more: dict[str, Any] = {"ship": where.ship, "slot": where.slot}
    return Alert(
        alert_id=episode.alert_id,
        topic=where.container,
        rule=rule,
        severity=text.severity,
        state=state,
        at_ms=at_ms,
        title=text.title or f"{where.container}: {WORDS[rule]}",
        detail=text.detail,
        evidence=(text.proof,),
        figure=text.figure,
        count=text.count,
        first_at_ms=episode.since_ms,
        last_at_ms=text.last_at_ms,
        **more,
    )


WORDS = {
    "temperature": "temperature out of range",
    "setpoint": "not set to what is booked",
    "power_off": "power off",
    "humidity": "humidity out of range",
    "door_open": "door open at sea",
    "tilt": "lies tilted",
    "shock": "hard shock",
}
