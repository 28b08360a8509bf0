"""Peers whose session ended because they broke its rules: they are let in, and dialled, again after a while, which grows each time."""

from __future__ import annotations

from collections.abc import Callable

FIRST_S, MOST_S = 1.0, 60.0
"""Who breaks the rules is turned away for FIRST_S, then for twice as long each time, up to MOST_S."""
FORGIVEN_S = 600.0
"""Who has broken none for so long begins at FIRST_S again."""


class Barred:
    """For the links of one node: each breach stands in `exceptions`, and who comes again at once could fill the disk with them."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._peers: dict[str, tuple[float, float]] = {}

    def broke(self, peer: str) -> None:
        """`peer`, a known one, has broken the rules now."""
        now_s = self._now_s()
        until_s, wait_s = self._peers.get(peer, (now_s, 0.0))
        wait_s = min(2 * wait_s, MOST_S) if wait_s and now_s - until_s < FORGIVEN_S else FIRST_S
        self._peers[peer] = now_s + wait_s, wait_s

    def why(self, peer: str) -> str:
        """The sentence for who is turned away now; empty for who is not."""
        left_s = self._peers.get(peer, (0.0, 0.0))[0] - self._now_s()
        return f"'{peer}' broke the rules of the sync session: it may come again in {left_s:.0f} s" if left_s > 0 else ""
