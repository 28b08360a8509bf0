"""The rule of temperature: the distance of the control air from its setpoint over time. Late readings correct records and raise no alarm.

An excursion is a limit, a minimum duration, a clear delay and a suppression; it keeps its start, end, peak and degree-minutes. It follows
from the samples in order of their time (`fold`), so the record is the same whenever they came. The correction by late readings is limited:
TRACK_MAX samples are kept of a box. A silence in it (`Limits.unmeasured_after_ms`) counts neither as time beyond the limit nor in
degree-minutes, because nothing was measured. The record has its length."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from cargo.alerts.alert_log import Alert, AlertState, Figure
from cargo.loss.loss_classifier import Evidence
from cargo.loss.packed_track import first, last, longer, packed, unpacked
from cargo.loss.reading_rows import Value
from cargo.rules.episodes import Episode, Excursion, Limits, RuleMemory, Text, Where, change_alert, raise_alert, unmeasured
from cargo.vocabulary.durations import duration_text

TRACK_MAX = 48
REPORTED_MAX = 8
REPEATS_MAX = 4
"""Maximum number of samples of one instant that are distinguished."""
TEMPERATURE = frozenset({"setpoint_c", "supply_c", "return_c", "defrosting"})
RULE = "temperature"
CORRECTED = "corrected by a late reading: "


@dataclass(frozen=True, slots=True)
class Late:
    """A reading older than its box's newest: its time, the time now (both UTC ms), and its signals."""

    at_ms: int
    now_ms: int
    signals: Mapping[str, Value]


def control_air(limits: Limits, setpoint_c: float) -> str:
    """Return the air that controls a setpoint: supply above -10 °C, return at or below (DOMAIN 4)."""
    return "supply_c" if setpoint_c > limits.supply_above_c else "return_c"


def judge_temperature(limits: Limits, memory: RuleMemory, where: Where, at_ms: int, signals: Mapping[str, Value]) -> list[Alert]:
    """Return the changes of the alert that follow from one reading, which comes in order of the box's time.

    `memory.ended` has what ended."""
    if signals.get("defrosting"):
        memory.defrosted_at_ms = at_ms
    setpoint = signals.get("setpoint_c")
    if setpoint is not None and float(setpoint) != memory.setpoint_c:
        if memory.setpoint_c is not None:
            memory.setpoint_at_ms = at_ms
        memory.setpoint_c = float(setpoint)
    beyond = _beyond(limits, memory, at_ms, signals)
    if beyond is None or memory.setpoint_c is None:
        return []
    if (at_ms, beyond) not in last(memory.samples, REPEATS_MAX):
        _keep(limits, memory, at_ms, beyond)
    before = memory.episodes.pop(RULE, None)
    episode, closed = fold(limits, before, at_ms, beyond)
    if episode is None:
        return _over(limits, memory, closed, where, at_ms) if closed else _was_none(before, where, at_ms)
    memory.episodes[RULE] = episode
    if not episode.lasted or episode.back_ms:
        return []
    air = _Air(control_air(limits, memory.setpoint_c), memory.setpoint_c + beyond, memory.setpoint_c, memory.power_on)
    text = replace(_text(where, episode, air), figure=_figure(limits, memory.setpoint_c, episode))
    if not episode.raised_at_ms:
        return raise_alert(episode, RULE, where, at_ms, text)
    higher = before is not None and abs(episode.peak) > abs(before.peak)
    return [change_alert(episode, "updated", RULE, where, at_ms, text)] if higher else []


def correct_reading(limits: Limits, memory: RuleMemory, where: Where, late: Late) -> list[Alert]:
    """Return what follows from a reading older than the box's newest; raise no alert.

    Each excursion it belongs to gets a new record (`memory.ended`), and the alert of the excursion says so.

    A reading under another setpoint than the present one, or from before all that is kept, is left out.
    """
    late_at_ms, signals = late.at_ms, late.signals
    if signals.get("defrosting") and late_at_ms > memory.defrosted_at_ms:
        memory.defrosted_at_ms = late_at_ms
    setpoint = signals.get("setpoint_c", memory.setpoint_c)
    if memory.setpoint_c is None or setpoint != memory.setpoint_c or late_at_ms < memory.setpoint_at_ms:
        return []
    if memory.dropped_at_ms and late_at_ms <= memory.dropped_at_ms:
        return []
    before = unpacked(memory.samples)
    samples = list(before)
    if signals.get("defrosting") and control_air(limits, memory.setpoint_c) == "return_c":
        until_ms = late_at_ms + limits.after_defrost_ms
        samples = [one for one in samples if not late_at_ms <= one[0] <= until_ms]
    beyond = _beyond(limits, memory, late_at_ms, signals)
    if beyond is not None and (late_at_ms, beyond) not in samples:
        insort(samples, (late_at_ms, beyond))
    memory.samples = packed(samples)
    return [] if samples == before else _again(limits, memory, where, late.now_ms)


