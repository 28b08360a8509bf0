"""Devices whose clock stands still: a report that such a device repeats with the same time is no repeat, though nothing in it differs.

The same reading comes again for a reason: another gateway received it too, or a gateway without an acknowledgement sends it once more, soon
or when it is back. A device that keeps reporting one and the same time, or none, is alive, and its clock is not.

A clock counts as standing still from the third report with the same time on, each SAME_AGAIN_S or more after the one before: one report
shows nothing. It counts so from the second report on without a time, or with a time that can not be true and no other before. Such a clock
has stopped, whether or not a reading comes twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cargo.loss.event_time import SOUND_MS, TrackerClock

SAME_AGAIN_S = 45.0
"""Age (wall, monotonic s) below which an equal reading is a repeat: another gateway received it, or it is sent again.

It is less than the interval of storm mode."""
BELIEVED_AT = 3
"""Number of reports with the same time from which a device's clock counts as standing still.

Two occur in real data, minutes apart (`tests/sim/test_replay_ship.py`), and when a gateway starts again with its newest reading."""
BELIEVED_AT_ONCE = 2
"""The same number where the time alone shows that the clock stands still."""
CONTENTS_MAX = 8
"""Number of a device's last reports with the same time that are remembered."""
Said = tuple[bytes, float]
"""Identity of a reading, and when it last counted (monotonic s)."""
Voice = tuple[int | None, int, float, tuple[Said, ...], bool]
"""A device's last reported time (UTC ms; None: none), and its reports with it.

Then: the number of reports, when the last one counted, their contents, and whether the device has reported another time before."""
Word = tuple[int | None, float, bytes, bool]
"""A voice with one report of its time, as nearly all have: that time, its arrival (monotonic s), its content, and the same last field.

That field is whether the device has reported another time before. For 24,000 devices this form saves 3 MiB."""


CLOCKS_MAX = 32_768
"""Maximum number of clocks that are remembered; the one that came late first is forgotten first."""


class FallenClocks:
    """Clocks of devices whose readings come late, as this node received them. Devices have a number, `whose`."""

    def __init__(self) -> None:
        self._clocks: dict[int, TrackerClock] = {}

    def note(self, whose: Sequence[int], times_ms: Sequence[int | None], received_at_ms: Iterable[int]) -> set[int]:
        """Process readings in the order of their arrival, and return the places of those whose clock fell back.

        Times by their device's clock (None: without a time) and by ours, UTC ms. See `cargo.loss.event_time.TrackerClock`."""
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
    """Reports of each device with its last reported time, as this node itself received them.

    It holds at least the `devices_max` devices that reported last, and fewer than twice as many. Devices have a number each, `whose`.
    `fallen`: the clocks of those that come late."""

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
        """Process readings in the order of their arrival, and return the places of those repeated by a device whose clock stands still.

        MQTT marks none of them as one sent again that came before. One element of each sequence is a reading: `times_ms` by the device's
        clock (UTC ms; None: without a time), `came_s` by ours (monotonic s). Before `true_from_ms` (UTC ms) no time can be true."""
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
    """Return whether a device with reports `before` of this very time reports `identity` again, or may, and its clock stands still."""
    at_ms, times, _, _, moved = after
    never_true = at_ms is None or (not moved and true_from_ms is not None and at_ms < true_from_ms)
    if times < (BELIEVED_AT_ONCE if never_true else BELIEVED_AT):
        return False
    forgotten_s = float("-inf") if len(before[3]) == CONTENTS_MAX else now_s
    return now_s - next((when_s for one, when_s in before[3] if one == identity), forgotten_s) >= SAME_AGAIN_S


def _goes_on(before: Voice, identity: bytes, now_s: float) -> Voice:
    """Return the voice after one more report with the same time: a report sooner than SAME_AGAIN_S belongs to the one before."""
    at_ms, times, last_s, said, moved = before
    if now_s - last_s >= SAME_AGAIN_S:
        times, last_s = times + 1, now_s
    found = next((one for one in said if one[0] == identity), None)
    if found is None:
        said = (*said[-CONTENTS_MAX + 1 :], (identity, now_s))
    elif now_s - found[1] >= SAME_AGAIN_S:
        said = (*(one for one in said if one is not found), (identity, now_s))
    return at_ms, times, last_s, said, moved
