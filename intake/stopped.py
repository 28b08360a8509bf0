"""Devices whose clock stands still: what they say again with the same time is no repeat, though nothing in it differs.

The same reading comes again for a reason: another gateway heard it too, or one that was not told of its arrival brings it once more, soon
or when it is back. A device that goes on saying one and the same time, or none, is alive, and its clock is not. Once says nothing: from the
third time on that it speaks, each time SAME_AGAIN_S after the time before or later, it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SAME_AGAIN_S = 45.0
"""What equals something that came less than this ago (wall, monotone s) is a repeat: another gateway heard it, or it is brought again. Less
than the interval of storm mode."""
BELIEVED_AT = 3
"""How often a device has to speak with one and the same time before its clock is held to stand still. Twice is in real data, minutes apart
(`tests/sim/test_replay_ship.py`), and what a gateway does that begins anew with its newest reading."""
CONTENTS_MAX = 8
"""Of what a device says with one and the same time so many, the last, are remembered."""
Said = tuple[bytes, float]
"""The identity of a reading, and when it last counted (monotone s)."""
Voice = tuple[int | None, int, float, tuple[Said, ...]]
"""The time that a device said last (UTC ms; None: none), how often it spoke with it, when that counted last, and what it said then."""


class LastSaid:
    """Of each device what it said with the last time that it said, as this node itself took it in: of those `devices_max` devices at least,
    and fewer than twice as many, that spoke last. Devices go by a number, `whose`."""

    def __init__(self, devices_max: int) -> None:
        self._devices_max = devices_max
        self._recent: dict[int, Voice] = {}
        self._older: dict[int, Voice] = {}

    def note(self, whose: Sequence[int], times_ms: Sequence[int | None], identities: Sequence[bytes], came_s: Iterable[float]) -> None:
        """These came, in this order, and were new; one element of each a reading, `times_ms` by the device's clock (UTC ms; None: it says
        none), `came_s` by ours (monotone s)."""
        recent, older = self._recent, self._older
        for one, at_ms, identity, now_s in zip(whose, times_ms, identities, came_s, strict=False):
            before = recent.get(one) or older.get(one)
            if before is None or before[0] != at_ms:
                recent[one] = at_ms, 1, now_s, ((identity, now_s),)
            else:
                recent[one] = _goes_on(before, identity, now_s)
        self._age()

    def stands_still(self, whose: int, at_ms: int | None, identity: bytes, now_s: float) -> bool:
        """Whether this reading, which came before and which MQTT does not call one sent again, is one more of a device whose clock stands
        still. It is noted either way."""
        before = self._recent.get(whose) or self._older.get(whose)
        if before is None or before[0] != at_ms:
            self._recent[whose] = at_ms, 1, now_s, ((identity, now_s),)
            self._age()
            return False
        forgotten_s = float("-inf") if len(before[3]) == CONTENTS_MAX else now_s
        said_s = next((when_s for one, when_s in before[3] if one == identity), forgotten_s)
        after = self._recent[whose] = _goes_on(before, identity, now_s)
        self._age()
        return after[1] >= BELIEVED_AT and now_s - said_s >= SAME_AGAIN_S

    def _age(self) -> None:
        if len(self._recent) >= self._devices_max:
            self._older, self._recent = self._recent, {}


def _goes_on(before: Voice, identity: bytes, now_s: float) -> Voice:
    """The device speaks once more with the same time: what comes sooner than SAME_AGAIN_S is of what it said before."""
    at_ms, times, last_s, said = before
    if now_s - last_s >= SAME_AGAIN_S:
        times, last_s = times + 1, now_s
    found = next((one for one in said if one[0] == identity), None)
    if found is None:
        said = (*said[-CONTENTS_MAX + 1 :], (identity, now_s))
    elif now_s - found[1] >= SAME_AGAIN_S:
        said = (*(one for one in said if one is not found), (identity, now_s))
    return at_ms, times, last_s, said
