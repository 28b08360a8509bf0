"""Our side of a duel: a ship and headquarters as processes, the ship dialling through the proxy."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.duel.frames import Tap
from bench.duel.nodes import Dial, StationNode
from bench.duel.side import Compared, Given, Listener, wait_until
from landfall.storage.file_log import FileLogReader
from streams.codec import BlockCodec
from streams.config.roles import LinkClass
from streams.log import Append
from streams.model.identifiers import Position
from streams.model.records import OFFSET, Record, to_batch
from tests.support.proxy import Proxy

LOADED_S_MAX = 1_800.0


class Ours:
    """`landfall ship` to `landfall port` of headquarters. `link`: the class of link; `rate_bit_s`: what the ship keeps below on it.

    `sender` and `receiver`: other nodes in their place. A ship judges all readings that it takes in. To judge millions of
    readings takes longer than everything else here. Where a bench does not need the judging, the sender is a node without a watch.
    """

    name = "landfall"
    bytes_reading_least = 5.5
    shoreward_is_out = True

    def __init__(self, folder: Path, link: LinkClass, rate_bit_s: int | None = None, sender: str = "ship", receiver: str = "hq") -> None:
        self._sender = sender
        self.hq = StationNode(receiver, folder, links=_links(link, rate_bit_s))
        self.proxy = Proxy(self.hq.port)
        self.tap = Tap()
        self.proxy.ear = self.tap
        self._link, self._rate_bit_s, self._folder = link, rate_bit_s, folder
        self.ship: StationNode | None = None
        self._listener: Listener | None = None
        self._over = False

    def start(self) -> dict[str, Any]:
        """Both under way; the proxy has its port by now."""
        self.ship = StationNode(
            self._sender, self._folder, [Dial(self.hq.name, self.proxy.port, self._link)], _links(self._link, self._rate_bit_s)
        )
        self.hq.start()
        self.ship.start()
        self._listener = Listener(self._listen)
        settings = {
            "sender": self._sender,
            "receiver": self.hq.name,
            "link": self._link,
            "rate_bit_s": self._rate_bit_s,
            "streams": ["*"],
            "metrics_every_s": "off",
        }
        return {"python": platform.python_version(), "settings": settings, "compression": "the log's own blocks"}

    def load(self, given: Given) -> None:
        """Append the readings in large commits through the sender's door; they are then merged as upkeep leaves them at sea.

        If the sender is a ship, its watch also judges the readings.
        """
        ship = self._ship()
        for part in given.parts():
            ship.append("containers", part)
        if ship.role != "ship":
            ship.merge()
        wait_until(ship.rests, "the ship's upkeep rests", LOADED_S_MAX)

    def arrived(self) -> int:
        """By headquarters' Position."""
        return self.hq.held()

    def moved(self) -> int:
        """Bytes of blocks of readings that arrived: readings are there by blocks of tens of thousands."""
        return self.tap.stream_bytes.get("containers", 0)

    def alert(self, number: int) -> None:
        """A box's alert, appended aboard: durable there when it returns, as the watch's own is."""
        now_ms = int(time.time() * 1000)
        body = {
            "alert_id": f"9321483-duel-{number}",
            "rule": "overboard",
            "severity": "critical",
            "state": "raised",
            "at_ms": now_ms,
            "title": "a box has gone overboard",
            "detail": "",
            "ship": "9321483",
            "incident_id": None,
            "slot": "0140682",
            "status": None,
            "position": {"latitude_deg": 31.5, "longitude_deg": 152.25, "basis": "ACTUAL", "at_ms": now_ms},
            "evidence": [],
            "posterior": 0.99,
            "by": None,
            "incident": None,
        }
        self._ship().writer.append([Append("alerts", to_batch([Record("MSKU1234565", "duel", now_ms, {}, body=body)]))])

    def alerts_heard_s(self) -> dict[int, float]:
        """By a reader that hangs at headquarters' door."""
        assert self._listener is not None
        return self._listener.heard

    def compared(self, given: Given) -> Compared:
        """Compare every row at headquarters with the reading that was given at its offset, with one batch in memory at a time."""
        log = FileLogReader(self.hq.folder / self.hq.name / "log", BlockCodec())
        try:
            return compared((batch.records for batch in log.read("containers", Position())), given)
        finally:
            log.close()

    def processes(self) -> dict[str, int]:
        """The two nodes."""
        return {"ship": self._ship().pid, "shore": self.hq.pid}

    def stop(self) -> None:
        """As an operator ends them."""
        self._over = True
        for node in (self.ship, self.hq):
            if node is not None:
                node.stop()

    def _ship(self) -> StationNode:
        assert self.ship is not None
        return self.ship

    def _listen(self, note: Callable[[int], None]) -> None:
        for row in self.hq.follow("alerts", lambda: self._over):
            note(int(row["body"]["alert_id"].rpartition("-")[2]))


def compared(came: Iterable[pa.RecordBatch], given: Given) -> Compared:
    """Compare the rows as they came, in order of their offsets, with the readings that were given at these offsets.

    A row for which no reading was given counts as changed.
    """
    parts, part, begins = given.parts(), None, 0
    end = distinct = twice = changed = 0
    for rows in came:
        offsets = rows.column(OFFSET).to_numpy()
        new = offsets > np.maximum.accumulate(np.concatenate(([end - 1], offsets[:-1])))
        twice += int((~new).sum())
        rows, offsets = rows.filter(pa.array(new)), offsets[new]
        end = max(end, int(offsets.max(initial=-1)) + 1)
        while len(offsets):
            while part is None or offsets[0] >= begins + part.num_rows:
                begins += part.num_rows if part else 0
                part = next(parts, None)
                if part is None:
                    break
            if part is None:
                changed += len(offsets)
                break
            upto = int(np.searchsorted(offsets, begins + part.num_rows))
            distinct += upto
            changed += _differing(part.take(pa.array(offsets[:upto] - begins)), rows.slice(0, upto))
            rows, offsets = rows.slice(upto), offsets[upto:]
    return Compared(given.readings - distinct, twice, changed)


def _differing(given: pa.RecordBatch, came: pa.RecordBatch) -> int:
    """How many rows are not alike in every column that was given."""
    differs = np.zeros(given.num_rows, np.bool_)
    for name in given.schema.names:
        theirs = came.column(name) if name in came.schema.names else pa.nulls(came.num_rows)
        mine = given.column(name).cast(theirs.type)
        same = pc.fill_null(pc.equal(mine, theirs), False)
        nothing = pc.and_(pc.is_null(mine), pc.is_null(theirs))
        differs |= ~pc.or_(same, nothing).to_numpy(zero_copy_only=False)
    return int(differs.sum())


def _links(link: LinkClass, rate_bit_s: int | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"streams": ["*"]}
    return {link: settings | ({"rate_bit_s": rate_bit_s} if rate_bit_s else {})}
