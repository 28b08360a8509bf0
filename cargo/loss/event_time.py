"""What time it is among the readings a node hears: one trusted clock, and each device's own clock put right.

The trusted clock follows the ship's own location and environment readings, and the middle of what the last devices said, so that no single
wrong clock moves it, and that never beyond the arrival of the reading that moves it. Order times never run more than 5 minutes ahead of
the node's own clock (`streams.model.records.order_at_ms`), which bounds both. In between it moves on with the arrivals: what the middle
device said, and what has passed by the node's clock since it was heard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cargo.loss.reading_rows import CLOCK_BACK, Heard, flagged
from cargo.vocabulary.reading_identity import CLOCK_STOPPED

QUORUM = 31
"""Of so many last devices the middle one's time is believed."""
STANDS_MS = 60_000
"""After the last arrival no more than so much is taken to have passed: a node that hears nobody knows of no silence."""
GAP_MS = 10 * 60_000
"""Nor between two arrivals more than this, in which the ship's own sensors speak at least once: the node was away, and what was kept may
come yet."""
PROMPT_MS = 60_000
"""Maximum delay of a reading that was not stored on the way, milliseconds: such arrivals show how time passes."""
SOUND_MS = 20 * 60_000
"""A reading this little behind the trusted clock is taken at its word: the clock itself may stand for 15 minutes between two readings."""
BELIEVED_AHEAD_MS = 10 * 60_000
"""So much later than it was taken in a record may say that it is: two clocks, and the minute to which that is kept."""
OLD_MS = 180 * 86_400_000
"""Readings whose device time is longer ago than this raise no alarm, unless the device's clock is known to be wrong."""
AHEAD_MS = 24 * 3_600_000
"""Maximum distance of a corrected time ahead of the trusted clock. Beyond it the node's own clock is wrong, and nothing is corrected."""
CORRECTED = "corrected_at_ms"
"""Where the body of a customer's copy says when a reading flagged CLOCK_BACK was received first, UTC ms."""
REPORT_MS = 60_000
"""Messages of one device that are received within this time are one report."""
BACK_MESSAGES, BACK_REPORTS = 3, 2
"""Minimum number of single messages in a row, and of reports that they are of, that show that a device's clock fell back."""
BACK_RATE = 0.1
"""Maximum share by which a device's clock may advance more or less than the received time, between two of these messages."""
DEVICES_MAX = 200_000
"""Maximum clocks remembered: made-up names of devices take no more memory than that."""


