"""The rules each reading is put to as it comes, in its own time: temperature, setpoint, power, humidity, door, tilt and shock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cargo.alerts.alert_log import WORSE_BY, Alert, Figure
from cargo.loss.loss_classifier import Evidence
from cargo.loss.reading_rows import Value
from cargo.rules.episodes import Episode, Limits, RuleMemory, Text, Where, change_alert, raise_alert, unmeasured
from cargo.rules.temperature import TEMPERATURE, judge_temperature
from cargo.vocabulary.instants import time_text

SILENT_INTERVALS = 2
"""Number of the box's own intervals without a reading that make a silence, if they are longer than `Limits.unmeasured_after_ms`.

A box that reports as often as expected is not silent in between."""


def judge_reading(limits: Limits, memory: RuleMemory, where: Where, at_ms: int, signals: Mapping[str, Value]) -> list[Alert]:
    """Return the changes of alerts that follow from one reading, which comes in order of the box's time. Updates `memory`.

    A repeat changes nothing."""
    changes: list[Alert] = []
    episodes = memory.episodes
    if "power_on" in signals:
        memory.power_on = bool(signals["power_on"])
        off = where.laden and not memory.power_on
        if off or "power_off" in episodes:
            changes += _switch(limits, memory, where, at_ms, _Switch("power_off", off, limits.power_off_ms, "power off"))
    if where.laden and not TEMPERATURE.isdisjoint(signals):
        changes += judge_temperature(limits, memory, where, at_ms, signals)
    if "setpoint_c" in signals and where.booked_c is not None:
        wrong = where.laden and abs(float(signals["setpoint_c"]) - where.booked_c) > limits.setpoint_within_c
        if wrong or "setpoint" in episodes:
            set_c = float(signals["setpoint_c"])
            words = f"set to {set_c:.1f} °C, booked at {where.booked_c:.1f} °C"
            figure = _outside(set_c, where.booked_c - limits.setpoint_within_c, where.booked_c + limits.setpoint_within_c, "°C")
            changes += _switch(limits, memory, where, at_ms, _Switch("setpoint", wrong, limits.setpoint_lasts_ms, words, figure))
    if "humidity_pct" in signals:
        low, high = limits.humidity_pct
        damp = where.laden and not low <= float(signals["humidity_pct"]) <= high
        if damp or "humidity" in episodes:
            words = f"humidity out of {low:.0f} to {high:.0f} %"
            figure = _outside(float(signals["humidity_pct"]), low, high, "%")
            changes += _switch(limits, memory, where, at_ms, _Switch("humidity", damp, limits.humidity_lasts_ms, words, figure))
    if where.tilted is not None:
        changes += _switch(limits, memory, where, at_ms, _Switch("tilt", where.tilted, limits.tilt_lasts_ms, "lies tilted"))
    if "door_open" in signals:
        opened = bool(signals["door_open"]) and where.at_sea
        if opened or "door_open" in episodes:
            changes += _switch(limits, memory, where, at_ms, _Switch("door_open", opened, limits.door_open_ms, "door open at sea"))
    if "shock_g" in signals or "shock" in episodes:
        changes += _shock(limits, memory, where, at_ms, float(signals.get("shock_g", 0.0)))
    return changes


@dataclass(frozen=True, slots=True)
class _Switch:
    rule: str
    bad: bool
    after_ms: int
    words: str
    figure: Figure | None = None


def _outside(value: float, low: float, high: float, unit: str) -> Figure:
    return Figure(value, unit, low, "down") if value < low else Figure(value, unit, high, "up")


def _switch(limits: Limits, memory: RuleMemory, where: Where, at_ms: int, switch: _Switch) -> list[Alert]:
    """Apply a rule on a condition that is right or wrong; raise an alarm when it is known to have been wrong for longer than `after_ms`.

    A silence shows nothing about the condition, does not count, and is reported. An update follows when the figure is half as far again
    from its limit (`episode.peak`: the distance that the alert gives)."""
    episode = memory.episodes.get(switch.rule)
    if episode is None and not switch.bad:
        return []
    episode = episode or memory.episodes.setdefault(switch.rule, Episode(since_ms=at_ms, last_at_ms=at_ms))
    passed_ms, episode.last_at_ms = at_ms - episode.last_at_ms, at_ms
    if passed_ms > max(limits.unmeasured_after_ms, SILENT_INTERVALS * where.interval_ms):
        episode.unmeasured_ms += passed_ms
    lasted_ms = at_ms - episode.since_ms
    began = time_text(episode.since_ms)
    if not switch.bad:
        del memory.episodes[switch.rule]
        if not episode.raised_at_ms:
            return []
        detail = f"{switch.words} from {began} to {time_text(at_ms)}{unmeasured(episode)}"
        proof = Evidence(switch.rule, switch.rule, 0.0, detail, episode.since_ms)
        return [change_alert(episode, "cleared", switch.rule, where, at_ms, Text("ALARM", "", detail, proof))]
    beyond = switch.figure.beyond if switch.figure else 0.0
    is_worse = beyond > episode.peak and beyond >= WORSE_BY * episode.peak
    if lasted_ms - episode.unmeasured_ms < switch.after_ms or (episode.raised_at_ms and not is_worse):
        return []
    detail = f"{switch.words} since {began}{unmeasured(episode)}" if switch.after_ms else switch.words
    proof = Evidence(switch.rule, switch.rule, 0.0, detail, episode.since_ms)
    text = Text("ALARM", f"{where.container}: {switch.words}", detail, proof, switch.figure)
    episode.peak = beyond
    if episode.raised_at_ms:
        return [change_alert(episode, "updated", switch.rule, where, at_ms, text)]
    return raise_alert(episode, switch.rule, where, at_ms, text)


def _shock(limits: Limits, memory: RuleMemory, where: Where, at_ms: int, shock_g: float) -> list[Alert]:
    """Return the changes of the alert on a run of shocks: one alert, updated for a harder shock, and for the 2nd, 4th, 8th and so on."""
    limit_g = limits.shock_at_sea_g if where.at_sea else limits.shock_ashore_g
    episode = memory.episodes.get("shock")
    if episode is not None and shock_g <= limit_g:
        if at_ms - episode.last_at_ms < limits.shock_clears_ms:
            return []
        del memory.episodes["shock"]
        return _shock_over(episode, where, at_ms, limit_g, "a day without another")
    if shock_g <= limit_g:
        return []
    detail = f"a shock of {shock_g:.1f} g {'at sea' if where.at_sea else 'in port'}"
    proof = Evidence("shock", "shock", 0.0, detail, at_ms)
    title, figure = f"{where.container}: hard shock", Figure(shock_g, "g", limit_g, "up")
    if episode is None or at_ms - episode.last_at_ms > limits.shock_merges_ms:
        over = [] if episode is None else _shock_over(episode, where, at_ms, limit_g, "over; another came later")
        episode = memory.episodes["shock"] = Episode(since_ms=at_ms, peak=shock_g, last_at_ms=at_ms)
        return [*over, *raise_alert(episode, "shock", where, at_ms, Text("WARNING", title, detail, proof, figure))]
    doubled = False
    if at_ms > episode.last_at_ms:
        episode.last_at_ms, episode.count = at_ms, episode.count + 1
        doubled = episode.count.bit_count() == 1
    if shock_g <= episode.peak and not doubled:
        return []
    episode.peak = max(episode.peak, shock_g)
    text = Text("WARNING", title, detail, proof, Figure(episode.peak, "g", limit_g, "up"), episode.count)
    if not episode.raised_at_ms:
        return raise_alert(episode, "shock", where, at_ms, text)
    return [change_alert(episode, "updated", "shock", where, at_ms, text)]


def _shock_over(episode: Episode, where: Where, at_ms: int, limit_g: float, why: str) -> list[Alert]:
    if not episode.raised_at_ms:
        return []
    proof = Evidence("shock", "shock", 0.0, why, episode.since_ms)
    text = Text("WARNING", "", why, proof, Figure(episode.peak, "g", limit_g, "up"), episode.count, episode.last_at_ms)
    return [change_alert(episode, "cleared", "shock", where, at_ms, text)]
