"""Rules that need the whole fleet: one container's reports from every ship and quay, in order of time, together (by Spark, ashore).

They are pure functions over ordered reports. Their results are alerts with ids that are the same in any run. Late data is treated like all
other. The caller decides what is news (DESIGN 8: late data corrects histories and raises no new alarm)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from cargo.alerts.alert_log import Alert, AlertState, alert_id
from cargo.loss.loss_classifier import Evidence
from cargo.vocabulary.geo import distance_nm
from cargo.vocabulary.instants import time_text

HOUR_MS = 3_600_000
HEADQUARTERS = "hq"
"""Beginning of the ids of headquarters' own alerts."""
SPEED_KN_MAX = 80.0
"""Maximum speed of a container, knots: above a lorry's and a ship's speed; boxes do not fly."""
SLACK_NM = 5.0
TWO_SHIPS_MS = HOUR_MS
MISSING_AT_DISCHARGE_MS = 6 * HOUR_MS
SILENT_MS = 49 * HOUR_MS
"""Silence that raises an alert, milliseconds: two of the longest intervals (24 h at sea) and an hour."""


@dataclass(frozen=True, slots=True, order=True)
class ContainerReport:
    """One report of a container: its order time (UTC ms), the receiver (`ship/<imo>` or `quay/<locode>`), and its position, where it has
    one."""

    at_ms: int
    heard_by: str
    latitude_deg: float | None = None
    longitude_deg: float | None = None


def impossible_speed(container: str, reports: Sequence[ContainerReport]) -> list[Alert]:
    """Return an alert for each pair of successive positions of one container too far apart for a ship or lorry (80 kn, 5 nm of slack).

    `reports` in order of time. The evidence names both reports: one of them is of another container, or false."""
    found = []
    for first, second in pairwise(report for report in reports if report.latitude_deg is not None and report.longitude_deg is not None):
        hours = (second.at_ms - first.at_ms) / HOUR_MS
        run_nm = distance_nm(*_where(first), *_where(second))
        if run_nm > SLACK_NM + SPEED_KN_MAX * hours:
            detail = f"{run_nm:.0f} nm in {hours:.1f} h between {first.heard_by} and {second.heard_by}"
            proof = Evidence("position", "speed", 0.0, detail, second.at_ms)
            found.append(_alert("impossible_speed", container, second.at_ms, f"{container}: impossible speed", proof))
    return found


def two_ships(container: str, reports: Sequence[ContainerReport]) -> list[Alert]:
    """Return an alert for each time two ships report one container within the hour, the first again after the second.

    Two devices then claim one number. A box that is carried from one ship to the other gives no alert: the first ship then falls silent.
    `reports` in order of time."""
    found = []
    aboard = [report for report in reports if report.heard_by.startswith("ship/")]
    last_by: dict[str, int] = {}
    for before, now in pairwise(aboard):
        last_by[before.heard_by] = before.at_ms
        back_ms = now.at_ms - last_by.get(now.heard_by, -TWO_SHIPS_MS - 1)
        if now.heard_by != before.heard_by and 0 <= back_ms <= TWO_SHIPS_MS:
            detail = f"heard by {now.heard_by} and {before.heard_by} within {back_ms / 60_000:.0f} min"
            proof = Evidence("presence", "two_ships", 0.0, detail, now.at_ms)
            found.append(_alert("two_ships", container, now.at_ms, f"{container}: reported by two ships", proof))
    return found


