"""Headquarters' log for the fan-out's tests, and what of it must be in Kafka."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path

from cargo.vocabulary.trade_codes import make_container
from landfall.storage.file_blocks import FileLogReader
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Coordinates
from streams.model.records import Record, to_batch
from tests.fanout.kafka import Reader

NOW_MS = 1_777_593_600_000
DUCKS = tuple(make_container("DUCU", serial) for serial in range(100, 103))
OTHERS = tuple(make_container("MSKU", serial) for serial in range(200, 203))


class Headquarters:
    """A log that is written to while the fan-out reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "hq"
        self.log = FileLog(self.folder, folder / "hq.marker", "hq", BlockCodec(), StillClock(NOW_MS))
        self._steps = 0

    def reader(self) -> FileLogReader:
        """Another process's view of the log; it is closed when nothing refers to this object any more."""
        reader = FileLogReader(self.folder, BlockCodec())
        weakref.finalize(self, reader.close)
        return reader

    def append(self, stream: str, records: Sequence[Record]) -> list[Coordinates]:
        """Durable at headquarters."""
        answer = self.log.append([Append(stream, to_batch(records))])[0]
        return [Coordinates(stream, answer.origin, offset) for offset in range(answer.first, answer.first + answer.count)]

    def readings(self, containers: Sequence[str], count: int = 5) -> list[Coordinates]:
        """`count` readings of each box."""
        self._steps += count
        return self.append(
            "containers",
            [
                Record(box, f"TRK-{box}", NOW_MS + 1_000 * (self._steps + n), {"return_c": 4.0 + n, "power_on": True}, {"firmware": "1.2"})
                for n in range(count)
                for box in containers
            ],
        )

    def everything(self) -> list[Coordinates]:
        """One batch of each stream that is fanned out, and of one that is not."""
        read = self.readings([*DUCKS, *OTHERS])
        alerts = self.append("alerts", [Record(DUCKS[0], body={"alert_id": f"a{self._steps}", "title": "Überbord", "state": "raised"})])
        events = self.append("events", [Record(OTHERS[0], body={"event": "LOAD"})])
        ships = self.append("ships", [Record("9321483.location", "GPS", NOW_MS, {"latitude_deg": -33.9})])
        shared = self.share("ducks", read[:3], DUCKS) + self.share("machines", read[3:6], OTHERS)
        self.append("registry", [Record("customer/ducks", body={"type": "customer", "id": "ducks"})])
        return [*read, *alerts, *events, *ships, *shared]

    def share(self, customer: str, sources: Sequence[Coordinates], boxes: Sequence[str]) -> list[Coordinates]:
        """What Spark writes for a customer."""
        records = [Record(box, f"TRK-{box}", NOW_MS, {"return_c": 4.0}, None, source) for box, source in zip(boxes, sources, strict=True)]
        return self.append(f"customers/{customer}", records)


def plain(coordinates: Sequence[Coordinates]) -> list[tuple[str, str, int]]:
    """(stream, origin, offset), sorted: as a consumer's messages name them."""
    return sorted((one.stream, str(one.origin), one.offset) for one in coordinates)


def of(reader: Reader, hq: Headquarters) -> list[tuple[str, str, int]]:
    """What the reader heard of this very log."""
    return [one for one in reader.coordinates() if one[1] == str(hq.log.origin)]
