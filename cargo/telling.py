"""How changes of alerts are recorded: as of when they are known, so that of two the one that was decided later has the later time."""

from __future__ import annotations

from dataclasses import replace

from cargo.alerts import Alert
from cargo.state import WatchState


def tell(state: WatchState, alert: Alert) -> None:
    """Records this change, of the time up to which all is settled if that is later than its own: a reading that came late, and ends what a
    timer began meanwhile, is older than that beginning, which by the fold (`cargo.alerts.AlertBook`) would stand for good."""
    state.outcome.alerts.append(_known(state, alert).made())


def tell_anew(state: WatchState, alert: Alert) -> None:
    """As `tell`, and one record an instant: what was told by this alert for the same instant is replaced, so that the fold need not choose
    between the two."""
    alert = _known(state, alert)
    told = state.outcome.alerts
    for at in range(len(told) - 1, -1, -1):
        if told[at].at_ms != alert.at_ms:
            break
        if told[at].body["alert_id"] == alert.alert_id:
            first = told.pop(at).body["state"]
            alert = replace(alert, state="raised" if first == "raised" and alert.state == "updated" else alert.state)
            break
    told.append(alert.made())


def _known(state: WatchState, alert: Alert) -> Alert:
    return replace(alert, at_ms=max(alert.at_ms, state.memory.settled_at_ms))
