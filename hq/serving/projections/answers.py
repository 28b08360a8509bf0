"""What ships answered when they were asked: the readings and events themselves, which are there before all that lies before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from hq.serving.projections.readings import project_events, project_readings
from hq.serving.projections.shape import Projection, reject
from hq.serving.rows import record_rows
from streams.codec import BlockCodec
from streams.model.records import Batch, read_body
from streams.row_subset import unpack

_OF: Mapping[str, Projection] = {"containers": project_readings, "events": project_events}
"""Projections of the streams in an answer. Other streams have no rows: `landfall log history` shows what thinning kept."""
_CODEC = BlockCodec()


def project_answers(connection: Connection, batch: Batch, own: Callable[[Batch], Batch]) -> None:
    """Write `answers`: the rows of each record, under their own coordinates, so that they are there already when they come by themselves.

    What a ship says in addition has no rows. A record that does not read, or that a node other than its writer brings, is set aside; rows
    that their writer may not write (`own`) are left out.
    """
    for row in record_rows(batch):
        try:
            body = read_body(row["body"])
            if "block" not in body:
                continue
            picked = unpack(_CODEC, body)
            if picked.origin.node != batch.origin.node:
                raise ValueError(f"'{batch.origin.node}' brings what '{picked.origin.node}' wrote")
        except ValueError as problem:
            reject(connection, row, str(problem))
            continue
        if picked.stream in _OF:
            _OF[picked.stream](connection, own(picked))
