"""Devices whose clock stands still: what they say again with the same time is no repeat, though nothing in it differs.

The same reading comes again for a reason: another gateway heard it too, or a gateway without an acknowledgement sends it once more, soon
or when it is back. A device that goes on saying one and the same time, or none, is alive, and its clock is not. It is believed from the
third time on that it speaks, each time SAME_AGAIN_S after the time before or later: once says nothing. From the second on it is where it
says no time, or one that can not be true and it said no other: such a clock has stopped, whether or not a reading comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cargo.loss.event_time import SOUND_MS, TrackerClock

SAME_AGAIN_S = 45.0
"""What equals something that came less than this ago (wall, monotone s) is a repeat: another gateway heard it, or it is brought again. Less
than the interval of storm mode."""
BELIEVED_AT = 3
"""How often a device has to speak with one and the same time before its clock is held to stand still. Twice is in real data, minutes apart
(`tests/sim/test_replay_ship.py`), and what a gateway does that starts again with its newest reading."""
BELIEVED_AT_ONCE = 2
"""The same where its time alone shows that."""
CONTENTS_MAX = 8
"""Of what a device says with one and the same time so many, the last, are remembered."""
Said = tuple[bytes, float]
"""The identity of a reading, and when it last counted (monotone s)."""
Voice = tuple[int | None, int, float, tuple[Said, ...], bool]
"""The time that a device said last (UTC ms; None: none), how often it spoke with it, when that counted last, what it said then, and whether
it has said another time before."""
Word = tuple[int | None, float, bytes, bool]
"""A voice that has spoken with its time once, as nearly all have: that time, when that was (monotone s), what it said then, and whether it
has said another time before. Of 24,000 devices that is 3 MiB less."""


CLOCKS_MAX = 32_768
"""Maximum number of clocks that are remembered; the one that came late first is forgotten first."""


class FallenClocks:
    """The clocks of devices whose readings come late, as this node took them in. Devices are known by a number, `whose`."""

    def __init__(self) -> None:
        self._clocks: dict[int, TrackerClock] = {}

    def note(self, whose: Sequence[int], times_ms: Sequence[int | None], received_at_ms: Iterable[int]) -> set[int]:
        """Take in readings in the order in which they came: by their device's clock (None: it says no time) and by ours, UTC ms.

        Returns, by their place, those of clocks that fell back (`cargo.loss.event_time.TrackerClock`).
        """
        fallen: set[int] = set()
        for row, (one, at_ms, came_ms) in enumerate(zip(whose, times_ms, received_at_ms, strict=False)):
            if at_ms is None or (came_ms - at_ms <= SOUND_MS and one not in self._clocks):
                continue
            if came_ms - at_ms <= SOUND_MS:
                del self._clocks[one]
            elif self._clock(one).corrected_at_ms(came_ms, at_ms) > at_ms:
                fallen.add(row)
        return fallen

    def _clock(self, whose: int) -> TrackerClock:
        known = self._clocks.get(whose)
        if known is None:
            if len(self._clocks) >= CLOCKS_MAX:
                del self._clocks[next(iter(self._clocks))]
            known = self._clocks[whose] = TrackerClock()
        return known


class LastSaid:
    """Of each device what it said with the last time that it said, as this node itself took it in: of those `devices_max` devices at least,
    and fewer than twice as many, that spoke last. Devices have a number each, `whose`. `fallen`: the clocks of those that come late."""

    def __init__(self, devices_max: int) -> None:
        self.fallen = FallenClocks()
        self._devices_max = devices_max
        self._recent: dict[int, Voice | Word] = {}
        self._older: dict[int, Voice | Word] = {}

    def note(
        self,
        whose: Sequence[int],
        times_ms: Sequence[int | None],
        identities: Sequence[bytes],
        came_s: Iterable[float],
        true_from_ms: int | None = None,
    ) -> list[int]:
        """These came, in this order, and MQTT calls none of them one sent again that came before; one element of each a reading, `times_ms`
        by the device's clock (UTC ms; None: it says none), `came_s` by ours (monotone s). Before `true_from_ms` (UTC ms) none can be true.

        Returns which of them, by their place, are said again by a device whose clock stands still.
        """
        recent, older = self._recent, self._older
        again: list[int] = []
        for row, (one, at_ms, identity, now_s) in enumerate(zip(whose, times_ms, identities, came_s, strict=False)):
            before = recent.get(one) or older.get(one)
            if before is None or before[0] != at_ms:
                recent[one] = at_ms, now_s, identity, before is not None
            else:
                voice = before if len(before) == 5 else _voice(*before)
                after = recent[one] = _goes_on(voice, identity, now_s)
                if _is_believed(voice, after, identity, now_s, true_from_ms):
                    again.append(row)
        self._age()
        return again

    def _age(self) -> None:
        if len(self._recent) >= self._devices_max:
            self._older, self._recent = self._recent, {}


def _voice(at_ms: int | None, came_s: float, identity: bytes, moved: bool) -> Voice:
    return at_ms, 1, came_s, ((identity, came_s),), moved


def _is_believed(before: Voice, after: Voice, identity: bytes, now_s: float, true_from_ms: int | None) -> bool:
    """Whether a device that spoke `before` with this very time says `identity` again, or may, and is one whose clock stands still."""
    at_ms, times, _, _, moved = after
    never_true = at_ms is None or (not moved and true_from_ms is not None and at_ms < true_from_ms)
    if times < (BELIEVED_AT_ONCE if never_true else BELIEVED_AT):
        return False
    forgotten_s = float("-inf") if len(before[3]) == CONTENTS_MAX else now_s
    return now_s - next((when_s for one, when_s in before[3] if one == identity), forgotten_s) >= SAME_AGAIN_S


def _goes_on(before: Voice, identity: bytes, now_s: float) -> Voice:
    """The device speaks once more with the same time: what comes sooner than SAME_AGAIN_S is of what it said before."""
    at_ms, times, last_s, said, moved = before
    if now_s - last_s >= SAME_AGAIN_S:
        times, last_s = times + 1, now_s
    found = next((one for one in said if one[0] == identity), None)
    if found is None:
        said = (*said[-CONTENTS_MAX + 1 :], (identity, now_s))
    elif now_s - found[1] >= SAME_AGAIN_S:
        said = (*(one for one in said if one is not found), (identity, now_s))
    return at_ms, times, last_s, said, moved
