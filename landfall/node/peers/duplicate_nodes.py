"""Two processes under one node's name, as after an image was copied: their addresses, for the node's operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from streams.model.clock import Clock
from streams.replication.sync_messages import NODE_NAME_TWICE

REASON = "two processes come under one node's name"
REPORTED_EVERY_S = 3_600.0
"""The minimum time between two reports of one name, seconds."""
SHOWN_S = 600.0
"""Time after its last refusal for which a pair is shown in `status`, seconds."""
_HINT = "stop one of them; a copied machine needs a name and a key of its own"


@dataclass(frozen=True, slots=True)
class Twin:
    """A process that was refused at node `refused_by`, because another one of `node` answers there."""

    node: str
    refused_by: str
    standing_address: str
    refused_address: str
    refusals: int
    last_at_ms: int


@dataclass(slots=True)
class _Seen:
    twin: Twin
    last_s: float
    reported_s: float = -math.inf


class Twins:
    """The refusals that one node gave or got. Call it from the node's event loop. It remembers one pair of each known peer."""

    def __init__(self, node: str, clock: Clock, report: Callable[..., None]) -> None:
        """Remember no refusals yet. `node`: this node's name."""
        self._node, self._clock, self._report = node, clock, report
        self._seen: dict[tuple[str, str], _Seen] = {}

    def refused(self, peer: str, standing_address: str, refused_address: str) -> None:
        """Record that this node has refused a process that came as `peer`."""
        self._note(peer, self._node, standing_address, refused_address)

    def refused_there(self, peer: str, details: Mapping[str, Any]) -> None:
        """Record that `peer` has refused this process, with the details of NAME_IN_USE."""
        self._note(self._node, peer, str(details["standing_address"]), str(details["refused_address"]))

    def status(self) -> list[dict[str, Any]]:
        """Return the pairs with a refusal in the last SHOWN_S, each with the fields of Twin."""
        now_s = self._clock.monotonic_s()
        return [asdict(seen.twin) for _, seen in sorted(self._seen.items()) if now_s - seen.last_s < SHOWN_S]

    def update_troubles(self, troubles: dict[str, str]) -> None:
        """Write to `troubles` which processes come under one name, or remove the entry."""
        pairs = [
            f"'{twin['node']}' at {twin['refused_by']}: {twin['standing_address']} and {twin['refused_address']}" for twin in self.status()
        ]
        if pairs:
            troubles[NODE_NAME_TWICE] = f"{REASON} ({'; '.join(pairs)}): {_HINT}"
        else:
            troubles.pop(NODE_NAME_TWICE, None)

    def _note(self, node: str, refused_by: str, standing_address: str, refused_address: str) -> None:
        now_s, before = self._clock.monotonic_s(), self._seen.get((node, refused_by))
        refusals = before.twin.refusals + 1 if before else 1
        twin = Twin(node, refused_by, standing_address, refused_address, refusals, self._clock.now_ms())
        seen = self._seen[node, refused_by] = _Seen(twin, now_s, before.reported_s if before else -math.inf)
        if now_s - seen.reported_s >= REPORTED_EVERY_S:
            seen.reported_s = now_s
            outcome = "the newcomer is refused" if refused_by == self._node else "this process is refused there"
            self._report(REASON, outcome, code=NODE_NAME_TWICE, hint=_HINT, **asdict(twin))
