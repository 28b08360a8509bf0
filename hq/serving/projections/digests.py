"""Digests: of each container the one with the newest reading in it; shown while no reading that is here is as new (`hq.api.access`).

They are staff's alone. A customer sees a container from stuffing to stripping of its booking, and a digest can not be cut there: its least
and greatest values are of a whole window, which may reach beyond either end, into what is another's. So none is in `customers/<id>`.
"""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import Connection

from cargo.errors import BadEntry
from cargo.loss.muster import STATEMENT, read_statement
from cargo.loss.reading_rows import SHIP_LOG, ship_topic
from cargo.shore_rules.digests import DIGEST_SIGNALS, FROM, READINGS, UNTIL
from cargo.vocabulary.registry_entries import AT_MS_MAX
from hq.serving import models
from hq.serving.projections.shape import made_from, reject
from hq.serving.rows import Fields, record_rows
from hq.serving.upsert import put_latest
from streams.model.records import Batch, read_body

_WHOLE = (FROM, UNTIL, READINGS)
_NEWEST = ("at_ms", "generation", "offset")
_NEWER = ("at_ms", "until_at_ms", "generation", "offset")


def project_digests(connection: Connection, batch: Batch) -> None:
    """`digests`: a row of `digest` for each container, and of `ship_muster` for what a ship states of its muster. What the ship says of a
    whole window has none; what does not read is set aside."""
    rows, musters = [], []
    node = batch.origin.node
    for row in record_rows(batch):
        told = row["signals"]
        if ship_topic(row["topic"]) is not None:
            musters += _musters(connection, row)
            continue
        if not all(type(told.get(name)) is int and 0 <= told[name] <= AT_MS_MAX for name in _WHOLE):
            reject(connection, row, f"a digest says {', '.join(_WHOLE)}, whole numbers")
            continue
        signals = {name: told[name] for name in DIGEST_SIGNALS if name not in _WHOLE and _tellable(told.get(name))}
        body = {"node": node, **{name: told[name] for name in _WHOLE}, "signals": signals}
        rows.append(_row(row, body))
    put_latest(connection, models.Digest, rows, _NEWER)
    put_latest(connection, models.ShipMuster, musters, _NEWEST)


def _musters(connection: Connection, row: Fields) -> list[Fields]:
    """The row of `ship_muster` that a record of a ship's own topic makes, if it is a statement."""
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


def _tellable(value: Any) -> bool:
    """JSON has no word for what is no finite number; a text is none of a digest's values."""
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
