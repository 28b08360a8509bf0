"""What of a record about its box a customer may read: nothing of other boxes, of the ship as a whole, or of the time before its right
began."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cargo.loss.event_time import CORRECTED
from streams.model.records import body_text, read_body

EVENT_FIELDS = ("event_id", "event", "classifier", "event_at_ms", "place", "ship", "node", "updated_at_ms", "retracted", "clock_doubted")
EXCURSION_FIELDS = ("until_at_ms", "peak_c", "degree_minutes", "unmeasured_ms")
"""What an excursion came to: told of one that began and ended in the customer's own time."""
ALERT_FIELDS = ("alert_id", "rule", "severity", "state", "at_ms", "status", "position", "clock_doubted")
FIGURE_FIELDS = ("figure", "unit", "limit", "worse", "count", "first_at_ms", "last_at_ms", "reopened_at_ms", "seen_until_ms")
"""How bad it is and how often it happened: of an alert that lies in the customer's own time from its first reading on."""
OWN_EVIDENCE = frozenset({"kinematic", "slot", "position"})
"""Families of evidence that speak of the box alone. The others count, name or imply its neighbours."""
EVIDENCE_FIELDS = ("family", "signal", "at_ms")
KINDS: Mapping[str, str] = {"events": "event", "alerts": "alert"}
KIND = "landfall_kind"
"""Where the body of a customer's copy says which kind it is; a reading's does not."""
MAY_HAVE_KIND = r"landfall_kind|\\"
"""What a JSON text has somewhere in which a field is called so: the name as it is, or escaped."""


def disclosed(stream: str, body: str | None, from_at_ms: int, until_at_ms: int) -> str | None:
    """The body that the customer gets: a reading's as it is, but for a `landfall_kind` that its device wrote; of an event or alert only
    named fields, and `landfall_kind`.

    Free text (`title`, `detail`), incident and posterior stay here: they may tell of others. Evidence, and what an excursion came to, is
    kept of the customer's own time only.
    """
    kind = KINDS.get(stream)
    if kind is None:
        return body if body is None or re.search(MAY_HAVE_KIND, body) is None else _without_kind(body)
    fields = _fields(body)
    own_excursion = _lies_within(fields, ("event_at_ms", "until_at_ms"), from_at_ms, until_at_ms)
    names = ALERT_FIELDS if kind == "alert" else EVENT_FIELDS + (EXCURSION_FIELDS if own_excursion else ())
    kept: dict[str, Any] = {name: fields[name] for name in names if name in fields}
    if kind == "alert":
        if _lies_within(fields, ("first_at_ms", "last_at_ms"), from_at_ms, until_at_ms):
            kept |= {name: fields[name] for name in FIGURE_FIELDS if name in fields}
        evidence = fields.get("evidence")
        kept["evidence"] = (
            [_evidence(one) for one in evidence if _may_tell(one, from_at_ms, until_at_ms)] if isinstance(evidence, list) else []
        )
    return body_text(kept | {KIND: kind})


def with_corrected_time(body: str, received_at_ms: int) -> str:
    """The body of a reading whose device's clock fell back, with when it was received first (UTC ms)."""
    return body_text(_fields(body) | {CORRECTED: received_at_ms})


def _without_kind(body: str) -> str:
    fields = _fields(body)
    return body_text({name: value for name, value in fields.items() if name != KIND}) if KIND in fields else body


def _fields(body: str | None) -> dict[str, Any]:
    """The body's fields; none when it is no JSON object: of what does not read nothing is told."""
    try:
        return read_body(body)
    except ValueError:
        return {}


def _lies_within(fields: Mapping[str, Any], ends: tuple[str, str], from_at_ms: int, until_at_ms: int) -> bool:
    began, ended = (fields.get(end) for end in ends)
    return isinstance(began, int) and isinstance(ended, int) and from_at_ms <= began <= ended < until_at_ms


def _may_tell(evidence: Any, from_at_ms: int, until_at_ms: int) -> bool:
    if not isinstance(evidence, dict):
        return False
    at_ms, family = evidence.get("at_ms"), evidence.get("family")
    return isinstance(family, str) and family in OWN_EVIDENCE and isinstance(at_ms, int) and from_at_ms <= at_ms < until_at_ms


def _evidence(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return {name: evidence[name] for name in EVIDENCE_FIELDS if name in evidence}
