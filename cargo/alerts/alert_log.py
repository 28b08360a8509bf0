"""Alerts: the record of each change, and the fold from records to the current state, which does not depend on their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from cargo.loss.loss_classifier import Evidence
from cargo.loss.watch_outcome import MadeRecord, digest

AlertState = Literal["raised", "updated", "acknowledged", "unacknowledged", "cleared", "retracted"]
Severity = Literal["CRITICAL", "ALARM", "WARNING", "LOG"]
Stage = Literal["open", "acknowledged", "closed"]
"""Need of an alert: a person; nothing for now, because a person acknowledged it; nothing any more."""
SEVERITIES: tuple[Severity, ...] = ("CRITICAL", "ALARM", "WARNING", "LOG")
"""Severities, the worst first."""
CLOSED_STATES = frozenset({"cleared", "retracted"})
REOPENS_EVERY_MS = 3_600_000
"""Minimum time between two openings of one alert after acknowledgements, ms."""
WORSE_BY = 1.5
"""Factor on the acknowledged figure's distance from its limit from which the alert opens again."""
CONTRADICTIONS = 4
"""Number of impossible movements of one container in a row from which its position is unreliable."""
INCIDENT, LOST = "incident", "lost_container"
SPEED, UNRELIABLE = "impossible_speed", "position_unreliable"
_SEVERITY_RANKS: Mapping[str, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}
_PERSONS = frozenset({"acknowledged", "unacknowledged"})
_STATES: dict[str, int] = {"raised": 0, "updated": 1, "acknowledged": 2, "unacknowledged": 3, "cleared": 4, "retracted": 5}
_NEVER_MS = 1 << 63


def severity_rank(severity: str) -> int:
    """Return 0 for the worst severity; unknown severities come last."""
    return _SEVERITY_RANKS.get(severity, len(SEVERITIES))


def stage_of(state: str) -> Stage:
    """Return the stage of an alert in this state, as returned by `AlertStanding.state`."""
    return "closed" if state in CLOSED_STATES else "acknowledged" if state == "acknowledged" else "open"


