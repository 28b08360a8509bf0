"""Time among the readings that a node receives: one trusted clock, and a correction of each device's own clock.

The trusted clock follows the ship's own location and environment readings, and the median of the last devices' times. So no single wrong
clock moves it. It never goes beyond the arrival of the reading that moves it. Order times never run more than 5 minutes ahead of the node's
own clock (`streams.model.records.order_at_ms`), which bounds both. In between, it advances with the arrivals: the median device's time,
plus the time that has passed by the node's clock since that arrived."""

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
"""Number of last devices whose median time is accepted."""
STANDS_MS = 60_000
"""Maximum time that counts as passed after the last arrival, milliseconds: a node that receives nothing knows of no silence."""
GAP_MS = 10 * 60_000
"""Maximum time that counts as passed between two arrivals, milliseconds.

The ship's own sensors report at least once in this time. After a longer gap the node was away, and stored readings may still come."""
PROMPT_MS = 60_000
"""Maximum delay of a reading that was not stored on the way, milliseconds: such arrivals show how time passes."""
SOUND_MS = 20 * 60_000
"""Maximum lag behind the trusted clock at which a reading's time is accepted, ms: the clock may stand for 15 minutes between two
readings."""
BELIEVED_AHEAD_MS = 10 * 60_000
"""Maximum time, ms, by which a record may claim to be later than its admission: two clocks, and the minute of their accuracy."""
OLD_MS = 180 * 86_400_000
"""Readings whose device time is longer ago than this raise no alarm, unless the device's clock is known to be wrong."""
AHEAD_MS = 24 * 3_600_000
"""Maximum distance of a corrected time ahead of the trusted clock. Beyond it the node's own clock is wrong, and nothing is corrected."""
CORRECTED = "corrected_at_ms"
"""Field in the body of a customer's copy: when a reading flagged CLOCK_BACK was first received, UTC ms."""
REPORT_MS = 60_000
"""Messages of one device that are received within this time are one report."""
BACK_MESSAGES, BACK_REPORTS = 3, 2
"""Minimum number of single messages in a row, and of reports that they are of, that show that a device's clock fell back."""
BACK_RATE = 0.1
"""Maximum share by which a device's clock may advance more or less than the received time, between two of these messages."""
DEVICES_MAX = 200_000
"""Maximum clocks remembered: made-up names of devices take no more memory than that."""


