"""How fresh the serving store is: whether it is whole, and what times the log's and Spark's part of it are true for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from hq.serving.models import ProcessStatus, Projection

ANALYTICS = "analytics"
"""The name under which Spark's job tells its metrics."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """UTC ms. `log_…`: the projector last had all of headquarters' log; `spark_…`: Spark's last word. Fleet time, and the wall's."""

    started_wall_at_ms: int
    whole: bool
    log_at_ms: int | None
    log_wall_at_ms: int | None
    spark_at_ms: int | None
    spark_wall_at_ms: int | None


def freshness(connection: Connection) -> Freshness | None:
    """How fresh the store is; None when it has only its tables."""
    p = connection.execute(select(Projection.__table__)).first()
    if p is None:
        return None
    of = ProcessStatus.process == ANALYTICS
    word = connection.execute(
        select(ProcessStatus.at_ms, ProcessStatus.wall_at_ms).where(of).order_by(ProcessStatus.wall_at_ms.desc())
    ).first()
    spark = (word.at_ms, word.wall_at_ms) if word else (None, None)
    return Freshness(p.started_wall_at_ms, p.ready_wall_at_ms is not None, p.caught_up_at_ms, p.caught_up_wall_at_ms, *spark)
