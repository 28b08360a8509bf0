"""Headquarters' log, opened for reading by a process that may have started before the node that makes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from streams.codec import BlockCodec
from streams.errors import RetryLater, Trimmed
from streams.log import LogReader
from streams.logs.kinds import AnyReader, open_reader
from streams.metrics import Metrics
from streams.records import Batch
from streams.words import Position

THERE_WITHIN_S = 60.0
LOOK_EVERY_S = 0.1


def opened_log(folder: Path, within_s: float = THERE_WITHIN_S) -> AnyReader:
    """A reader of the log in `folder`, waited for. Raises RetryLater when there is none within `within_s`."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            return open_reader(folder, BlockCodec())
        except FileNotFoundError:
            if time.monotonic() > deadline_s:
                raise RetryLater(f"there is no log in {folder}", hint="start headquarters' node first, or mend the setting") from None
        time.sleep(LOOK_EVERY_S)


def read_on(reader: LogReader, stream: str, position: Position, metrics: Metrics) -> Iterator[Batch]:
    """As `reader.read`. What lies below the floor of this copy is counted as `trimmed` and passed over: it is nowhere here."""
    try:
        yield from reader.read(stream, position)
    except Trimmed:
        floors = Position({origin: one.floor for origin, one in reader.ledger(stream).items()})
        metrics.count("trimmed")
        yield from reader.read(stream, position.merged(floors))