def believed_at_ms(at_ms: pa.ChunkedArray, admitted_at_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the times of records (UTC ms) as the newest states and ages use them: none later than BELIEVED_AHEAD_MS after admission.

    A null admission time gives no bound. Without the bound, a reading dated years ahead stays the newest for years. A history keeps its
    order."""
    return pc.min_element_wise(at_ms, pc.add(admitted_at_ms, BELIEVED_AHEAD_MS))


def corrected_at_ms(records: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """Return the times of records (UTC ms): their order times, and the received times of those that are flagged CLOCK_BACK."""
    return pc.if_else(pa.array(flagged(records, {CLOCK_BACK})), records.column("received_at_ms"), records.column("order_at_ms"))


def corrected_time(order_at_ms: int, body: Mapping[str, Any]) -> int:
    """Return the time (UTC ms) of a customer's copy of a reading: its order time, or CORRECTED where it is flagged CLOCK_BACK."""
    flags, at_ms = body.get("flags"), body.get(CORRECTED)
    return at_ms if isinstance(flags, list) and CLOCK_BACK in flags and isinstance(at_ms, int) else order_at_ms


def are_old(records: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each row whether it is too old for an alarm: its device time is older than OLD_MS, and its clock is not known to be
    wrong."""
    is_old = pc.less(records.column("device_at_ms"), pc.subtract(records.column("received_at_ms"), OLD_MS)).fill_null(False)
    return np.asarray(is_old, np.bool_) & ~flagged(records, {CLOCK_BACK, CLOCK_STOPPED})


class TrackerClock(msgspec.Struct):
    """Decision on whether the clock of one device fell back, from the received and device times of its messages alone (UTC ms).

    A clock fell back when BACK_MESSAGES single messages in a row, of BACK_REPORTS reports, come more than SOUND_MS late, and the device
    time advances between them as the received time does. Stored messages do not advance so: they come in an array (all received at one
    time), newest first, or faster than they were measured. A store that sends single messages in order, as fast as they were measured,
    looks like a clock that fell back.

    `received_at_ms`, `device_at_ms`: the first message of the last report that counted; `messages`, `reports`: how many in a row advanced
    so; `behind_ms`: by how much the clock is behind (0: it did not fall back); `stands`: the last reports had the same device time."""

    received_at_ms: int = 0
    device_at_ms: int = 0
    messages: int = 0
    reports: int = 0
    behind_ms: int = 0
    stands: bool = False

    def corrected_at_ms(self, received_at_ms: int, device_at_ms: int) -> int:
        """Process one message and return its time: the device time, corrected when the clock fell back.

        The time is not corrected where the message is SOUND_MS later than others. Messages that are older by their received time change
        nothing."""
        if received_at_ms >= self.received_at_ms:
            self._take(received_at_ms, device_at_ms)
        at_ms = device_at_ms + self.behind_ms
        is_of_now = self.behind_ms > 0 and abs(received_at_ms - at_ms) <= SOUND_MS
        return min(at_ms, received_at_ms) if is_of_now else device_at_ms

    def is_wrong(self) -> bool:
        """Return whether the received time is the time of the device's messages, whatever its clock reports."""
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
    """State of one device's clock.

    When it was last heard, when it was last sound, by how much it is behind the trusted clock since it was first heard (0: sound), and
    whether it fell back (None: no reading of it came late)."""

    heard_at_ms: int = 0
    sound_at_ms: int = 0
    behind_ms: int = 0
    tracker: TrackerClock | None = None

    def corrected_at_ms(self, heard: Heard) -> int:
        """Return the time of a reading by `TrackerClock`; its order time where the device gives none."""
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
        """Advance the clock by one reading and return the time of the reading, UTC ms.

        A device that is hours behind is corrected by its smallest lag. A device known to be sound that comes hours behind is late, and
        keeps its time."""
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
        """Return a reading without its signals when it is too old for an alarm (as `are_old`), else as it is.

        Such a reading shows that its device reports; nothing else is known about today."""
        now_ms = min(heard.received_at_ms, self.now_at_ms)  # the node's own clock may be ahead
        if heard.device_at_ms is None or heard.device_at_ms >= now_ms - OLD_MS:
            return heard
        known = self.devices.get(heard.device)
        is_wrong = known is not None and known.tracker is not None and known.tracker.is_wrong()
        return heard if is_wrong else msgspec.structs.replace(heard, signals={})

    def advance(self, at_ms: int) -> None:
        """Advance the clock to at least `at_ms`."""
        self.now_at_ms = max(self.now_at_ms, at_ms)

    def arrive(self, at_ms: int) -> None:
        """Record that all that had come by `at_ms` (UTC ms by the node's clock) has been processed: time has passed since each arrival."""
        if self.prompt:
            until_ms = self.arrived_at_ms if self.resumes_at_ms else min(at_ms, self.arrived_at_ms + STANDS_MS)
            self.listened_at_ms = max(self.listened_at_ms, until_ms)
            self.now_at_ms = max(self.now_at_ms, until_ms - self._behind_ms())

    def arrives_ms(self, at_ms: int) -> int | None:
        """Return when (UTC ms by the node's clock) this clock will be at `at_ms` although nothing more comes; None: never."""
        if not self.prompt or self.resumes_at_ms:
            return None
        comes_ms = at_ms + self._behind_ms()
        return comes_ms if comes_ms <= self.arrived_at_ms + STANDS_MS else None

    def resume(self, at_ms: int) -> None:
        """Record that the node was down, and listens again from `at_ms` on (UTC ms by its clock).

        The time after the last arrival passed without reception, so this clock stands until something comes."""
        if 0 < self.listened_at_ms < at_ms:
            self.ended_at_ms, self.resumes_at_ms = self.listened_at_ms, at_ms

    def unheard(self, heard: Heard) -> tuple[int, int] | None:
        """Return the span before this reading in which no node listened (UTC ms by the node's clock), where that shows now.

        Call this before `hear`. The span ends at the first reading that another node received while this one was down. A second span goes
        from the last of these until this node listened again."""
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
        """Return how far the median of the last prompt devices is behind the arrivals; 0 where it is ahead."""
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
        """Remove the half of the devices that was heard longest ago: a removed device that reports again is new."""
        by_hearing = sorted(self.devices.items(), key=lambda item: item[1].heard_at_ms)
        self.devices = dict(by_hearing[len(by_hearing) // 2 :])


def _is_prompt(heard: Heard) -> bool:
    return abs(heard.received_at_ms - heard.order_at_ms) <= PROMPT_MS


def _note_last(last: dict[str, Any], device: str, noted: int | tuple[int, int]) -> None:
    """Record this device as the last of QUORUM."""
    last.pop(device, None)
    last[device] = noted
    if len(last) > QUORUM:
        del last[next(iter(last))]


def _middle(values: list[int]) -> int:
    """Return the median; of two, the smaller."""
    return sorted(values)[(len(values) - 1) // 2]