def count_alerts(bodies: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of alerts that people count: the alert of an incident is not counted in addition to those of its boxes."""
    known = list(bodies)
    of_boxes = {body["incident_id"] for body in known if body["rule"] == LOST}
    return sum(body["rule"] != INCIDENT or body["incident_id"] not in of_boxes for body in known)


def alert_id(raiser: str, rule: str, topic: str, first: Evidence) -> str:
    """Return the alert's id: its owner (`Place.side` of the raiser), and a hash of rule, topic and first evidence.

    Every node of one ship that sees the same gives the same id."""
    return f"{raiser}-{digest('alert', rule, topic, first.signal, first.at_ms)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """Severity as a number: the worst value so far, its unit, the limit that it is beyond, and the direction in which it gets worse."""

    value: float
    unit: str
    limit: float
    worse: Literal["up", "down"]

    @property
    def beyond(self) -> float:
        """Distance from the limit, in the unit."""
        return self.value - self.limit if self.worse == "up" else self.limit - self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One change of an alert, as it is recorded. Times are UTC ms.

    `position` has latitude_deg, longitude_deg, basis and at_ms; `incident` has the content of a cluster of losses. `count`: how often it
    happened, since `first_at_ms` (None: the first evidence's time), the last time at `last_at_ms` (None: now, while the alert is not
    over)."""

    alert_id: str
    topic: str
    rule: str
    severity: Severity
    state: AlertState
    at_ms: int
    title: str
    detail: str
    ship: str | None = None
    incident_id: str | None = None
    slot: str | None = None
    status: str | None = None
    position: Mapping[str, Any] | None = None
    evidence: tuple[Evidence, ...] = ()
    posterior: float | None = None
    by: str | None = None
    incident: Mapping[str, Any] | None = None
    figure: Figure | None = None
    count: int = 1
    first_at_ms: int | None = None
    last_at_ms: int | None = None

    def made(self) -> MadeRecord:
        """Return the record of stream `alerts`."""
        first_at_ms = min((piece.at_ms for piece in self.evidence), default=self.at_ms) if self.first_at_ms is None else self.first_at_ms
        last_at_ms = self.at_ms if self.last_at_ms is None and self.state not in CLOSED_STATES else self.last_at_ms
        figure = self.figure
        body: dict[str, Any] = {
            "alert_id": self.alert_id,
            "rule": self.rule,
            "severity": self.severity,
            "state": self.state,
            "at_ms": self.at_ms,
            "title": self.title,
            "detail": self.detail,
            "ship": self.ship,
            "incident_id": self.incident_id,
            "slot": self.slot,
            "status": self.status,
            "position": None if self.position is None else dict(self.position),
            "evidence": [msgspec.to_builtins(piece) for piece in self.evidence],
            "posterior": None if self.posterior is None else round(self.posterior, 6),
            "by": self.by,
            "incident": None if self.incident is None else dict(self.incident),
            "figure": figure and round(figure.value, 3),
            "unit": figure and figure.unit,
            "limit": figure and round(figure.limit, 3),
            "worse": figure and figure.worse,
            "count": self.count,
            "first_at_ms": first_at_ms,
            "last_at_ms": last_at_ms,
        }
        return MadeRecord(self.topic, self.at_ms, body)


@dataclass(frozen=True, slots=True)
class AlertStanding:
    """Current state of what one raiser reports about one topic by one rule: one alert, or several that were open at the same time.

    `body`: the latest change by the rules, of those that are open if any is. `members`: the latest change of each alert, the first raised
    first; the first one's id names them all. `acknowledgement`: the record that a person made and no person withdrew, else None;
    `reopens_at_ms`: when it stops to count, because the alert got worse (UTC ms; 0: at once). `taken_back`: the record that withdrew the
    last acknowledgement. `clock_doubted`: a change was written under a doubted clock. Every program that shows an alert's state uses
    `state`."""

    topic: str
    body: Mapping[str, Any]
    members: tuple[Mapping[str, Any], ...]
    raised_at_ms: int
    count: int
    first_at_ms: int
    last_at_ms: int | None
    acknowledgement: Mapping[str, Any] | None = None
    taken_back: Mapping[str, Any] | None = None
    reopens_at_ms: int | None = None
    clock_doubted: bool = False

    @property
    def id(self) -> str:
        """Id by which people refer to it: that of its first alert."""
        return str(self.members[0]["alert_id"])

    @property
    def closed(self) -> bool:
        """Whether it is cleared or retracted."""
        return self.body["state"] in CLOSED_STATES

    def state(self, now_ms: int) -> AlertState:
        """Return the state at `now_ms` (UTC ms)."""
        state: AlertState = self.body["state"]
        if self.closed:
            return state
        if self.acknowledgement is not None:
            return "updated" if self.reopened(now_ms) else "acknowledged"
        return "unacknowledged" if self.taken_back is not None and _instant(self.taken_back) > _instant(self.body) else state

    def stage(self, now_ms: int) -> Stage:
        """Return the stage at `now_ms` (UTC ms)."""
        return stage_of(self.state(now_ms))

    def reopened(self, now_ms: int) -> bool:
        """Return whether it got so much worse after the acknowledgement that it needs a person again at `now_ms` (UTC ms)."""
        return not self.closed and self.reopens_at_ms is not None and self.reopens_at_ms <= now_ms

    @property
    def change(self) -> str | None:
        """Change for the worse since the acknowledgement, as `4.5 → 42.5 °C`; None where there is none."""
        noted, body = self.acknowledgement, self.body
        if noted is None or self.reopens_at_ms is None:
            return None
        if severity_rank(body["severity"]) < severity_rank(noted["severity"]):
            return f"{noted['severity']} → {body['severity']}"
        return f"{noted['figure']:g} → {body['figure']:g} {body['unit']}"


@dataclass(slots=True)
class _Known:
    """State of one alert from its records. `persons`: acknowledgements and their withdrawals, by their bytes."""

    raised_at_ms: int = _NEVER_MS
    first_at_ms: int = _NEVER_MS
    last_at_ms: int = -1
    count: int = 1
    clock_doubted: bool = False
    latest: tuple[str, Mapping[str, Any]] | None = None
    noted: tuple[str, Mapping[str, Any]] | None = None
    persons: dict[bytes, Mapping[str, Any]] = field(default_factory=dict)

    def learn(self, topic: str, body: Mapping[str, Any]) -> None:
        by_person = body["state"] in _PERSONS
        self.raised_at_ms = min(self.raised_at_ms, body["at_ms"])
        self.first_at_ms = min(self.first_at_ms, body["at_ms"] if body.get("first_at_ms") is None else body["first_at_ms"])
        self.last_at_ms = max(self.last_at_ms, -1 if body.get("last_at_ms") is None else body["last_at_ms"])
        self.count = max(self.count, body.get("count") or 1)
        self.clock_doubted |= body.get("clock_doubted") is True
        if by_person:
            self.persons[_bytes("", body)] = body
        before = self.noted if by_person else self.latest
        if before is None or _late(topic, body) > _late(*before):
            if by_person:
                self.noted = topic, body
            else:
                self.latest = topic, body

    @property
    def change(self) -> tuple[str, Mapping[str, Any]]:
        """Latest change by the rules. Before any came, the state that the person who acknowledged it saw."""
        if self.latest is not None:
            return self.latest
        topic, body = self.noted or ("", {})
        return topic, {**body, "state": "raised"}

    @property
    def ended_at_ms(self) -> int:
        """Time at which it was closed."""
        body = self.change[1]
        return _instant(body)[0] if body["state"] in CLOSED_STATES else _NEVER_MS


class AlertBook:
    """Fold of alert records, in any order, any number of times, from any node."""

    def __init__(self, records: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> None:
        self._known: defaultdict[str, _Known] = defaultdict(_Known)
        for topic, body in records:
            self.learn(topic, body)

    def learn(self, topic: str, body: Mapping[str, Any]) -> None:
        """Apply one record. Of the rules' changes, the latest by (at_ms, rank of the state) counts; a closing by hand has the time up to
        which the person saw the changes (`seen_until_ms`), however wrong the person's clock is."""
        self._known[body["alert_id"]].learn(topic, body)

    def topic_of(self, id_: str) -> str:
        """Return the topic of an alert; empty where no record of it is known."""
        return self._known[id_].change[0] if id_ in self._known else ""

    def alerts(self) -> list[AlertStanding]:
        """Return each alert by itself, by id."""
        return [_stand([self._known[id_]]) for id_ in sorted(self._known)]

    def standing(self) -> list[AlertStanding]:
        """Return the alerts that people see, by id: alerts of one raiser, topic and rule that were open at the same time are one."""
        alike: dict[tuple[object, ...], list[tuple[int, str]]] = defaultdict(list)
        for id_, known in self._known.items():
            topic, body = known.change
            key = id_.rpartition("-")[0] or id_, topic, body["rule"], body.get("incident_id")
            alike[key].append((known.raised_at_ms, id_))
        groups = (group for ids in alike.values() for group in _at_one_time([self._known[id_] for _, id_ in sorted(ids)]))
        return sorted(map(_stand, groups), key=lambda one: one.id)

    def get(self, id_: str) -> AlertStanding | None:
        """Return the one of `standing` that has this alert, or None."""
        found = (one for one in self.standing() if any(body["alert_id"] == id_ for body in one.members))
        return next(found, None)


def acknowledged(standing: AlertStanding, by: str, now_ms: int, note: str = "") -> MadeRecord:
    """Return the record with which a person acknowledges the current state of an alert.

    Its time is never earlier than what it acknowledges, however far the person's clock lags behind (`now_ms`, UTC ms)."""
    before = standing.acknowledgement or standing.taken_back
    at_ms = max(now_ms, standing.body["at_ms"], before["at_ms"] + 1 if before else 0)
    reopens_at_ms = standing.reopens_at_ms
    reopened_at_ms = None if reopens_at_ms is None else min(max(reopens_at_ms, standing.body["at_ms"]), now_ms)
    return _by_hand(standing, "acknowledged", at_ms, {"by": by, "note": note, "reopened_at_ms": reopened_at_ms})


def unacknowledged(standing: AlertStanding, by: str, now_ms: int, note: str = "") -> MadeRecord:
    """Return the record with which a person withdraws the acknowledgement of an alert. `now_ms`: UTC ms."""
    before = standing.acknowledgement or standing.body
    return _by_hand(standing, "unacknowledged", max(now_ms, before["at_ms"] + 1), {"by": by, "note": note})


def closed(standing: AlertStanding, by: str, now_ms: int, note: str) -> list[MadeRecord]:
    """Return the records with which a person closes what is open of `standing`; `note` gives the reason.

    A change by its rule that the person had not seen opens it again."""
    open_ones = [body for body in standing.members if body["state"] not in CLOSED_STATES]
    seen_until_ms = max(_instant(body)[0] for body in standing.members) + 1
    at_ms = max(now_ms, seen_until_ms)
    news = {"state": "cleared", "at_ms": at_ms, "seen_until_ms": seen_until_ms, "by": by, "note": note, "last_at_ms": None}
    return [MadeRecord(standing.topic, at_ms, {**body, **news}) for body in open_ones]


def acknowledgement_fields(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what programs show of an acknowledgement: who, when, the note, and the severity and figure acknowledged."""
    if record is None:
        return None
    return {"note": "", **{name: record[name] for name in ("by", "at_ms", "note", "severity", "figure", "unit") if name in record}}


def _by_hand(standing: AlertStanding, state: AlertState, at_ms: int, more: Mapping[str, Any]) -> MadeRecord:
    said = next(body for body in standing.members if body["alert_id"] == standing.body["alert_id"])
    return MadeRecord(standing.topic, at_ms, {**said, "state": state, "at_ms": at_ms, **more})


def _at_one_time(known: Sequence[_Known]) -> Iterator[list[_Known]]:
    """Yield `known`, the first raised first, in groups: a group ends where all of it were closed when the next was raised."""
    group, ends_at_ms = list[_Known](), -1
    for one in known:
        if group and one.raised_at_ms >= ends_at_ms:
            yield group
            group, ends_at_ms = [], -1
        group.append(one)
        ends_at_ms = max(ends_at_ms, one.ended_at_ms)
    if group:
        yield group


def _stand(group: Sequence[_Known]) -> AlertStanding:
    changes = [one.change for one in group]
    topic, body = max(changes, key=lambda change: (_openness(change[1]), _late(*change)))
    count, last_at_ms = sum(one.count for one in group), max(one.last_at_ms for one in group)
    noted, taken_back = _acknowledgement([record for one in group for record in one.persons.values()])
    reopens_at_ms = None
    if noted is not None and _is_worse(body, noted):
        before_ms = noted.get("reopened_at_ms")
        reopens_at_ms = 0 if before_ms is None else before_ms + REOPENS_EVERY_MS
    return AlertStanding(
        topic=topic,
        body=_unreliable(topic, body) if count >= CONTRADICTIONS and body["rule"] == SPEED else body,
        members=tuple(body for _, body in changes),
        raised_at_ms=min(one.raised_at_ms for one in group),
        count=count,
        first_at_ms=min(one.first_at_ms for one in group),
        last_at_ms=None if last_at_ms < 0 else last_at_ms,
        acknowledgement=noted,
        taken_back=taken_back,
        reopens_at_ms=reopens_at_ms,
        clock_doubted=any(one.clock_doubted for one in group),
    )


def _openness(body: Mapping[str, Any]) -> int:
    return {"cleared": 1, "retracted": 0}.get(body["state"], 2)


def _acknowledgement(persons: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return the valid acknowledgement, and the record that withdrew the last one.

    The first of several counts, until one is of something worse."""
    noted: Mapping[str, Any] | None = None
    taken_back: Mapping[str, Any] | None = None
    for record in sorted(persons, key=lambda one: (*_instant(one), str(one.get("by") or ""), _bytes("", one))):
        if record["state"] == "unacknowledged":
            noted, taken_back = None, record
        elif noted is None or _is_worse(record, noted):
            noted, taken_back = record, None
    return noted, taken_back


def _is_worse(body: Mapping[str, Any], noted: Mapping[str, Any]) -> bool:
    """Return whether `body` is so much worse than what was acknowledged that a person has to look again."""
    if severity_rank(body["severity"]) < severity_rank(noted["severity"]):
        return True
    now, before = figure_of(body), figure_of(noted)
    return now is not None and before is not None and now.beyond > before.beyond and now.beyond >= WORSE_BY * before.beyond


def figure_of(body: Mapping[str, Any]) -> Figure | None:
    """Return the figure in an alert's body, or None where the body has none."""
    value, unit, limit, worse = (body.get(name) for name in ("figure", "unit", "limit", "worse"))
    return None if value is None or limit is None or worse not in ("up", "down") else Figure(value, unit or "", limit, worse)


def _unreliable(topic: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**body, "rule": UNRELIABLE, "title": f"{topic}: position unreliable"}


def _instant(body: Mapping[str, Any]) -> tuple[int, int]:
    seen_until_ms = body.get("seen_until_ms") if body["state"] in CLOSED_STATES else None
    return body["at_ms"] if seen_until_ms is None else min(seen_until_ms, body["at_ms"]), _STATES[body["state"]]


def _late(topic: str, body: Mapping[str, Any]) -> tuple[int, int, bytes]:
    return *_instant(body), _bytes(topic, body)


def _bytes(topic: str, body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode([topic, body], order="sorted")
