"""Devices whose clock stands still: what they say again with the same time is no repeat, though nothing in it differs.

The same reading comes twice for a reason: another gateway heard it too, or who was not told of its arrival brings it again, soon. A device
that goes on saying one and the same time, or none, by the same gateway, is alive, and its clock is not.
"""

from __future__ import annotations

from collections.abc import Sequence

SAME_AGAIN_S = 120.0
"""What equals something that a device said with its latest time is a repeat for so long (wall, monotone s): who brings it again does so
within this. Two readings of one second, brought twice within minutes, are in real data (`tests/sim/test_replay_ship.py`)."""
CONTENTS_MAX = 8
"""Of what a device says with one and the same time so many are told apart."""
Said = tuple[bytes, str | None, float]
"""The identity of a reading, the gateway that heard it, and when it was last taken in (monotone s)."""


class LastSaid:
    """Of each device what it said with the last time that it said, as this node itself took it in: of those `devices_max` devices at least,
    and fewer than twice as many, that spoke last. Devices go by a number, `whose`."""

    def __init__(self, devices_max: int) -> None:
        self._devices_max = devices_max
        self._recent: dict[int, tuple[int | None, tuple[Said, ...]]] = {}
        self._older: dict[int, tuple[int | None, tuple[Said, ...]]] = {}

    def note(
        self,
        whose: Sequence[int],
        times_ms: Sequence[int | None],
        identities: Sequence[bytes],
        gateways: Sequence[str | None],
        now_s: float,
    ) -> None:
        """These came, in this order; one element of each a reading, `times_ms` by the device's clock (UTC ms; None: it says none)."""
        recent = self._recent
        for one, at_ms, identity, gateway in zip(whose, times_ms, identities, gateways, strict=True):
            before = recent.get(one) or self._older.get(one)
            if before is None or before[0] is None or at_ms is None or at_ms > before[0]:
                same = before is not None and before[0] == at_ms
            elif at_ms == before[0]:
                same = True
            else:
                continue  # late: it says nothing of the clock
            said: tuple[Said, ...] = ((identity, gateway, now_s),)
            if same and before is not None:
                others = tuple(other for other in before[1] if (other[0], other[1]) != (identity, gateway))
                said = others[-CONTENTS_MAX + 1 :] + said
            recent[one] = at_ms, said
        if len(recent) >= self._devices_max:
            self._older, self._recent = recent, {}

    def note_repeat(self, whose: int, at_ms: int | None, identity: bytes, gateway: str | None, now_s: float) -> None:
        """A repeat came, maybe by a gateway that had not heard it yet."""
        said_at_ms, said = self._of(whose)
        if said_at_ms == at_ms and said and all((one, heard_by) != (identity, gateway) for one, heard_by, _ in said):
            self._recent[whose] = at_ms, (*said[-CONTENTS_MAX + 1 :], (identity, gateway, now_s))

    def stands_still(self, whose: int, at_ms: int | None, identity: bytes, gateway: str | None, now_s: float) -> bool:
        """Whether this reading, which is known and which MQTT does not call one brought again, is one more of a device whose clock stopped:
        this node took it in SAME_AGAIN_S ago or longer, by the same gateway, and the device has said no later time since."""
        said_at_ms, said = self._of(whose)
        if said_at_ms != at_ms:
            return False
        came_s = next((when for one, heard_by, when in said if (one, heard_by) == (identity, gateway)), now_s)
        return now_s > came_s and now_s - came_s >= SAME_AGAIN_S

    def _of(self, whose: int) -> tuple[int | None, tuple[Said, ...]]:
        return self._recent.get(whose) or self._older.get(whose) or (None, ())
