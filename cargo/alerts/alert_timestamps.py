"""Times of recorded changes of alerts: when they are known, each change of an alert later than the one before it."""

from __future__ import annotations

from dataclasses import replace

from cargo.alerts.alert_log import Alert
from cargo.loss.watch_state import WatchState


def record_change(state: WatchState, alert: Alert) -> None:
    """Record this change, at the later of its own time and the time up to which all is settled.

    A late reading that ends what a timer began meanwhile is older than that beginning. By the fold (`cargo.alerts.alert_log.AlertBook`) the
    beginning would then stay for ever.

    Of two changes in one instant (a box heard again and lost again), the second is a millisecond later. The fold uses the time, and can not
    know which was last."""
    memory = state.memory
    if memory.told_from_ms != memory.settled_at_ms:
        memory.told_from_ms = memory.settled_at_ms
        memory.told = {id_: at_ms for id_, at_ms in memory.told.items() if at_ms >= memory.settled_at_ms}
    at_ms = max(alert.at_ms, memory.settled_at_ms, memory.told.get(alert.alert_id, -1) + 1)
    memory.told[alert.alert_id] = at_ms
    state.outcome.alerts.append(replace(alert, at_ms=at_ms).made())


def replace_change(state: WatchState, alert: Alert) -> None:
    """Record this change as `record_change` does, but replace the change of this alert from the same instant.

    A change that is handed over already is not replaced.

    So the incident of many boxes lost at once is reported once."""
    changes = state.outcome.alerts
    for at in range(len(changes) - 1, -1, -1):
        if changes[at].at_ms < state.memory.settled_at_ms:
            break
        if changes[at].body["alert_id"] == alert.alert_id:
            before = changes.pop(at)
            first = before.body["state"] == "raised" and alert.state == "updated"
            changes.append(replace(alert, at_ms=before.at_ms, state="raised" if first else alert.state).made())
            return
    record_change(state, alert)
