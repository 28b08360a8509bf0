"""What a loss report is drafted from, out of a node's log: the alerts of its incident and the ship's readings around it. Aboard and at
headquarters it is the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cargo.alerts.alert_body import AlertBody, read_alert
from cargo.alerts.alert_log import AlertBook, AlertStanding
from cargo.errors import BadEntry
from cargo.loss.event_time import BELIEVED_AHEAD_MS
from cargo.report.loss_draft import READ_WITHIN_MS, Facts
from cargo.report.search_line import drift_line
from cargo.vocabulary.position_fixes import COORDINATES, with_believed_positions
from cargo.vocabulary.registry_fold import Registry
from streams.body_reader import Bodies
from streams.log import LogReader
from streams.model.records import ORDER_AT, PLACES, RESERVED

ALERTS, SHIPS = "alerts", "ships"
RULES = frozenset({"incident", "lost_container"})
Unread = Callable[[object, ValueError], None]


class LossAlerts:
    """Alerts of losses in `log`, as of the last `catch_up`. Not for several threads at once.

    `own`: the nodes whose records alone count; None: everyone's. `unread` is called with each record that does not read, or of which no
    report can be drafted.
    """

    def __init__(
        self, log: Callable[[], LogReader], own: Collection[str] | None = None, unread: Unread = lambda which, problem: None
    ) -> None:
        self._log, self._own, self._unread = log, own, unread
        self._news: Bodies | None = None
        self._book = AlertBook()

    def catch_up(self) -> None:
        """Read the new records. Raises as `LogReader.run`."""
        self._news = self._news or Bodies(self._log(), ALERTS, own=self._own, unread=self._unread)
        for topic, body in self._news.news():
            try:
                alert = _reportable(read_alert(body))
            except BadEntry as problem:
                self._unread(topic, problem)
                continue
            if alert.rule in RULES:
                self._book.learn(topic, msgspec.to_builtins(alert))

    def incidents(self) -> list[AlertStanding]:
        """Return the alert of each incident."""
        return [one for one in self._book.standing() if one.body["rule"] == "incident"]

    def incident(self, incident_id: str) -> AlertStanding | None:
        """Return the alert of this incident, or None."""
        return next((one for one in self.incidents() if one.body["incident_id"] == incident_id), None)

    def bare_facts(self, ship: str, incident: AlertStanding, now_at_ms: int) -> Facts:
        """Return the facts of the incident itself, without those from the ship's sensors and papers."""
        boxes = [one for one in self._book.standing() if one.body["incident_id"] == incident.body["incident_id"] and one is not incident]
        return Facts(
            ship=ship,
            incident=incident,
            boxes=tuple(one for one in boxes if one.body["rule"] == "lost_container"),
            registry=Registry(),
            track=(),
            air=(),
            muster=None,
            now_at_ms=now_at_ms,
        )


def full_facts(log: LogReader, bare: Facts, registry: Registry, muster: Mapping[str, Any] | None) -> Facts:
    """Return these facts with papers, muster and sensor readings, and the places where the boxes may be by these. Raises as `log` does.

    The readings are those of the ship's sensors around the incident and now.
    """
    began, ended = bare.span["from_at_ms"], bare.span["until_at_ms"]
    since, until = began - READ_WITHIN_MS, ended + 1
    here = f"{bare.ship}.location"
    around, air = (
        with_believed_positions(list(_readings(log, here, since, until))),
        list(_readings(log, f"{bare.ship}.environment", since, until)),
    )
    return Facts(
        ship=bare.ship,
        incident=bare.incident,
        boxes=bare.boxes,
        registry=registry,
        track=[*around, *latest_position(log, bare.ship, None if bare.clock_doubted else bare.now_at_ms)],
        air=air,
        muster=muster,
        now_at_ms=bare.now_at_ms,
        drift=drift_line(around, air, began, ended),
    )


def _reportable(alert: AlertBody) -> AlertBody:
    """Return `alert`, when a report can be drafted from it. Raises BadEntry for an incident that lacks what every incident has."""
    cluster, position = alert.incident, alert.position
    timed = cluster is not None and cluster.from_at_ms is not None and cluster.until_at_ms is not None
    if alert.rule == "incident" and (alert.incident_id is None or not timed or (position is not None and position.at_ms is None)):
        raise BadEntry("an incident has an id, from when and until when it was, and the time of its position")
    return alert


def _readings(log: LogReader, topic: str, since_at_ms: int, until_at_ms: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = log.history(topic, since_at_ms, until_at_ms, [SHIPS]).rows
    for row in rows.to_pylist():
        yield row[ORDER_AT], _numbers(row)


def latest_position(log: LogReader, ship: str, now_ms: int | None) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """Return the ship's last reading with a believed position and its time (UTC ms), or nothing.

    It is empty where there is none in the READ_WITHIN_MS before the ship's last reading. A reading dated later than `now_ms` was measured
    while a clock was ahead, and does not count. `now_ms` is None while the clock is doubted: then none is left out. Raises as `log` does.
    """
    topic = f"{ship}.location"
    found = [at_ms for batch in log.latest(SHIPS, topic) for at_ms in batch.records.column(ORDER_AT).to_pylist()]
    if not found:
        return []
    newest_ms = max(found) if now_ms is None else max((one for one in found if one <= now_ms + BELIEVED_AHEAD_MS), default=now_ms)
    rows = with_believed_positions(list(_readings(log, topic, newest_ms - READ_WITHIN_MS, newest_ms + 1)))
    return [row for row in rows if row[1].keys() >= {*COORDINATES}][-1:]


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the signals that a report calculates with; it uses nothing else of a reading."""
    return {name: value for name, value in row.items() if isinstance(value, int | float) and name not in RESERVED | PLACES}