def believed_at_ms(at_ms: pa.ChunkedArray, admitted_at_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    """The times of records (UTC ms) as the newest states and ages use them: none later than BELIEVED_AHEAD_MS after the record was taken
    in (null: no bound). A reading dated years ahead would else stay the newest for years. A history keeps its order all the same.
    """
    return pc.min_element_wise(at_ms, pc.add(admitted_at_ms, BELIEVED_AHEAD_MS))


def corrected_at_ms(records: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """The times that records are of (UTC ms): their order times, and the received times of those that are flagged CLOCK_BACK."""
    return pc.if_else(pa.array(flagged(records, {CLOCK_BACK})), records.column("received_at_ms"), records.column("order_at_ms"))


def corrected_time(order_at_ms: int, body: Mapping[str, Any]) -> int:
    """The time (UTC ms) that a customer's copy of a reading is of: its order time, or CORRECTED where it is flagged CLOCK_BACK."""
    flags, at_ms = body.get("flags"), body.get(CORRECTED)
    return at_ms if isinstance(flags, list) and CLOCK_BACK in flags and isinstance(at_ms, int) else order_at_ms


def are_old(records: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Of each row whether it is too old for an alarm: by its device time more than OLD_MS, by a clock that is not known to be wrong."""
    is_old = pc.less(records.column("device_at_ms"), pc.subtract(records.column("received_at_ms"), OLD_MS)).fill_null(False)
    return np.asarray(is_old, np.bool_) & ~flagged(records, {CLOCK_BACK, CLOCK_STOPPED})


class TrackerClock(msgspec.Struct):
    """Whether the clock of one device fell back, judged by the received time and the device time of its messages alone (UTC ms).

    A clock fell back when BACK_MESSAGES single messages in a row, of BACK_REPORTS reports, come more than SOUND_MS late, and the device
    time advances between them as the received time does. What was stored does not: it comes in an array (all received at one time), newest
    first, or faster than it was measured. A store that sends single messages in order, as fast as they were measured, looks
    like a clock that fell back.

    `received_at_ms`, `device_at_ms`: the first message of the last report that counted; `messages`, `reports`: how many in a row advanced
    so; `behind_ms`: by how much the clock is behind (0: it did not fall back); `stands`: the last reports had one and the same device time.
    """

    received_at_ms: int = 0
    device_at_ms: int = 0
    messages: int = 0
    reports: int = 0
    behind_ms: int = 0
    stands: bool = False

    def corrected_at_ms(self, received_at_ms: int, device_at_ms: int) -> int:
        """Take in one message and return the time it is of: its device time, corrected when the clock fell back and the message is not
        SOUND_MS later than others. Messages that are older by their received time change nothing.
        """
        if received_at_ms >= self.received_at_ms:
            self._take(received_at_ms, device_at_ms)
        at_ms = device_at_ms + self.behind_ms
        is_of_now = self.behind_ms > 0 and abs(received_at_ms - at_ms) <= SOUND_MS
        return min(at_ms, received_at_ms) if is_of_now else device_at_ms

    def is_wrong(self) -> bool:
        """Whether the device's messages are of when they are received, whatever its clock says."""
        return self.behind_ms > 0 or self.stands

    def _take(self, received_at_ms: int, device_at_ms: int) -> None:
        passed_ms, moved_ms = received_at_ms - self.received_at_ms, device_at_ms - self.device_at_ms
        advances = abs(moved_ms - passed_ms) <= passed_ms * BACK_RATE
        if received_at_ms - device_at_ms <= SOUND_MS:
            self.messages = self.reports = self.behind_ms = 0
        elif passed_ms < REPORT_MS:
            if abs(moved_ms - passed_ms) < REPORT_MS and (passed_ms or not moved_ms):
                self.messages += passed_ms > 0 and advances and self.messages > 0
                return  # another message of the same report
            self.messages = self.reports = 0  # an array, or a store that is being emptied
        elif self.messages and advances:
            self.messages, self.reports = self.messages + 1, self.reports + 1
        else:
            self.messages = self.reports = 1
        if self.messages >= BACK_MESSAGES and self.reports >= BACK_REPORTS:
            self.behind_ms = min(received_at_ms - device_at_ms, self.received_at_ms - self.device_at_ms)
        self.stands = not moved_ms and passed_ms >= REPORT_MS
        self.received_at_ms, self.device_at_ms = received_at_ms, device_at_ms


class DeviceClock(msgspec.Struct):
    """What is known of one device's clock: when it was last heard, when it was last sound, by how much it is behind the trusted clock since
    it was first heard (0: sound), and whether it fell back (None: no reading of it came late)."""

    heard_at_ms: int = 0
    sound_at_ms: int = 0
    behind_ms: int = 0
    tracker: TrackerClock | None = None

    def corrected_at_ms(self, heard: Heard) -> int:
        """The time that a reading is of by `TrackerClock`; its order time where the device says none."""
        if heard.device_at_ms is None or (self.tracker is None and heard.received_at_ms - heard.device_at_ms <= SOUND_MS):
            return heard.order_at_ms
        self.tracker = self.tracker or TrackerClock()
        return self.tracker.corrected_at_ms(heard.received_at_ms, heard.device_at_ms)


class EventClock(msgspec.Struct):
    """The trusted clock of a node (`now_at_ms`, UTC ms; 0 before anything was heard). It never goes back.

    `arrived_at_ms`: the last prompt arrival (UTC ms by the node's clock); `stood_ms`: how much of the gaps between them was not counted;
    `listened_at_ms`: the last time by that clock at which the node, or another of its ship or port, is known to have listened;
    `resumes_at_ms`: since when the node listens again, until something comes that came after that; `ended_at_ms`: when it was known to have
    listened last before;
    `recent`: of each of the last devices its latest order time; `prompt`: of each of the last whose readings came promptly its latest order
    time, and how far that was before its arrival, `stood_ms` taken off.
    """

    now_at_ms: int = 0
    arrived_at_ms: int = 0
    stood_ms: int = 0
    listened_at_ms: int = 0
    ended_at_ms: int = 0
    resumes_at_ms: int = 0
    recent: dict[str, int] = {}
    prompt: dict[str, tuple[int, int]] = {}
    devices: dict[str, DeviceClock] = {}

    def hear(self, heard: Heard, *, from_ship: bool) -> int:
        """Moves the clock by one reading and gives the time the reading is of, UTC ms.

        A device that is hours behind is put right by its smallest lag; one known to be sound that comes hours behind is late, and keeps
        its time.
        """
        prompt = _is_prompt(heard)
        if prompt:
            self._arrived(heard.received_at_ms)
        if from_ship:
            self.now_at_ms = max(self.now_at_ms, heard.order_at_ms)
            return heard.order_at_ms
        if prompt:
            known = self.prompt.get(heard.device)
            if known is None or known[0] <= heard.order_at_ms:
                known = (heard.order_at_ms, heard.order_at_ms - heard.received_at_ms + self.stood_ms)
            _note_last(self.prompt, heard.device, known)
        self._quorum(heard)
        return self._put_right(heard)

    def less_old(self, heard: Heard) -> Heard:
        """A reading that was heard, without its signals when it is too old for an alarm (as `are_old`): its device speaks, and nothing else
        is known of today.
        """
        now_ms = min(heard.received_at_ms, self.now_at_ms)  # the node's own clock may be ahead
        if heard.device_at_ms is None or heard.device_at_ms >= now_ms - OLD_MS:
            return heard
        known = self.devices.get(heard.device)
        is_wrong = known is not None and known.tracker is not None and known.tracker.is_wrong()
        return heard if is_wrong else msgspec.structs.replace(heard, signals={})

    def advance(self, at_ms: int) -> None:
        """The clock is at least at `at_ms`."""
        self.now_at_ms = max(self.now_at_ms, at_ms)

    def arrive(self, at_ms: int) -> None:
        """All that had come by `at_ms` (UTC ms by the node's clock) has been heard: time has gone on since each of it came."""
        if self.prompt:
            until_ms = self.arrived_at_ms if self.resumes_at_ms else min(at_ms, self.arrived_at_ms + STANDS_MS)
            self.listened_at_ms = max(self.listened_at_ms, until_ms)
            self.now_at_ms = max(self.now_at_ms, until_ms - self._behind_ms())

    def arrives_ms(self, at_ms: int) -> int | None:
        """When (UTC ms by the node's clock) this clock will be at `at_ms` though nothing more comes; None: never."""
        if not self.prompt or self.resumes_at_ms:
            return None
        comes_ms = at_ms + self._behind_ms()
        return comes_ms if comes_ms <= self.arrived_at_ms + STANDS_MS else None

    def resume(self, at_ms: int) -> None:
        """The node was down, and listens again from `at_ms` on (UTC ms by its clock). What passed after the last arrival passed unheard, so
        this clock stands until something comes."""
        if 0 < self.listened_at_ms < at_ms:
            self.ended_at_ms, self.resumes_at_ms = self.listened_at_ms, at_ms

    def unheard(self, heard: Heard) -> tuple[int, int] | None:
        """In which span before this reading came nobody listened (UTC ms by the node's clock), where that shows now: until the first came
        that another node took in while this one was down; and from the last of these until it listened again. To be asked before `hear`."""
        came_ms = heard.received_at_ms
        if not self.resumes_at_ms or came_ms <= self.listened_at_ms or not _is_prompt(heard):
            return None
        since_ms, resumes_at_ms = self.listened_at_ms, self.resumes_at_ms
        if came_ms > resumes_at_ms:
            self.resumes_at_ms = 0
            return since_ms, resumes_at_ms
        return (since_ms, came_ms) if since_ms == self.ended_at_ms else None

    def _arrived(self, at_ms: int) -> None:
        self.listened_at_ms = max(self.listened_at_ms, at_ms)
        if at_ms > self.arrived_at_ms:
            self.stood_ms += max(0, at_ms - self.arrived_at_ms - GAP_MS) if self.arrived_at_ms else 0
            self.arrived_at_ms = at_ms

    def _behind_ms(self) -> int:
        """How far the middle of the last prompt devices is behind the arrivals; 0 where it is ahead."""
        return max(0, self.stood_ms - _middle([offset for _, offset in self.prompt.values()]))

    def _quorum(self, heard: Heard) -> None:
        _note_last(self.recent, heard.device, max(self.recent.get(heard.device, 0), heard.order_at_ms))
        if heard.order_at_ms > self.now_at_ms:
            self.now_at_ms = max(self.now_at_ms, min(_middle(list(self.recent.values())), heard.received_at_ms))

    def _put_right(self, heard: Heard) -> int:
        clock = self.devices.get(heard.device)
        if clock is None:
            if len(self.devices) >= DEVICES_MAX:
                self._forget_some()
            clock = self.devices[heard.device] = DeviceClock()
        clock.heard_at_ms = self.now_at_ms
        corrected_at_ms = clock.corrected_at_ms(heard)
        lag = self.now_at_ms - heard.order_at_ms
        if lag <= SOUND_MS:
            clock.sound_at_ms = max(clock.sound_at_ms, heard.order_at_ms)
            clock.behind_ms = 0
            return heard.order_at_ms
        if heard.device_at_ms is not None and heard.device_at_ms < corrected_at_ms <= self.now_at_ms + AHEAD_MS:
            return corrected_at_ms
        if clock.behind_ms:
            clock.behind_ms = min(clock.behind_ms, lag)
        elif not clock.sound_at_ms:
            clock.behind_ms = lag
        return heard.order_at_ms + clock.behind_ms

    def _forget_some(self) -> None:
        """The half that was heard longest ago: a device of it that reports again is new."""
        by_hearing = sorted(self.devices.items(), key=lambda item: item[1].heard_at_ms)
        self.devices = dict(by_hearing[len(by_hearing) // 2 :])


def _is_prompt(heard: Heard) -> bool:
    return abs(heard.received_at_ms - heard.order_at_ms) <= PROMPT_MS


def _note_last(last: dict[str, Any], device: str, noted: int | tuple[int, int]) -> None:
    """This device is the last of QUORUM."""
    last.pop(device, None)
    last[device] = noted
    if len(last) > QUORUM:
        del last[next(iter(last))]


def _middle(values: list[int]) -> int:
    """The middle one, of two the smaller."""
    return sorted(values)[(len(values) - 1) // 2]
