"""The bytes that have passed the links of each class, over all starts of the node, and their cost, with a budget or without."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from landfall.system.replaced_files import replace_file
from streams.config.roles import LinkClass
from streams.link_budget.daily_budget import Tariff

FILE_NAME = "traffic.json"
KEPT_EVERY_S = 10.0
"""Minimum time between two writes of the file, seconds; a killed node loses the count of that time."""
_log = logging.getLogger("landfall.node")


class TrafficTally(msgspec.Struct):
    """Counts of bytes: for links dialled here all bytes at the socket, for others their WebSocket frames, as `Wire` counts them.
    `paid_bytes`: those of the former, both ways, because the dialling side pays.
    """

    sent_bytes: int = 0
    received_bytes: int = 0
    paid_bytes: int = 0

    def add(self, sent_bytes: int, received_bytes: int) -> None:
        """Add this many bytes."""
        self.sent_bytes += sent_bytes
        self.received_bytes += received_bytes


class _Kept(msgspec.Struct):
    since_at_ms: int
    tallies: dict[str, TrafficTally]


Passed = tuple[LinkClass, int, int]
"""Bytes that passed in one session that another node dialled: class of link, bytes sent, bytes received."""


class Traffic:
    """A counter of what passes sockets opened here, and sessions that other nodes dialled, ended and open ones. After a start it continues
    from its last count.
    """

    def __init__(self, folder: Path, tariffs: Mapping[LinkClass, Tariff], now_at_ms: int) -> None:
        """Read the last count. `folder`: the node's, where it is kept; if it does not read, counting starts again. `tariffs`: of the
        classes that have one. `now_at_ms`: by the wall clock, UTC.
        """
        self._path, self._tariffs = folder / FILE_NAME, tariffs
        kept = _read(self._path) or _Kept(now_at_ms, {})
        self._since_at_ms, self._ended, self._kept = kept.since_at_ms, kept.tallies, msgspec.json.encode(kept)
        self._kept_s = -math.inf

    def dialled(self, link: LinkClass, sent_bytes: int, received_bytes: int) -> None:
        """Count bytes that have passed a socket that was opened here for a link of this class."""
        tally = self._ended.setdefault(link, TrafficTally())
        tally.add(sent_bytes, received_bytes)
        tally.paid_bytes += sent_bytes + received_bytes

    def ended(self, passed: Passed) -> None:
        """Count the bytes of a session that is over."""
        self._ended.setdefault(passed[0], TrafficTally()).add(*passed[1:])

    def status(self, live: Iterable[Passed]) -> dict[str, dict[str, Any]]:
        """Return, per class of link that was ever up, with the open sessions: since when it is counted, bytes each way, and their cost;
        None where no price is set.
        """
        return {link: self._fields(link, tally) for link, tally in sorted(self._tallies(live).items())}

    def keep(self, live: Iterable[Passed], now_s: float) -> None:
        """Write the count, with the open sessions, where KEPT_EVERY_S (`now_s`: monotonic) have passed and it has changed."""
        if now_s - self._kept_s < KEPT_EVERY_S:
            return
        data = msgspec.json.encode(_Kept(self._since_at_ms, self._tallies(live)))
        if data != self._kept:
            self._kept_s = now_s
            try:
                replace_file(self._path, data)
                self._kept = data
            except OSError as problem:
                _log.warning("what has passed the links is not written down: %s: %s", self._path, problem)

    def _tallies(self, live: Iterable[Passed]) -> dict[str, TrafficTally]:
        tallies = {link: TrafficTally(one.sent_bytes, one.received_bytes, one.paid_bytes) for link, one in self._ended.items()}
        for passed in live:
            tallies.setdefault(passed[0], TrafficTally()).add(*passed[1:])
        return tallies

    def _fields(self, link: str, tally: TrafficTally) -> dict[str, Any]:
        tariff = next((tariff_ for name, tariff_ in self._tariffs.items() if name == link), Tariff())
        cost = round(tariff.cost(tariff.charge(tally.paid_bytes)), 4) if tariff.price_per_mb else None
        counts = {"sent_bytes": tally.sent_bytes, "received_bytes": tally.received_bytes}
        return {"since_wall_at_ms": self._since_at_ms, **counts, "cost": cost}


def _read(path: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as problem:
        _log.warning("%s does not read, so what passed the links is counted again: %s", path, problem)
        return None
