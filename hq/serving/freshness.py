"""How fresh the serving store is: whether it is whole, and what times the log's and Spark's part of it are true for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from hq.serving.models import ProcessStatus, Projected, Projection, StreamAge

ANALYTICS = "analytics"
"""The name under which Spark's job reports its metrics."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """UTC ms. `log_…`: the projector last had all of headquarters' log. Fleet time, and the wall's.

    `spark_at_ms`: what Spark has made is true for this fleet time: that of its last word when it had read all that is here, else that of
    the newest record it had read; None before its first micro-batch. `spark_wall_at_ms`: its last word. `spark_well`: its query runs.
    """

    started_wall_at_ms: int
    whole: bool
    log_at_ms: int | None
    log_wall_at_ms: int | None
    spark_at_ms: int | None
    spark_wall_at_ms: int | None
    spark_well: bool


def freshness(connection: Connection) -> Freshness | None:
    """Return how fresh the store is; None when it has only its tables."""
    p = connection.execute(select(Projection.__table__)).first()
    if p is None:
        return None
    of = ProcessStatus.process == ANALYTICS
    word = connection.execute(
        select(ProcessStatus.at_ms, ProcessStatus.wall_at_ms, ProcessStatus.body).where(of).order_by(ProcessStatus.wall_at_ms.desc())
    ).first()
    log = (p.started_wall_at_ms, p.ready_wall_at_ms is not None, p.caught_up_at_ms, p.caught_up_wall_at_ms)
    if word is None:
        return Freshness(*log, None, None, False)
    return Freshness(*log, _true_for(connection, word.at_ms, word.body), word.wall_at_ms, word.body.get("problem") is None)


def _true_for(connection: Connection, at_ms: int, word: Mapping[str, Any]) -> int | None:
    """Return the time that Spark's results are true for, by its last report, of `at_ms`."""
    read: Mapping[str, Mapping[str, int]] = word.get("positions") or {}
    here = connection.execute(select(Projected.stream, Projected.origin, Projected.next_offset).where(Projected.stream.in_(read)))
    if all(read[one.stream].get(one.origin, 0) >= one.next_offset for one in here) and word.get("batch", 0) is not None:
        return at_ms
    newest: int | None = word.get("newest_at_ms")
    if newest is None:  # rebuilt: what it had made before is as old as its last states
        newest = connection.execute(select(StreamAge.received_at_ms).where(StreamAge.stream == "states")).scalar_one_or_none()
    return None if newest is None else min(newest, at_ms)  # a device's clock may be a little ahead
