"""The rules each reading is put to as it comes, in its own time: temperature, setpoint, power, humidity, door, tilt and shock. What is late
corrects what was told and alarms nobody.

An excursion is a limit, a minimum duration, a clear delay and a suppression; it keeps its start, end, peak and degree-minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from cargo.alerts import Alert, AlertState, Severity, alert_id
from cargo.climate import Climate
from cargo.heard import Value
from cargo.lost import Evidence

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
    after_defrost_ms: int = HOUR_MS
    after_setpoint_ms: int = 6 * HOUR_MS
    supply_above_c: float = -10.0
    power_off_ms: int = 4 * HOUR_MS
    setpoint_within_c: float = 0.5
    setpoint_lasts_ms: int = HOUR_MS
    humidity_pct: tuple[float, float] = (0.0, 100.0)
    humidity_lasts_ms: int = HOUR_MS
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

    `degree_minutes`: by how much times how long beyond the setpoint; `last_at_ms`, `last_beyond`: the reading before; `air`: which air.
    """

    since_ms: int = 0
    back_ms: int = 0
    peak: float = 0.0
    degree_minutes: float = 0.0
    last_at_ms: int = 0
    last_beyond: float = 0.0
    raised_at_ms: int = 0
    alert_id: str = ""
    air: str = ""


class RuleMemory(msgspec.Struct, omit_defaults=True):
    """What the rules remember of one box: its last setpoint, when that changed and when it last defrosted, whether it had power (None: not
    told yet), and an episode per rule."""

    setpoint_c: float | None = None
    power_on: bool | None = None
    setpoint_at_ms: int = 0
    defrosted_at_ms: int = 0
    episodes: dict[str, Episode] = {}


@dataclass(frozen=True, slots=True)
class Where:
    """Whose reading it is, and where the box was: number, ship (IMO) or None, slot or None, whether the ship is at sea.

    `laden`: whether a booking covers it now, so that its climate matters (True when nothing is known of its bookings). `booked_c`: what it
    is to be set to, if anybody said. `tilted`: whether this reading shows it lying (None: no word of it, or at sea, where it is a stack).
    `historical`: the reading comes too late to alarm anybody: it may change what was told, and tells nothing new.
    """

    container: str
    ship: str | None
    slot: str | None
    at_sea: bool
    laden: bool = True
    booked_c: float | None = None
    tilted: bool | None = None
    historical: bool = False


def judge_reading(limits: Limits, memory: RuleMemory, where: Where, at_ms: int, signals: Mapping[str, Value]) -> list[Alert]:
    """The changes of alerts that follow from one reading, which comes in order of the box's time. Updates `memory`; a repeat changes
    nothing."""
    changes: list[Alert] = []
    if "power_on" in signals:
        memory.power_on = bool(signals["power_on"])
        off = where.laden and not memory.power_on
        changes += _switch(memory, where, at_ms, _Switch("power_off", off, limits.power_off_ms, "power off"))
    if where.laden and not signals.keys().isdisjoint(_TEMPERATURE):
        changes += _temperature(limits, memory, where, at_ms, signals)
    if "setpoint_c" in signals and where.booked_c is not None:
        wrong = where.laden and abs(float(signals["setpoint_c"]) - where.booked_c) > limits.setpoint_within_c
        words = f"set to {float(signals['setpoint_c']):.1f} °C, booked at {where.booked_c:.1f} °C"
        changes += _switch(memory, where, at_ms, _Switch("setpoint", wrong, limits.setpoint_lasts_ms, words))
    if "humidity_pct" in signals:
        low, high = limits.humidity_pct
        damp = where.laden and not low <= float(signals["humidity_pct"]) <= high
        words = f"humidity out of {low:.0f} to {high:.0f} %"
        changes += _switch(memory, where, at_ms, _Switch("humidity", damp, limits.humidity_lasts_ms, words))
    if where.tilted is not None:
        changes += _switch(memory, where, at_ms, _Switch("tilt", where.tilted, limits.tilt_lasts_ms, "lies tilted"))
    if "door_open" in signals:
        changes += _switch(memory, where, at_ms, _Switch("door_open", bool(signals["door_open"]) and where.at_sea, 0, "door open at sea"))
    if "shock_g" in signals or "shock" in memory.episodes:
        changes += _shock(limits, memory, where, at_ms, float(signals.get("shock_g", 0.0)))
    return changes


_TEMPERATURE = frozenset({"setpoint_c", "supply_c", "return_c", "defrosting"})


def control_air(limits: Limits, setpoint_c: float) -> str:
    """The air a setpoint is held by: supply above -10 °C, return at or below (DOMAIN 4)."""
    return "supply_c" if setpoint_c > limits.supply_above_c else "return_c"