def fold(limits: Limits, episode: Episode | None, at_ms: int, beyond_c: float) -> tuple[Episode | None, Episode | None]:
    """Return the excursion after one more sample, if one goes on, and the one that ended with it, if it lasted long enough.

    `beyond_c`: from the setpoint. `episode` is not changed."""
    out = beyond_c > limits.above_c or beyond_c < -limits.below_c
    if episode is None and not out:
        return None, None
    now = Episode(since_ms=at_ms, last_at_ms=at_ms) if episode is None else msgspec.structs.replace(episode)
    passed_ms = at_ms - now.last_at_ms
    silent = passed_ms > limits.unmeasured_after_ms
    if silent and (out or not now.back_ms):
        now.unmeasured_ms += passed_ms
    if out:
        if not silent:
            now.degree_minutes += passed_ms / 60_000 * (abs(beyond_c) + abs(now.last_beyond)) / 2
        now.back_ms, now.last_at_ms, now.last_beyond = 0, at_ms, beyond_c
        now.peak = beyond_c if abs(beyond_c) > abs(now.peak) else now.peak
        now.lasted = now.lasted or at_ms - now.since_ms - now.unmeasured_ms >= limits.band_lasts_ms
        return now, None
    now.back_ms = now.back_ms or at_ms
    now.last_at_ms, now.last_beyond = at_ms, 0.0
    if now.lasted and at_ms - now.back_ms < limits.clear_after_ms:
        return now, None
    return None, now if now.lasted else None


def _keep(limits: Limits, memory: RuleMemory, at_ms: int, beyond_c: float) -> None:
    """Store the sample; a sample dropped for it stays in the fold (`memory.base`)."""
    memory.samples, dropped = longer(memory.samples, at_ms, beyond_c, TRACK_MAX)
    if dropped is not None:
        memory.base, _ = fold(limits, memory.base, *dropped)
        memory.dropped_at_ms = dropped[0]


def _beyond(limits: Limits, memory: RuleMemory, at_ms: int, signals: Mapping[str, Value]) -> float | None:
    """Return the distance of the control air from the setpoint, °C; None where the reading does not count.

    It does not count if the air is not measured, during a defrost, or while a new setpoint is still being reached."""
    if memory.setpoint_c is None:
        return None
    air = control_air(limits, memory.setpoint_c)
    value = signals.get(air)
    defrosted = air == "return_c" and memory.defrosted_at_ms > 0 and 0 <= at_ms - memory.defrosted_at_ms <= limits.after_defrost_ms
    changed = memory.setpoint_at_ms > 0 and at_ms - memory.setpoint_at_ms <= limits.after_setpoint_ms
    return None if value is None or defrosted or changed else round(float(value) - memory.setpoint_c, 3)


def _again(limits: Limits, memory: RuleMemory, where: Where, now_ms: int) -> list[Alert]:
    """Compute all excursions of the kept samples again; report what changed, in the record and in the alert raised for it."""
    episode, closed = memory.base, []
    for at_ms, beyond in unpacked(memory.samples):
        episode, over = fold(limits, episode, at_ms, beyond)
        closed += [over] if over else []
    reported = memory.episodes.pop(RULE, None)
    ended = reported.alert_id if reported is not None and episode is None else ""
    changes = _corrected(memory, closed, ended, where, now_ms)
    if episode is not None:
        memory.episodes[RULE] = episode
    if reported is None or not reported.raised_at_ms:
        return changes
    if episode is not None:
        episode.raised_at_ms, episode.alert_id = reported.raised_at_ms, reported.alert_id
        if (episode.since_ms, _summary(episode)) != (reported.since_ms, _summary(reported)):
            change = _change(episode, "updated", where, now_ms, f"{CORRECTED}{_summary(episode)}")
            changes.append(replace(change, figure=_figure(limits, memory.setpoint_c, episode)))
    elif all(ended_episode.alert_id != reported.alert_id for ended_episode in closed):
        changes += _was_none(reported, where, now_ms)
    return changes


