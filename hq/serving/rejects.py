"""Records the projector set aside, told to `exceptions` once each."""

from __future__ import annotations

from sqlalchemy import Connection, select

from hq.serving.models import Rejected
from landfall.runtime.telemetry_client import failure
from streams.log import Append

FAILURES_AT_ONCE_MAX = 100
Told = dict[tuple[str, str], int]
"""(stream, origin) → one past the last offset told."""


def untold(connection: Connection, told: Told, process: str, at_ms: int) -> tuple[list[Append], Told]:
    """Appends for rejected records beyond `told`, and what is told when they are durable.

    Told again by another process or after a rebuild they change nothing: producer and sequence name the record itself.
    """
    appends: list[Append] = []
    reached = dict(told)
    for row in connection.execute(select(Rejected.__table__).order_by(Rejected.stream, Rejected.origin, Rejected.offset)):
        of = (row.stream, row.origin)
        if row.offset < reached.get(of, 0) or len(appends) == FAILURES_AT_ONCE_MAX:
            continue
        reason = f"{row.stream}:{row.origin}:{row.offset} about {row.topic} is set aside: {row.reason}"
        appends.append(failure(process, reason, row.body or "", at_ms, (f"{process}/{row.stream}/{row.origin}", row.offset + 1)))
        reached[of] = row.offset + 1
    return appends, reached
