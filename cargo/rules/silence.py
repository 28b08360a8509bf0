"""Rules `late` and `silent`: alerts of low severity on a box at sea that missed a number of expected intervals. They report no loss.

One silence is one alert at a time. `late` is cleared as the box becomes silent, and either as the box reports, is gone, or went ashore.
None begins in port, while its gateway is out, or while no node could receive it. Where the radio loses much, they begin later."""

from __future__ import annotations

from cargo.alerts.alert_log import Alert, AlertState, Severity, alert_id
from cargo.alerts.alert_timestamps import record_change
from cargo.loss.container_state import Box
from cargo.loss.loss_classifier import INTERVALS_MISSING, Evidence
from cargo.loss.watch_state import WatchState
from cargo.rules.episodes import WORDS, Episode
from cargo.rules.temperature import RULE as TEMPERATURE
from cargo.vocabulary.durations import MINUTE_MS, duration_text
from cargo.vocabulary.instants import time_text

SILENT_STATES = frozenset({"LATE", "MISSING", "DEVICE_FAULT"})
SEVERITIES: dict[str, Severity] = {"late": "LOG", "silent": "WARNING"}


def note_silence(state: WatchState, box: Box, at_ms: int) -> None:
    """Raise the alert that the box's silence has reached, and schedule the next check."""
    if box.state not in SILENT_STATES or box.by_hand or not state.memory.voyage.at_sea:
        return
    _, limits = state.terms_of(box.number, at_ms)
    more = state.patience(box) - INTERVALS_MISSING
    due = {
        "late": state.missed_at_ms(box, at_ms, limits.late_intervals + more),
        "silent": state.missed_at_ms(box, at_ms, max(limits.silent_intervals, limits.late_intervals + 1) + more),
    }
    raised_rules = box.rules.episodes.keys() & due.keys()
    if at_ms >= due["silent"] and "silent" not in raised_rules:
        end_silence(state, box, at_ms, "silent now")
        _raise(state, box, at_ms, "silent")
    elif due["late"] <= at_ms < due["silent"] and not raised_rules:
        _raise(state, box, at_ms, "late")
    ahead = [due_ms for rule, due_ms in due.items() if due_ms > at_ms and rule not in raised_rules]
    if ahead:
        state.wake(box, min(ahead))


def end_silence(state: WatchState, box: Box, at_ms: int, why: str) -> None:
    """Clear the alerts on the box's silence; `why` in words."""
    for rule in box.rules.episodes.keys() & SEVERITIES.keys():
        episode = box.rules.episodes.pop(rule)
        proof = Evidence("presence", "silence", 0.0, why, episode.since_ms)
        record_change(state, _alert(state, box, episode, rule, "cleared", at_ms, proof))


def end_switches(state: WatchState, box: Box, at_ms: int, why: str) -> None:
    """Clear the alerts of all other rules on the box except temperature: a box that is lost is one alert, and its incident's.

    Late readings of the box may still end its excursion of temperature."""
    for rule in sorted(box.rules.episodes.keys() - SEVERITIES.keys() - {TEMPERATURE}):
        episode = box.rules.episodes.pop(rule)
        if episode.raised_at_ms:
            record_change(state, _alert(state, box, episode, rule, "cleared", at_ms, Evidence(rule, rule, 0.0, why, episode.since_ms)))


def _raise(state: WatchState, box: Box, at_ms: int, rule: str) -> None:
    since_ms = box.newest_at_ms or box.base_ms()
    proof = Evidence("presence", "silence", 0.0, _heard(state, box, at_ms), since_ms)
    id_ = alert_id(state.settings.place.side, rule, box.number, proof)
    episode = Episode(since_ms=since_ms, raised_at_ms=at_ms, alert_id=id_)
    box.rules.episodes[rule] = episode
    record_change(state, _alert(state, box, episode, rule, "raised", at_ms, proof))


def _heard(state: WatchState, box: Box, at_ms: int) -> str:
    """Return in words when the box was last heard, and where an outage does not count, from when its silence counts."""
    from_ms = at_ms - round(state.silent_ms(box, at_ms))
    counted = f"silence counts from {time_text(from_ms)}"
    expected = f"expected every {duration_text(state.interval_ms(box, at_ms))}"
    if not box.heard_at_ms:
        return f"never heard aboard, {expected}; {counted}"
    heard = f"last heard {time_text(box.heard_at_ms)}, {expected}"
    return f"{heard}; an outage, so {counted}" if from_ms - box.heard_at_ms >= MINUTE_MS else heard


def _alert(state: WatchState, box: Box, episode: Episode, rule: str, change: AlertState, at_ms: int, proof: Evidence) -> Alert:
    return Alert(
        alert_id=episode.alert_id,
        topic=box.number,
        rule=rule,
        severity=SEVERITIES.get(rule, "WARNING" if rule == "shock" else "ALARM"),
        state=change,
        at_ms=at_ms,
        title=f"{box.number}: {WORDS.get(rule, rule)}",
        detail=proof.detail,
        ship=state.settings.place.ship,
        slot=state.slot_text(box.number),
        evidence=(proof,),
    )
