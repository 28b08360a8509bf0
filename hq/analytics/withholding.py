"""What owners are not told of a loss in their streams before a person vouches for it, where that is the carrier's policy: then the notice
of the loss report tells them, from when it may (`cargo.report.owner_notice`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cargo.loss.loss_classifier import CONFIRMED_STATES
from cargo.vocabulary.registry_entries import NoticeStage
from hq.delta_tables import HISTORY
from streams.model.records import BODY, TOPIC, read_body

PROBABLE = r"PROBABLE_OVERBOARD|lost_container|heard_after_loss|\\"
"""What a JSON text has somewhere that says so: the words as they are, or escaped."""


def without_probable(root: str, given: pa.Table, told_from: NoticeStage) -> pa.Table:
    """`given` (from `owed`) but, where owners are told once a report is approved or sent, for events and alerts that say a box is probably
    lost, what takes back an alert that said no more, and that a box told as lost was heard since. What a person confirms passes, and what
    takes that back.

    `root`: the tables', where it is looked up what was confirmed before; all of `given` counts too.
    """
    if told_from == "drafted" or not given.num_rows:
        return given
    may = pc.and_(pc.is_in(given.column("stream"), pa.array(["alerts", "events"])), pc.match_substring_regex(given.column(BODY), PROBABLE))
    rows = pc.indices_nonzero(pc.fill_null(may, False)).to_pylist()
    bodies = dict(zip(rows, map(_fields, given.column(BODY).take(pa.array(rows, pa.int64())).to_pylist()), strict=True))
    back = [row for row, body in bodies.items() if body.get("rule") == "lost_container" and body.get("status") == "FOUND"]
    confirmed = _confirmed(bodies.values())
    if back:
        confirmed |= _confirmed(_before(root, sorted(set(given.column(TOPIC).take(pa.array(back)).to_pylist()))))
    gone = [row for row, body in bodies.items() if _is_probable(body) or (row in back and str(body.get("alert_id")) not in confirmed)]
    kept = sorted(set(range(given.num_rows)).difference(gone))
    return given.take(pa.array(kept, pa.int64())) if gone else given


def _is_probable(body: Mapping[str, Any]) -> bool:
    implied = body.get("rule") == "heard_after_loss"
    return implied or body.get("status") == "PROBABLE_OVERBOARD" or body.get("event") == "X_PROBABLE_OVERBOARD"


def _confirmed(bodies: Iterable[Mapping[str, Any]]) -> set[str]:
    """The ids of the alerts that a person vouched for."""
    said = ((body.get("alert_id"), body.get("status")) for body in bodies)
    return {id_ for id_, status in said if isinstance(id_, str) and isinstance(status, str) and status in CONFIRMED_STATES}


def _before(root: str, topics: Sequence[str]) -> list[dict[str, Any]]:
    """Every change of these boxes' alerts in the history."""
    history = HISTORY.dataset(root)
    if history is None:
        return []
    found = history.to_table(columns=[BODY], filter=ds.field(TOPIC).isin(topics) & (ds.field("stream") == "alerts"))
    return [_fields(body) for body in found.column(BODY).to_pylist()]


def _fields(body: str | None) -> dict[str, Any]:
    try:
        return read_body(body)
    except ValueError:
        return {}