def correct_reading(memory: RuleMemory, where: Where, late_at_ms: int, now_ms: int, signals: Mapping[str, Value]) -> list[Alert]:
    """The changes that follow from a reading older than the box's newest: a higher peak of the excursion that is told of now, as an update
    of `now_ms`. It raises nothing, clears nothing and moves no time."""
    episode = memory.episodes.get("temperature")
    if episode is None or not episode.raised_at_ms or memory.setpoint_c is None or late_at_ms < episode.since_ms:
        return []
    value = signals.get("supply_c" if episode.air == "supply_c" else "return_c")
    if value is None or abs(float(value) - memory.setpoint_c) <= abs(episode.peak):
        return []
    episode.peak = float(value) - memory.setpoint_c
    detail = f"corrected by a late reading: peak {episode.peak:+.1f} °C"
    proof = Evidence("temperature", episode.air, 0.0, detail, episode.since_ms)
    return [_change(episode, "updated", "temperature", where, now_ms, _Text("ALARM", "", detail, proof))]


def _temperature(limits: Limits, memory: RuleMemory, where: Where, at_ms: int, signals: Mapping[str, Value]) -> list[Alert]:
    if signals.get("defrosting"):
        memory.defrosted_at_ms = at_ms
    setpoint = signals.get("setpoint_c")
    if setpoint is not None and float(setpoint) != memory.setpoint_c:
        if memory.setpoint_c is not None:
            memory.setpoint_at_ms = at_ms
        memory.setpoint_c = float(setpoint)
    if memory.setpoint_c is None:
        return []
    air = control_air(limits, memory.setpoint_c)
    value = signals.get(air)
    if value is None or _suppressed(limits, memory, air, at_ms):
        return []
    beyond = float(value) - memory.setpoint_c
    episode = memory.episodes.get("temperature")
    if beyond > limits.above_c or beyond < -limits.below_c:
        episode = episode or memory.episodes.setdefault("temperature", Episode(since_ms=at_ms))
        power = "" if memory.power_on is None else ", power on" if memory.power_on else ", power off"
        return _warm(limits, episode, where, at_ms, _Air(air, float(value), memory.setpoint_c, f"{_phase(where)}{power}"))
    return [] if episode is None else _cooled(limits, memory, episode, where, at_ms)


def _suppressed(limits: Limits, memory: RuleMemory, air: str, at_ms: int) -> bool:
    defrosted = air == "return_c" and memory.defrosted_at_ms > 0 and at_ms - memory.defrosted_at_ms <= limits.after_defrost_ms
    changed = memory.setpoint_at_ms > 0 and at_ms - memory.setpoint_at_ms <= limits.after_setpoint_ms
    return defrosted or changed


@dataclass(frozen=True, slots=True)
class _Air:
    name: str
    value_c: float
    setpoint_c: float
    circumstances: str


def _phase(where: Where) -> str:
    """Where on its journey the box was."""
    return "ashore" if where.ship is None else "at sea" if where.at_sea else "aboard in port"


def _warm(limits: Limits, episode: Episode, where: Where, at_ms: int, air: _Air) -> list[Alert]:
    beyond = air.value_c - air.setpoint_c
    if episode.last_at_ms:
        minutes = (at_ms - episode.last_at_ms) / 60_000
        episode.degree_minutes += minutes * (abs(beyond) + abs(episode.last_beyond)) / 2
    higher = abs(beyond) > abs(episode.peak)
    episode.back_ms, episode.last_at_ms, episode.last_beyond, episode.air = 0, at_ms, beyond, air.name
    if higher:
        episode.peak = beyond
    if at_ms - episode.since_ms < limits.band_lasts_ms:
        return []
    name = air.name.removesuffix("_c")
    lasted = f"peak {episode.peak:+.1f} °C, {episode.degree_minutes:.0f} degree-minutes"
    detail = f"{name} air {air.value_c:.1f} °C, set to {air.setpoint_c:.1f} °C; {lasted}; {air.circumstances}"
    proof = Evidence("temperature", air.name, 0.0, detail, episode.since_ms)
    if not episode.raised_at_ms:
        return _raise(episode, "temperature", where, at_ms, _Text("ALARM", f"{where.container}: temperature out of range", detail, proof))
    return [_change(episode, "updated", "temperature", where, at_ms, _Text("ALARM", "", detail, proof))] if higher else []


def _cooled(limits: Limits, memory: RuleMemory, episode: Episode, where: Where, at_ms: int) -> list[Alert]:
    episode.back_ms = episode.back_ms or at_ms
    episode.last_at_ms, episode.last_beyond = at_ms, 0.0
    if episode.raised_at_ms and at_ms - episode.back_ms < limits.clear_after_ms:
        return []
    del memory.episodes["temperature"]
    if not episode.raised_at_ms:
        return []
    hours = (episode.back_ms - episode.since_ms) / HOUR_MS
    detail = f"back in range after {hours:.1f} h; peak {episode.peak:+.1f} °C, {episode.degree_minutes:.0f} degree-minutes"
    proof = Evidence("temperature", "range", 0.0, detail, episode.since_ms)
    return [_change(episode, "cleared", "temperature", where, at_ms, _Text("ALARM", "", detail, proof))]