def _corrected(memory: RuleMemory, closed: Sequence[Episode], alert: str, where: Where, now_ms: int) -> list[Alert]:
    """Compare the ended excursions with the records reported before: new ones, changed ones, and those that were none.

    `alert`: the alert that was open, if none is any more."""
    changes: list[Alert] = []
    known, records, ended = memory.told, [], []
    oldest = first(memory.samples)
    first_ms = oldest[0] if oldest else now_ms
    for excursion in closed:
        meets = [old for old in known if old.since_ms <= excursion.back_ms and excursion.since_ms <= old.until_ms]
        old = meets[0] if meets else None
        known = tuple(kept for kept in known if kept is not old)
        excursion.alert_id = old.alert_id if old else alert
        record = _record(excursion, old.first_ms if old else excursion.since_ms)
        records.append(record)
        if record != old:
            ended.append(record)
        if excursion.alert_id and record != old:
            changes.append(_change(excursion, "cleared", where, now_ms, f"{CORRECTED}{_ended(excursion)}"))
    for old in known:
        if old.until_ms < first_ms:
            records.append(old)
        else:
            ended.append(msgspec.structs.replace(old, retracted=True))
            if old.alert_id and all(excursion.alert_id != old.alert_id for excursion in closed):
                was = Episode(since_ms=old.since_ms, raised_at_ms=now_ms, alert_id=old.alert_id)
                changes += _was_none(was, where, now_ms)
    memory.told = tuple(sorted(records, key=lambda excursion: excursion.since_ms)[-REPORTED_MAX:])
    memory.ended = (*memory.ended, *ended)
    return changes


def _over(limits: Limits, memory: RuleMemory, closed: Episode, where: Where, at_ms: int) -> list[Alert]:
    """Return the alert cleared for an excursion that ended, if one was raised, and store its record."""
    record = _record(closed, closed.since_ms)
    memory.told = (*memory.told[1 - REPORTED_MAX :], record)
    memory.ended = (*memory.ended, record)
    if not closed.raised_at_ms:
        return []
    change = _change(closed, "cleared", where, at_ms, f"back in range after {_ended(closed)}")
    return [replace(change, figure=_figure(limits, memory.setpoint_c, closed))]


def _record(over: Episode, first_ms: int) -> Excursion:
    return Excursion(first_ms, over.since_ms, over.back_ms, over.peak, over.degree_minutes, over.alert_id, unmeasured_ms=over.unmeasured_ms)


def _was_none(episode: Episode | None, where: Where, at_ms: int) -> list[Alert]:
    """Return the retraction of an alert that late readings show to be wrong: the excursion did not last."""
    if episode is None or not episode.raised_at_ms:
        return []
    return [_change(episode, "retracted", where, at_ms, f"{CORRECTED}it was none")]


def _change(episode: Episode, state: AlertState, where: Where, at_ms: int, detail: str) -> Alert:
    proof = Evidence("temperature", "range", 0.0, detail, episode.since_ms)
    return change_alert(episode, state, RULE, where, at_ms, Text("ALARM", "", detail, proof))


def _figure(limits: Limits, setpoint_c: float | None, episode: Episode) -> Figure | None:
    """Return the control air at its worst, in °C."""
    if setpoint_c is None:
        return None
    value_c = setpoint_c + episode.peak
    if episode.peak > 0:
        return Figure(value_c, "°C", setpoint_c + limits.above_c, "up")
    return Figure(value_c, "°C", setpoint_c - limits.below_c, "down")


def _summary(episode: Episode) -> str:
    return f"peak {episode.peak:+.1f} °C, {episode.degree_minutes:.0f} degree-minutes{unmeasured(episode)}"


def _ended(episode: Episode) -> str:
    return f"{duration_text(episode.back_ms - episode.since_ms)}; {_summary(episode)}"


@dataclass(frozen=True, slots=True)
class _Air:
    name: str
    value_c: float
    setpoint_c: float
    power_on: bool | None


def _text(where: Where, episode: Episode, air: _Air) -> Text:
    power = "" if air.power_on is None else ", power on" if air.power_on else ", power off"
    phase = "ashore" if where.ship is None else "at sea" if where.at_sea else "aboard in port"
    now = f"{air.name.removesuffix('_c')} air {air.value_c:.1f} °C, set to {air.setpoint_c:.1f} °C"
    detail = f"{now}; {_summary(episode)}; {phase}{power}"
    return Text(
        "ALARM", f"{where.container}: temperature out of range", detail, Evidence("temperature", air.name, 0.0, detail, episode.since_ms)
    )
