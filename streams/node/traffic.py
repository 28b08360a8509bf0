"""What has passed the links of each class since the node started, and what that cost, budget or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streams.budget import Tariff
from streams.policy import LinkClass


@dataclass(slots=True)
class Tally:
    """Bytes of WebSocket frames, as `Wire` counts them. `paid_bytes`: those both ways of links dialled here, who dials pays."""

    sent_bytes: int = 0
    received_bytes: int = 0
    paid_bytes: int = 0

    def add(self, sent_bytes: int, received_bytes: int, dialled_here: bool) -> None:
        """One session's, or what there has been of it until now."""
        self.sent_bytes += sent_bytes
        self.received_bytes += received_bytes
        self.paid_bytes += (sent_bytes + received_bytes) * dialled_here


Passed = tuple[LinkClass, int, int, bool]
"""What passed in one session: class of link, bytes sent, bytes received, whether it was dialled here."""


class Traffic:
    """Counts sessions that have ended. Kept in memory: of a link with a budget, its budget says what each day cost, whatever dies."""

    def __init__(self, tariffs: Mapping[LinkClass, Tariff], since_at_ms: int) -> None:
        """`tariffs`: of the classes that have one. `since_at_ms`: now, by the wall's clock, UTC."""
        self._tariffs, self._since_at_ms = tariffs, since_at_ms
        self._ended: dict[LinkClass, Tally] = {}

    def ended(self, passed: Passed) -> None:
        """That session is over."""
        self._ended.setdefault(passed[0], Tally()).add(*passed[1:])

    def status(self, live: Iterable[Passed]) -> dict[str, dict[str, Any]]:
        """Per class of link that was ever up, with the sessions that are: since when it is counted, bytes each way, and their cost; None
        where no price is set."""
        tallies = {link: Tally(one.sent_bytes, one.received_bytes, one.paid_bytes) for link, one in self._ended.items()}
        for passed in live:
            tallies.setdefault(passed[0], Tally()).add(*passed[1:])
        return {link: self._told(link, tally) for link, tally in sorted(tallies.items())}

    def _told(self, link: LinkClass, tally: Tally) -> dict[str, Any]:
        tariff = self._tariffs.get(link, Tariff())
        cost = round(tariff.cost(tariff.charge(tally.paid_bytes)), 4) if tariff.price_per_mb else None
        counts = {"sent_bytes": tally.sent_bytes, "received_bytes": tally.received_bytes}
        return {"since_wall_at_ms": self._since_at_ms, **counts, "cost": cost}