@dataclass(frozen=True, slots=True)
class _Switch:
    rule: str
    bad: bool
    after_ms: int
    words: str


def _switch(memory: RuleMemory, where: Where, at_ms: int, switch: _Switch) -> list[Alert]:
    """A thing that is right or wrong, and an alarm when it is wrong for longer than `after_ms`."""
    episode = memory.episodes.get(switch.rule)
    if not switch.bad:
        if episode is None:
            return []
        del memory.episodes[switch.rule]
        if not episode.raised_at_ms:
            return []
        detail = f"{switch.words} for {(at_ms - episode.since_ms) / HOUR_MS:.1f} h, now ended"
        proof = Evidence(switch.rule, switch.rule, 0.0, detail, episode.since_ms)
        return [_change(episode, "cleared", switch.rule, where, at_ms, _Text("ALARM", "", detail, proof))]
    episode = episode or memory.episodes.setdefault(switch.rule, Episode(since_ms=at_ms))
    if episode.raised_at_ms or at_ms - episode.since_ms < switch.after_ms:
        return []
    lasted = (at_ms - episode.since_ms) / HOUR_MS
    detail = f"{switch.words} for {lasted:.1f} h" if switch.after_ms else switch.words
    proof = Evidence(switch.rule, switch.rule, 0.0, detail, episode.since_ms)
    return _raise(episode, switch.rule, where, at_ms, _Text("ALARM", f"{where.container}: {switch.words}", detail, proof))


def _shock(limits: Limits, memory: RuleMemory, where: Where, at_ms: int, shock_g: float) -> list[Alert]:
    limit = limits.shock_at_sea_g if where.at_sea else limits.shock_ashore_g
    episode = memory.episodes.get("shock")
    if episode is not None and shock_g <= limit:
        if at_ms - episode.last_at_ms < limits.shock_clears_ms:
            return []
        del memory.episodes["shock"]
        if not episode.raised_at_ms:
            return []
        proof = Evidence("shock", "shock", 0.0, "a day without another", episode.since_ms)
        return [_change(episode, "cleared", "shock", where, at_ms, _Text("WARNING", "", proof.detail, proof))]
    if shock_g <= limit:
        return []
    detail = f"a shock of {shock_g:.1f} g {'at sea' if where.at_sea else 'in port'}"
    proof = Evidence("shock", "shock", 0.0, detail, at_ms)
    text = _Text("WARNING", f"{where.container}: hard shock", detail, proof)
    if episode is None or at_ms - episode.last_at_ms > limits.shock_merges_ms:
        episode = memory.episodes["shock"] = Episode(since_ms=at_ms, peak=shock_g, last_at_ms=at_ms)
        return _raise(episode, "shock", where, at_ms, text)
    episode.last_at_ms = at_ms
    if shock_g <= episode.peak:
        return []
    episode.peak = shock_g
    if not episode.raised_at_ms:
        return _raise(episode, "shock", where, at_ms, text)
    return [_change(episode, "updated", "shock", where, at_ms, text)]


@dataclass(frozen=True, slots=True)
class _Text:
    severity: Severity
    title: str
    detail: str
    proof: Evidence


def _raise(episode: Episode, rule: str, where: Where, at_ms: int, text: _Text) -> list[Alert]:
    """A new alert; none while the readings are historical: what still lasts when they are not is raised then."""
    if where.historical:
        return []
    first = msgspec.structs.replace(text.proof, at_ms=episode.since_ms)
    episode.raised_at_ms, episode.alert_id = at_ms, alert_id(rule, where.container, first)
    return [_change(episode, "raised", rule, where, at_ms, text)]


def _change(episode: Episode, state: AlertState, rule: str, where: Where, at_ms: int, text: _Text) -> Alert:
    more: dict[str, Any] = {"ship": where.ship, "slot": where.slot}
    return Alert(
        alert_id=episode.alert_id,
        topic=where.container,
        rule=rule,
        severity=text.severity,
        state=state,
        at_ms=at_ms,
        title=text.title or f"{where.container}: {_WORDS[rule]}",
        detail=text.detail,
        evidence=(text.proof,),
        **more,
    )


_WORDS = {
    "temperature": "temperature out of range",
    "setpoint": "not set to what is booked",
    "power_off": "power off",
    "humidity": "humidity out of range",
    "door_open": "door open at sea",
    "tilt": "lies tilted",
    "shock": "hard shock",
}
