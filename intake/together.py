"""Readings of several streams, read up to one and the same commit, so that no stream runs ahead of another in what a watch hears.

A ship's own position and her boxes' readings are in different streams. Read one after the other, or cut by rows each for itself, one
would be hours of fleet time ahead in a backlog, and boxes would look silent or astray that are neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from streams.consumers import Polled
from streams.log import LogReader
from streams.records import OFFSET, RECEIVED_AT, Batch
from streams.words import Position

Positions = Mapping[str, Position]


def own_readings(log: LogReader, node: str, since: Positions, rows_max: int) -> dict[str, Polled]:
    """What follows `since` of the readings that `node` took in itself, by stream, all streams up to the same received time.

    About `rows_max` rows a stream; more when one commit holds more. What other nodes appended is left to them.
    """
    ends = log.positions()
    while True:
        polled = {
            stream: _own_rows(log, node, stream, (position, ends.get(stream, Position())), rows_max) for stream, position in since.items()
        }
        cut_short = [one.batches[-1] for stream, one in polled.items() if not _reaches(one.position, ends.get(stream, Position()), node)]
        if not cut_short:
            return polled
        cut_at_ms = min(_last_received_at_ms(batch) for batch in cut_short)
        together = {stream: _received_before(one, since[stream], cut_at_ms) for stream, one in polled.items()}
        if any(one.position != since[stream] for stream, one in together.items()):
            return together
        rows_max *= 2


def _own_rows(log: LogReader, node: str, stream: str, span: tuple[Position, Position], room: int) -> Polled:
    position, ends = span
    batches: list[Batch] = []
    for origin, end in ends.items():
        if origin.node == node and room and end > position[origin]:
            until = min(end, position[origin] + room)
            batches += log.run(stream, origin, position[origin], until)
            room -= until - position[origin]
            position = position.advanced(origin, until)
    return Polled(tuple(batches), position)


def _reaches(position: Position, ends: Position, node: str) -> bool:
    return all(position[origin] >= end for origin, end in ends.items() if origin.node == node)


def _last_received_at_ms(batch: Batch) -> int:
    received = batch.records.column(RECEIVED_AT)
    return int(received[len(received) - 1].as_py())


def _received_before(polled: Polled, since: Position, at_ms: int) -> Polled:
    position = since
    batches: list[Batch] = []
    for batch in polled.batches:
        kept = int(np.searchsorted(batch.records.column(RECEIVED_AT).to_numpy(), at_ms))
        if kept:
            batches.append(replace(batch, records=batch.records.slice(0, kept)))
            position = position.advanced(batch.origin, batch.records.column(OFFSET)[kept - 1].as_py() + 1)
    return Polled(tuple(batches), position)
