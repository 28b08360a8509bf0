"""Comparison of two accounts of the same readings: each episode as reported when it came, and as its whole history shows it.

An episode is one run beyond a limit, one silence, or one loss, as its alert reports it; of a temperature also its record (`X_EXCURSION`).
Both accounts are folds of such records, so neither depends on their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from cargo.alerts.alert_body import AlertBody, read_alert
from cargo.alerts.alert_log import AlertBook
from cargo.errors import BadEntry
from cargo.rules.episodes import WORDS
from cargo.rules.silence import SEVERITIES
from cargo.rules.temperature import RULE as TEMPERATURE

LOSS = "lost_container"
RULES = frozenset(WORDS) | frozenset(SEVERITIES) | {LOSS}
"""Rules on each reading, rules of silence, and the loss of a box. People too decide on a loss, and on its end."""
EXCURSION = "X_EXCURSION"
Said = tuple[str, Mapping[str, Any]]
"""Topic and body of a record."""
Verdict = Literal["same", "different", "untold", "unfounded"]


class ReportedEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """One episode as reported: the reporter (IMO number or UN/LOCODE), topic, rule, begin and end (UTC ms; None: not over).

    `alert_id` None: no alarm was raised. `peak_c` (from the setpoint), `degree_minutes`, `unmeasured_ms`: of a temperature that is over."""

    side: str
    topic: str
    rule: str
    since_at_ms: int
    until_at_ms: int | None
    alert_id: str | None = None
    raised_at_ms: int | None = None
    peak_c: float | None = None
    degree_minutes: float | None = None
    unmeasured_ms: int | None = None
    detail: str = ""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One episode in both accounts, and their differences (`ReportedEpisode`'s fields).

    `same`; `different`; `untold`: the history shows it, and no alarm was raised, though it may be recorded; `unfounded`: it was reported,
    and the history does not show it."""

    verdict: Verdict
    shown: ReportedEpisode | None
    told: ReportedEpisode | None
    differs: tuple[str, ...] = ()

    @property
    def either(self) -> ReportedEpisode:
        """Episode that the history shows, else the one that was reported."""
        episode = self.shown or self.told
        assert episode is not None
        return episode


class _Excursion(msgspec.Struct, frozen=True):
    event_id: str
    event_at_ms: int
    until_at_ms: int
    peak_c: float
    degree_minutes: float
    updated_at_ms: int
    unmeasured_ms: int = 0
    alert_id: str | None = None
    ship: str | None = None
    place: str | None = None
    retracted: bool = False


def episodes(alerts: Iterable[Said], events: Iterable[Said]) -> list[ReportedEpisode]:
    """Return the episodes in the records of `alerts` and `events`, as they stand, by topic and time.

    A retracted episode is none. Records of other rules and events, and what does not read, are skipped."""
    book, first_at_ms = AlertBook(), dict[str, int]()
    for topic, body in alerts:
        alert = _alert(body)
        if alert is not None and alert.rule in RULES:
            book.learn(topic, msgspec.to_builtins(alert))
            id_, at_ms = alert.alert_id, min((piece.at_ms for piece in alert.evidence), default=alert.at_ms)
            first_at_ms[id_] = min(at_ms, first_at_ms.get(id_, at_ms))
    recorded: dict[str | None, list[ReportedEpisode]] = defaultdict(list)
    for topic, excursion in _excursions(events):
        recorded[excursion.alert_id].append(_recorded(topic, excursion))
    complete = recorded.pop(None, [])
    for standing in book.alerts():
        body, id_ = standing.body, str(standing.body["alert_id"])
        since_at_ms = body["evidence"][0]["at_ms"] if body["rule"] == TEMPERATURE and body["evidence"] else first_at_ms[id_]
        over = standing.closed
        alone = ReportedEpisode(
            side=id_.rpartition("-")[0],
            topic=standing.topic,
            rule=body["rule"],
            since_at_ms=since_at_ms,
            until_at_ms=body["at_ms"] if over else None,
            alert_id=id_,
            raised_at_ms=standing.raised_at_ms,
            detail=body["detail"],
        )
        if body["state"] != "retracted":
            records = recorded.get(id_, []) if over else []
            complete += [msgspec.structs.replace(record, raised_at_ms=alone.raised_at_ms, detail=alone.detail) for record in records] or [
                alone
            ]
    return sorted(complete, key=_begun)


