"""What the rules share: their limits, what they remember of a box, whose reading they judge, and the alert of one run beyond a limit."""

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
    """Where a value becomes an alarm. Starting values [A], except those of DOMAIN 4 and 5. A booking may have its own, and a size and type
    of container (`asked`).

    No share of humidity is an alarm unless a booking says which: of dry air 16 to 85 % are usual.
    """

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
        """These limits but for those that the booking, or the size and type, has its own of."""
        own = {name: value for name, value in msgspec.structs.asdict(climate).items() if value is not msgspec.UNSET}
        return replace(self, **own)


class Episode(msgspec.Struct, omit_defaults=True):
    """One run of readings beyond a limit: since when, since when back within, the peak, and the alert raised for it (`raised_at_ms` 0:
    none).

    `degree_minutes`: by how much times how long beyond the setpoint, as far as it was measured; `unmeasured_ms`: how long nobody measured;
    `last_at_ms`, `last_beyond`: the reading before; `lasted`: for as long as makes it one; `count`: how often it happened.
    """

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
    """The record of an excursion of temperature that is over: from when until when (UTC ms), its peak (°C from the setpoint),
    degree-minutes, the alert that was raised of it ("": none), and how long of it nothing was measured (`unmeasured_ms`).

    `first_ms`: its beginning as first reported, which names it for good; `retracted`: late readings show that it was none.
    """

    first_ms: int
    since_ms: int
    until_ms: int
    peak_c: float
    degree_minutes: float
    alert_id: str = ""
    retracted: bool = False
    unmeasured_ms: int = 0


class RuleMemory(msgspec.Struct, omit_defaults=True):
    """What the rules remember of one box: its last setpoint, when that changed and when it last defrosted, whether it had power (None: not
    reported yet), and an episode per rule.

    `samples`: time and °C from the setpoint of the last readings of the control air (`cargo.loss.packed_track`), `base`: what those dropped
    before (the last at `dropped_at_ms`) came to; `told`: the records of excursions that are over, `ended`: those of them to report now.
    """

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
    """Whose reading it is, and where the box was: number, ship (IMO) or None, slot or None, whether the ship is at sea.

    `laden`: whether a booking covers it now, so that its climate matters (True when nothing is known of its bookings). `booked_c`: what it
    is to be set to, if anybody said. `tilted`: whether this reading shows it lying (None: no word of it, or at sea, where it is a stack).
    `historical`: the reading comes too late to alarm anybody: it may change what was reported, and reports nothing new. `interval_ms`: how
    often the box is expected to speak (0: it says nothing wrong so far, and nobody asks).
    """

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
    """What an alert says: severity, title ("": that of its rule), detail, the evidence, and how bad it is. `count`: how often it happened;
    `last_at_ms`: when last, where that is not now."""

    severity: Severity
    title: str
    detail: str
    proof: Evidence
    figure: Figure | None = None
    count: int = 1
    last_at_ms: int | None = None


def unmeasured(episode: Episode) -> str:
    """How long of it nobody measured, in words; "" where that is nothing."""
    return f", {duration_text(episode.unmeasured_ms)} of it not measured" if episode.unmeasured_ms else ""


def raise_alert(episode: Episode, rule: str, where: Where, at_ms: int, text: Text) -> list[Alert]:
    """A new alert; none while the readings are historical: what still lasts when they are not is raised then."""
    if where.historical:
        return []
    first = msgspec.structs.replace(text.proof, at_ms=episode.since_ms)
    episode.raised_at_ms, episode.alert_id = at_ms, alert_id(where.side, rule, where.container, first)
    return [change_alert(episode, "raised", rule, where, at_ms, text)]


def change_alert(episode: Episode, state: AlertState, rule: str, where: Where, at_ms: int, text: Text) -> Alert:
    """A change of the episode's alert."""
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