def missing_at_discharge(container: str, port: str, discharged_at_ms: int, now_ms: int, reports: Iterable[ContainerReport]) -> list[Alert]:
    """Return the alert of a box due ashore at `port` when its ship sailed (`discharged_at_ms`), that the quay has not heard 6 hours later.

    Raised once the 6 hours are over by `now_ms`; cleared by the first report from the quay, even a late one."""
    due_ms = discharged_at_ms + MISSING_AT_DISCHARGE_MS
    if now_ms < due_ms:
        return []
    ashore = [report.at_ms for report in reports if report.heard_by == f"quay/{port}"]
    if any(at_ms <= due_ms for at_ms in ashore):
        return []
    proof = Evidence("presence", "discharge", 0.0, f"on the discharge list of {port}, not heard on its quay", discharged_at_ms)
    title = f"{container}: missing at discharge"
    found = [_alert("missing_at_discharge", container, due_ms, title, proof)]
    if ashore:
        found.append(_alert("missing_at_discharge", container, min(ashore), title, proof, "cleared"))
    return found


def silent(container: str, last_at_ms: int, ship: str | None = None) -> Alert:
    """Return the alert of a container that was not heard for 49 hours, last aboard `ship` (IMO number) if aboard one. It states no loss.

    The ship's own watch, which reports the same silence sooner, gives it the same id."""
    alert = _alert("silent", container, last_at_ms + SILENT_MS, f"{container}: silent", _silence(last_at_ms), of=ship)
    return replace(alert, ship=ship)


def heard_again(container: str, last_at_ms: int, at_ms: int, ship: str | None = None) -> Alert:
    """Return the end of the alert of `silent(container, last_at_ms, ship)`: the box was heard at `at_ms`, even if that is known only
    now."""
    cleared_at_ms = max(at_ms, last_at_ms + SILENT_MS)
    return _alert("silent", container, cleared_at_ms, f"{container}: silent", _silence(last_at_ms), "cleared", ship)


def heard_after_loss(container: str, lost_at_ms: int, lost_from: str, heard: ContainerReport) -> Alert:
    """Return the alert on a container that another place heard after its ship (`lost_from`, `ship/<imo>`) reported it lost at `lost_at_ms`.

    The ship's own watch retracts a loss when it hears the box; it does not know what others hear. One loss is one alert.
    """
    detail = f"reported lost by {lost_from}, heard by {heard.heard_by} at {time_text(heard.at_ms)}: where it is this box, say so aboard"
    return _alert("heard_after_loss", container, heard.at_ms, f"{container}: lost, and heard since", _contradiction(detail, lost_at_ms))


def found_after_all(container: str, lost_at_ms: int, at_ms: int) -> Alert:
    """Return the end of the alert `heard_after_loss`: its ship reports at `at_ms` that it is aboard, or was seen."""
    proof = _contradiction("its ship says that it is found", lost_at_ms)
    return _alert("heard_after_loss", container, at_ms, f"{container}: lost, and heard since", proof, "cleared")


def _contradiction(detail: str, lost_at_ms: int) -> Evidence:
    return Evidence("presence", "heard_after_loss", 0.0, detail, lost_at_ms)


def _silence(last_at_ms: int) -> Evidence:
    return Evidence("presence", "silence", 0.0, f"last heard {time_text(last_at_ms)}", last_at_ms)


def judge_container(container: str, reports: Iterable[ContainerReport]) -> Iterator[Alert]:
    """Yield the alerts that follow from one container's reports alone: impossible speed and two ships. `reports` in any order."""
    ordered = sorted(set(reports), key=lambda report: (report.at_ms, report.heard_by, str(report)))
    yield from impossible_speed(container, ordered)
    yield from two_ships(container, ordered)


def _where(report: ContainerReport) -> tuple[float, float]:
    return report.latitude_deg or 0.0, report.longitude_deg or 0.0


def _alert(
    rule: str, container: str, at_ms: int, title: str, proof: Evidence, state: AlertState = "raised", of: str | None = None
) -> Alert:
    """Return an alert. `of`: its owner, headquarters by default."""
    id_ = alert_id(of or HEADQUARTERS, rule, container, proof)
    return Alert(
        alert_id=id_,
        topic=container,
        rule=rule,
        severity="WARNING",
        state=state,
        at_ms=at_ms,
        title=title,
        detail=proof.detail,
        evidence=(proof,),
    )
