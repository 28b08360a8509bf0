"""Digests: of each container the one with the newest reading in it; shown while no reading that is here is as new (`hq.api.access`).

Their values are for staff and crews. A customer sees a container from stuffing to stripping of its booking, and a digest can not be cut
there: its least and greatest values are of a whole window, which may reach beyond either end, into the time of another customer. So none
is in `customers/<id>`. A customer gets the time of the last reading alone, where its booking covers that time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from cargo.errors import BadEntry
from cargo.loss.muster import STATEMENT, read_statement
from cargo.loss.reading_rows import SHIP_LOG, ship_topic
from cargo.shore_rules.digests import DIGEST_SIGNALS, FROM, READINGS, UNTIL
from cargo.vocabulary.registry_entries import AT_MS_MAX, Custody
from hq.serving import models
from hq.serving.projections.shape import Admissions, believed_rows, made_from, reject
from hq.serving.rows import Fields
from hq.serving.upsert import put_latest
from streams.model.records import Batch, read_body

_WHOLE = (FROM, UNTIL, READINGS)
_NEWEST = ("at_ms", "generation", "offset")
_NEWER = ("at_ms", "until_at_ms", "generation", "offset")


def project_digests(connection: Connection, batch: Batch, places: Mapping[str, str], admissions: Admissions) -> None:
    """Project `digests`: a row of `digest` for each container, and of `ship_muster` for what a ship states of its muster. The digest of a
    whole window has none; what does not read is set aside, and so is the digest of a container of a time at which it was in another ship's
    custody.

    The time of a row is never later than `BELIEVED_AHEAD_MS` after its admission: a later one would stand for years."""
    rows, musters = [], []
    node = batch.origin.node
    given = [{**row, "order_at_ms": row["believed_at_ms"]} for row in believed_rows(batch, admissions)]
    elsewhere = _held_elsewhere(connection, {row["topic"] for row in given}, places.get(node))
    for row in given:
        values = row["signals"]
        if ship_topic(row["topic"]) is not None:
            musters += _musters(connection, row)
            continue
        if not all(type(values.get(name)) is int and 0 <= values[name] <= AT_MS_MAX for name in _WHOLE):
            reject(connection, row, f"a digest says {', '.join(_WHOLE)}, whole numbers")
            continue
        if (held := elsewhere.get(row["topic"])) is not None and row["order_at_ms"] >= held.since_at_ms:
            reject(connection, row, f"{row['topic']} is in the custody of {held.at}")
            continue
        signals = {name: values[name] for name in DIGEST_SIGNALS if name not in _WHOLE and _is_json_number(values.get(name))}
        body = {"node": node, **{name: values[name] for name in _WHOLE}, "signals": signals}
        rows.append(_row(row, body))
    put_latest(connection, models.Digest, rows, _NEWER)
    put_latest(connection, models.ShipMuster, musters, _NEWEST)


def _held_elsewhere(connection: Connection, containers: Set[str], place: str | None) -> dict[str, Custody]:
    """Return the custody of those of the containers that are held by another ship than that of the writer's `place`."""
    table = models.CustodyRow
    asked = select(table.id, table.value).where(table.id.in_(sorted(containers)), table.at.startswith("ship/"), table.at != (place or ""))
    return {container: msgspec.convert(value, Custody) for container, value in connection.execute(asked)}


def _musters(connection: Connection, row: Fields) -> list[Fields]:
    """Return the row of `ship_muster` that a record of a ship's own topic makes, if it is a statement."""
    try:
        body = read_body(row["body"]) if row["body"] else {}
        counts = read_statement(body[STATEMENT]) if STATEMENT in body else None
    except (ValueError, BadEntry) as problem:
        reject(connection, row, str(problem))
        return []
    ship = row["topic"].removesuffix(SHIP_LOG)
    return [] if counts is None else [{"ship": ship, "at_ms": row["order_at_ms"], "counts": counts, **made_from(row)}]


def _row(row: Fields, body: Fields) -> Fields:
    times = {"at_ms": row["order_at_ms"], "until_at_ms": body[UNTIL]}
    return {"container": row["topic"], **times, "body": body, **made_from(row)}


def _is_json_number(value: Any) -> bool:
    """Return whether JSON can carry the value as a digest's: it has no form for a number that is not finite, and a text is none of a
    digest's values."""
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