def compare(shown: Iterable[ReportedEpisode], reported: Iterable[ReportedEpisode]) -> list[Compared]:
    """Return each episode of either account once, together with its match in the other account.

    The match has the same alert, else the same box, rule and side and an overlapping time."""
    own: dict[ReportedEpisode, ReportedEpisode] = {}
    wanted, left = sorted(shown, key=_begun), sorted(reported, key=_begun)
    for name, is_own in ((_alert_of, _alarmed), (_kind_of, _overlapping)):
        others: dict[object, list[ReportedEpisode]] = defaultdict(list)
        for episode in left:
            others[name(episode)].append(episode)
        for episode in wanted:
            match = next((candidate for candidate in others.get(name(episode), ()) if is_own(episode, candidate)), None)
            if match is not None:
                own[episode] = match
                others[name(episode)].remove(match)
        wanted = [episode for episode in wanted if episode not in own]
        left = [episode for rest in others.values() for episode in rest]
    compared = [_compared(episode, match) for episode, match in own.items()]
    compared += [Compared(verdict="untold", shown=episode, told=None) for episode in wanted]
    compared += [Compared(verdict="unfounded", shown=None, told=episode) for episode in left]
    return sorted(compared, key=lambda comparison: _begun(comparison.either))


def _alert(body: Mapping[str, Any]) -> AlertBody | None:
    try:
        return read_alert(body)
    except BadEntry:
        return None


def _excursions(events: Iterable[Said]) -> list[tuple[str, _Excursion]]:
    """Return the latest version of each record of an excursion, unless that retracts it."""
    latest: dict[str, tuple[str, _Excursion]] = {}
    for topic, body in events:
        if body.get("event") != EXCURSION:
            continue
        try:
            one = msgspec.convert(body, _Excursion)
        except msgspec.ValidationError:
            continue
        if one.event_id not in latest or one.updated_at_ms >= latest[one.event_id][1].updated_at_ms:
            latest[one.event_id] = (topic, one)
    return [(topic, one) for topic, one in latest.values() if not one.retracted]


def _recorded(topic: str, excursion: _Excursion) -> ReportedEpisode:
    return ReportedEpisode(
        side=excursion.ship or excursion.place or "",
        topic=topic,
        rule=TEMPERATURE,
        since_at_ms=excursion.event_at_ms,
        until_at_ms=excursion.until_at_ms,
        alert_id=excursion.alert_id,
        peak_c=excursion.peak_c,
        degree_minutes=excursion.degree_minutes,
        unmeasured_ms=excursion.unmeasured_ms,
    )


def _begun(episode: ReportedEpisode) -> tuple[str, int, str, str, str]:
    return episode.topic, episode.since_at_ms, episode.side, episode.rule, episode.alert_id or ""


def _alert_of(episode: ReportedEpisode) -> object:
    return episode.alert_id


def _kind_of(episode: ReportedEpisode) -> object:
    return episode.side, episode.topic, episode.rule


def _alarmed(episode: ReportedEpisode, _: ReportedEpisode) -> bool:
    return episode.alert_id is not None


def _overlapping(episode: ReportedEpisode, other: ReportedEpisode) -> bool:
    begins = max(episode.since_at_ms, other.since_at_ms)
    ends = min((until for until in (episode.until_at_ms, other.until_at_ms) if until is not None), default=begins)
    return begins <= ends


def _compared(shown: ReportedEpisode, reported: ReportedEpisode) -> Compared:
    differs = tuple(_differing(shown, reported))
    if reported.alert_id is None and shown.alert_id is not None:
        return Compared(verdict="untold", shown=shown, told=reported, differs=differs)
    return Compared(verdict="different" if differs else "same", shown=shown, told=reported, differs=differs)


def _differing(shown: ReportedEpisode, reported: ReportedEpisode) -> Iterable[str]:
    """Yield the fields that differ. A silence ends when its place receives a reading, which the readings' own times do not show."""
    if shown.since_at_ms != reported.since_at_ms:
        yield "since_at_ms"
    if shown.rule == LOSS:
        return
    if (shown.until_at_ms is None) != (reported.until_at_ms is None) or (
        shown.rule not in SEVERITIES and shown.until_at_ms != reported.until_at_ms
    ):
        yield "until_at_ms"
    for name in ("peak_c", "degree_minutes", "unmeasured_ms"):
        values = getattr(shown, name), getattr(reported, name)
        if None not in values and values[0] != values[1]:
            yield name
