"""Penalties of peers. A peer that broke the rules of a session is admitted, and dialled, again after a pause, which grows each time.
Repeated reports about one peer are made ever more seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams.replication import BROKE_RULES, OTHER_VERSION
from streams.replication.sync_messages import Refuse

FIRST_S, MOST_S = 1.0, 60.0
"""First and longest pause of a peer that breaks the rules, seconds: FIRST_S, then twice as long each time, up to MOST_S."""
FORGIVEN_S = 600.0
"""Time without a broken rule after which a peer's pause begins at FIRST_S again, seconds."""
REPORTED_AT_ONCE = 64
"""The number of reports of one reason about a peer that are made as they come."""
REPORTED_AGAIN_S, SELDOM_S = 60.0, 3_600.0
"""First and longest time between two further reports, seconds. It doubles each time; after SELDOM_S without any report it starts again."""


@dataclass(slots=True)
class _PeerReports:
    """The reports about one peer for one reason: how many were made at once, how many were not made since the last, and when the next is
    due.
    """

    reported: int = 0
    unreported: int = 0
    wait_s: float = REPORTED_AGAIN_S
    due_s: float = 0.0
    last_s: float = 0.0


class Barred:
    """The penalties of the peers of one node. What a peer does wrong is reported in `exceptions`; a peer that comes again at once could
    fill the disk with it.
    """

    def __init__(self, now_s: Callable[[], float], report: Callable[..., None]) -> None:
        self._now_s, self._report = now_s, report
        self._peers: dict[str, tuple[float, float]] = {}
        self._reports: dict[tuple[str, str], _PeerReports] = {}

    def heard(self, peer: str, reason: str, outcome: str, details: dict[str, Any]) -> None:
        """Report in `exceptions` what a session with `peer`, a known one, reports; or count it until the next report that is made
        (`not_told`).
        """
        if reason in (BROKE_RULES, OTHER_VERSION):
            self.broke(peer)
        now_s, reports = self._now_s(), self._reports.setdefault((peer, reason), _PeerReports())
        if now_s - reports.last_s > SELDOM_S:
            reports.reported, reports.wait_s = 0, REPORTED_AGAIN_S
        reports.last_s = now_s
        if reports.reported < REPORTED_AT_ONCE:
            reports.reported, reports.due_s = reports.reported + 1, now_s + REPORTED_AGAIN_S
        elif now_s < reports.due_s:
            reports.unreported += 1
            return
        else:
            reports.wait_s = min(2 * reports.wait_s, SELDOM_S)
            reports.due_s = now_s + reports.wait_s
        if reports.unreported:
            details = {**details, "not_told": reports.unreported}
        reports.unreported = 0
        self._report(reason, outcome, **details)

    def broke(self, peer: str) -> None:
        """Record that `peer`, a known peer, has broken the rules now."""
        now_s = self._now_s()
        until_s, wait_s = self._peers.get(peer, (now_s, 0.0))
        wait_s = min(2 * wait_s, MOST_S) if wait_s and now_s - until_s < FORGIVEN_S else FIRST_S
        self._peers[peer] = now_s + wait_s, wait_s

    def refusal(self, peer: str) -> Refuse | None:
        """Return the refusal of a peer that is turned away now; None for one that is not."""
        left_s = self._peers.get(peer, (0.0, 0.0))[0] - self._now_s()
        sentence = f"'{peer}' broke the rules of the sync session: it may come again in {left_s:.0f} s"
        return Refuse(sentence, code="peer_barred") if left_s > 0 else None
