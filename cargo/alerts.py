"""Alerts: the record of each change, and the fold from records to what stands now, which does not depend on the order they come in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from cargo.lost import Evidence
from cargo.outcome import Made, digest

AlertState = Literal["raised", "updated", "acknowledged", "cleared", "retracted"]
Severity = Literal["CRITICAL", "ALARM", "WARNING", "LOG"]
_RANKS: dict[str, int] = {"raised": 0, "updated": 1, "acknowledged": 2, "cleared": 3, "retracted": 4}

_OPEN_STATES = frozenset({"raised", "updated"})


def alert_id(raiser: str, rule: str, topic: str, first: Evidence) -> str:
    """The alert's id: whose it is (`Place.side` of who raises it), and a hash of rule, topic and first evidence, so that every node of one
    ship that sees the same gives the same."""
    return f"{raiser}-{digest('alert', rule, topic, first.signal, first.at_ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One change of an alert, as it is recorded. Times UTC ms; `position` has latitude_deg, longitude_deg, basis and at_ms; `incident`
    says what belongs to a cluster of losses."""

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

    def made(self) -> Made:
        """The record of stream `alerts`."""
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
        }
        return Made(self.topic, self.at_ms, body)


@dataclass(frozen=True, slots=True)
class Standing:
    """One alert as it stands: its topic, the body of its latest change by the rules, when it was raised, and who acknowledged it when.

    The body's state is `acknowledged` while nothing has changed since it was; what it says is the rules' all the same: whoever took note
    of it elsewhere may not have known their latest word.
    """

    topic: str
    body: Mapping[str, Any]
    raised_at_ms: int
    acknowledged_by: str | None
    acknowledged_at_ms: int | None

    @property
    def open(self) -> bool:
        """Whether it still asks for attention: neither cleared nor retracted."""
        return self.body["state"] not in {"cleared", "retracted"}


class AlertBook:
    """The fold: takes alert records in any order, any number of times, from any node."""

    def __init__(self, records: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> None:
        self._latest: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._noted: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._acknowledged: dict[str, Mapping[str, Any]] = {}
        self._raised_at: dict[str, int] = {}
        for topic, body in records:
            self.learn(topic, body)

    def learn(self, topic: str, body: Mapping[str, Any]) -> None:
        """Takes in one record. The latest by (at_ms, rank of the state) stands; acknowledgements are kept beside it, of whose names the
        first counts."""
        id_ = body["alert_id"]
        self._raised_at[id_] = min(self._raised_at.get(id_, body["at_ms"]), body["at_ms"])
        if body["state"] == "acknowledged":
            known = self._acknowledged.get(id_)
            if known is None or _early(body) < _early(known):
                self._acknowledged[id_] = body
        latest = self._noted if body["state"] == "acknowledged" else self._latest
        standing = latest.get(id_)
        if standing is None or _late(topic, body) > _late(*standing):
            latest[id_] = (topic, body)

    def standing(self) -> list[Standing]:
        """Every alert as it stands, by id."""
        return [self._stand(id_) for id_ in sorted(self._raised_at)]

    def get(self, id_: str) -> Standing | None:
        """One alert as it stands, or None."""
        return self._stand(id_) if id_ in self._raised_at else None

    def _stand(self, id_: str) -> Standing:
        noted = self._noted.get(id_)
        topic, body = self._latest.get(id_) or noted or ("", {})
        if noted is not None and body["state"] in _OPEN_STATES and _instant(noted[1]) > _instant(body):
            body = {**body, **{name: noted[1].get(name) for name in ("state", "at_ms", "by")}}
        acknowledged = self._acknowledged.get(id_, {})
        return Standing(topic, body, self._raised_at[id_], acknowledged.get("by"), acknowledged.get("at_ms"))


def acknowledged(standing: Standing, by: str, now_ms: int) -> Made:
    """The record with which a person acknowledges an alert as it stands now: never of an earlier time than what it acknowledges, however
    far the clock of whoever is told of it lags behind (`now_ms`, UTC ms)."""
    at_ms = max(now_ms, standing.body["at_ms"])
    return Made(standing.topic, at_ms, {**standing.body, "state": "acknowledged", "at_ms": at_ms, "by": by})


def _instant(body: Mapping[str, Any]) -> tuple[int, int]:
    return body["at_ms"], _RANKS[body["state"]]


def _early(body: Mapping[str, Any]) -> tuple[int, str]:
    return body["at_ms"], str(body.get("by") or "")


def _late(topic: str, body: Mapping[str, Any]) -> tuple[int, int, bytes]:
    return *_instant(body), msgspec.json.encode([topic, body], order="sorted")
