"""Boxes whose messages are due within seconds and are missing, so that a lost box is noticed within half a minute.

After a blow, a device keeps reporting by itself, and announces that. Boxes near a blow in heavy motion are called to report every few
seconds. The node calls (`cargo.rules.storm_mode`), the watch counts.

A call that no box answers shows nothing. A box counts as listening once it has answered in this storm, and as missed when it does not
answer while others of its gateway do. For a struck box that does neither, those that were struck with it count. So the result depends on
readings alone, and is the same ashore, after a restart, and aboard a node that did not call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from cargo.loss.container_state import Box
from cargo.loss.loss_classifier import (
    CALL_SILENCE_MS,
    CALL_STRUCK_SILENCE_MS,
    GONE_STATES,
    INTERVALS_MISSING,
    KINEMATIC_WINDOW_MS,
    LAST_WORDS_MS,
    ROLL_GROWING_DEG,
    ROLL_WINDOW_MS,
)
from cargo.loss.reading_rows import ship_topic
from cargo.loss.watch_state import WatchState
from cargo.rules.storm_mode import CALL_INTERVAL_MS, CALL_LASTS_MS, LISTENS_MS

ANSWER_MS_MIN, ANSWER_MS_MAX = 3_000, 15_000
"""Minimum and maximum time between two answers to a call (5 or 10 s), milliseconds. Messages of one fall are closer together."""
ANSWERS_MIN = 2
WITNESSES_MIN = 3
STRUCK_WORDS = 5
"""Number of messages of a struck box that must be missing."""
HEARD_WORDS = 3
"""Number of missing messages of a box whose fall may have ended aboard, in a time in which its gateway received others, before silence
counts."""
FELLOWS_MIN = 2
HEARD_WITHIN_MS = 3 * 60_000
"""Maximum time after a box's last message, milliseconds, for which a message of another box of its gateway counts.

That message shows that the box, which was to keep reporting, would have been heard."""
WAITED_FOR_MS = CALL_LASTS_MS
"""Time for which a box is checked again after its silence is long enough, milliseconds: its witnesses may report a little later."""
ELSEWHERE = 8
LOOK_AGAIN_MS = 5_000


def note_answer(box: Box, gap_ms: int, at_ms: int) -> bool:
    """Return whether two readings of a storm are as far apart as answers to a call, and record the answer.

    In this case the box listens, and nothing about its habit is learned from the readings. `at_ms`: when the later one was heard."""
    if not ANSWER_MS_MIN <= gap_ms <= ANSWER_MS_MAX:
        return False
    fresh = at_ms - box.answered_at_ms > LISTENS_MS
    box.answers = 1 if fresh else min(ANSWERS_MIN, box.answers + 1)
    box.answered_at_ms = at_ms
    return True


def call(state: WatchState, box: Box, at_ms: int) -> None:
    """Call the boxes around a box whose blow was heard at `at_ms`, and boxes of its gateway that stand elsewhere: these show that it
    receives."""
    if not _calls(state, at_ms):
        return
    for number in _called_around(state, box.number, _listening(state, box.gateway)):
        other = state.memory.boxes.get(number)
        if other is None:
            continue
        if at_ms >= other.call_until_ms:
            other.called_at_ms = at_ms
        other.call_until_ms = max(other.call_until_ms, at_ms + CALL_LASTS_MS)
        due_at_ms = unanswered_at_ms(state, other, at_ms)
        if due_at_ms:
            state.wake(other, due_at_ms)
    _hear_at_once(state, at_ms)


def _hear_at_once(state: WatchState, at_ms: int) -> None:
    """Count messages from now on by their arrival, although a clock that is ahead delays their turn."""
    begins = state.memory.settled_at_ms >= state.memory.call_until_ms
    state.memory.call_until_ms = max(state.memory.call_until_ms, at_ms + CALL_LASTS_MS)
    if begins:
        state.note_all_waiting()


def to_call(state: WatchState) -> tuple[str, ...]:
    """Return the boxes that the node must ask now, sorted: those called, and those around a blow that has come and is not processed yet."""
    memory = state.memory
    numbers: set[str] = set()
    if memory.settled_at_ms < memory.call_until_ms:
        numbers.update(number for number, box in memory.boxes.items() if memory.settled_at_ms < box.call_until_ms)
    struck = {topic for topic in state.waiting.blows(memory.settled_at_ms) if ship_topic(topic) is None and topic in memory.boxes}
    if struck and _calls(state, memory.settled_at_ms):
        listening = {gateway: _listening(state, gateway) for gateway in {memory.boxes[topic].gateway for topic in struck}}
        for topic in struck:
            numbers.update(_called_around(state, topic, listening[memory.boxes[topic].gateway]))
    return tuple(sorted(numbers))


def _called_around(state: WatchState, number: str, listening: Sequence[str]) -> list[str]:
    """Return the box, those of its stack and next to it, and the first of those `listening` on its gateway that stand elsewhere."""
    near = state.stowage.near(number) or [number]
    nearby = set(near)
    return [*near, *islice((listener for listener in listening if listener not in nearby), ELSEWHERE)]


def _listening(state: WatchState, gateway: str) -> list[str]:
    """Return the boxes of the gateway that answer calls, sorted."""
    boxes = state.on_gateway.get(gateway, {}).values()
    return sorted(box.number for box in boxes if box.answers >= ANSWERS_MIN and box.state not in GONE_STATES)


def expect_again(state: WatchState, box: Box, at_ms: int) -> None:
    """Count messages by their arrival, if a box whose blow was heard at `at_ms` announces that it reports again at once."""
    if announces_next_report(state, box):
        _hear_at_once(state, at_ms)


def unanswered_at_ms(state: WatchState, box: Box, at_ms: int) -> int:
    """Return when the silence of the box will be long enough to be judged; 0 where no message is expected.

    No message is expected from a box that was not struck and is not called, or that never showed that it listens."""
    struck = box.struck(state.memory.voyage.sailed_at_ms)
    if not struck and not _listens(box, at_ms):
        return 0
    every_ms = box.again_ms if announces_next_report(state, box) else CALL_INTERVAL_MS
    patience_ms = max(CALL_STRUCK_SILENCE_MS, STRUCK_WORDS * every_ms) if struck else CALL_SILENCE_MS
    patience_ms += (state.patience(box) - INTERVALS_MISSING) * every_ms
    return _quiet_from_ms(state, box, at_ms) + patience_ms + _ahead_ms(state, box)


def _listens(box: Box, at_ms: int) -> bool:
    """Return whether the box is called, and answers calls."""
    return at_ms < box.call_until_ms and box.answers >= ANSWERS_MIN and at_ms - box.answered_at_ms <= LISTENS_MS


def announces_next_report(state: WatchState, box: Box) -> bool:
    """Return whether the box was struck at sea, and its last message announces that it reports again at once."""
    return 0 < box.again_ms <= ANSWER_MS_MAX and box.struck(state.memory.voyage.sailed_at_ms)


def _quiet_from_ms(state: WatchState, box: Box, at_ms: int) -> int:
    """Return since when the box has not answered. A message that came by `at_ms` counts, although a clock that is ahead delays its turn."""
    return max(state.silent_from_ms(box), box.called_at_ms, state.waiting.came_at_ms(box.number, at_ms))


def _ahead_ms(state: WatchState, box: Box) -> int:
    """Return the delay to wait for the messages of the boxes struck with it, milliseconds, if its fall may have ended aboard; else 0.

    Those that were struck with it and still report are the proof. The delay is the most by which their clocks and its own are ahead: their
    messages are processed that much later."""
    if not _may_lie_aboard(state, box):
        return 0
    struck = (other for number in state.stowage.near(box.number) if (other := state.memory.boxes.get(number)) and other.shock)
    return max(0, *(one.newest_at_ms - one.heard_at_ms for one in (box, *struck)))


def _may_lie_aboard(state: WatchState, box: Box) -> bool:
    """Return whether its last message reports a fall that was no longer than one onto the deck."""
    deck_ms, fall = state.stowage.deck_fall_ms(box.number), box.free_fall
    return fall is not None and deck_ms is not None and fall[0] <= deck_ms and box.newest_at_ms - fall[1] <= KINEMATIC_WINDOW_MS


def unanswered_ms(state: WatchState, box: Box, at_ms: int) -> int:
    """Return how long an expected message has been missing, milliseconds; 0 before that is long enough.

    A message is expected after a blow, if the device announced it, and in a roll call that others of its gateway answer. For a struck box
    that reports neither, the missing messages of those that were struck with it count."""
    due_at_ms = unanswered_at_ms(state, box, at_ms)
    if not due_at_ms or at_ms < due_at_ms:
        return 0
    kept_from = _kept_from_speaking(state, box, at_ms) or silent_fellows(state, box, at_ms)
    return at_ms - _quiet_from_ms(state, box, at_ms) if kept_from else 0


def _kept_from_speaking(state: WatchState, box: Box, at_ms: int) -> bool:
    """Return whether a box that has been silent for long enough should have reported: as it announced, or in a call that others receive.

    No later message may be pending that cancels an announcement. After a fall that may have ended aboard, its gateway must have received
    other boxes meanwhile."""
    if announces_next_report(state, box):
        return not state.waiting.waits(box.number, at_ms) and (not _may_lie_aboard(state, box) or _gateway_hears(state, box, at_ms))
    return _listens(box, at_ms) and _witnesses(state, box, at_ms) >= WITNESSES_MIN


def _gateway_hears(state: WatchState, box: Box, at_ms: int) -> bool:
    """Return whether its gateway passed on a message of another box when this one was due.

    Later messages do not show that it received then."""
    gateway, quiet_ms = state.memory.gateways.get(box.gateway), _quiet_from_ms(state, box, at_ms)
    return gateway is not None and gateway.heard_at_ms >= quiet_ms + HEARD_WORDS * box.again_ms and at_ms <= quiet_ms + HEARD_WITHIN_MS


def silent_fellows(state: WatchState, box: Box, at_ms: int) -> tuple[str, ...]:
    """Return the boxes around a struck box, of which no message was expected, that were struck with it and have not sent expected messages.

    Return none where one of them reported again, or where they are fewer than two."""
    if box.shock is None or _spoke_on(state, box, at_ms) or announces_next_report(state, box) or _listens(box, at_ms):
        return ()
    fellows = []
    for number in state.stowage.near(box.number):
        fellow = state.memory.boxes.get(number)
        if fellow is None or fellow is box or fellow.shock is None or abs(fellow.shock[1] - box.shock[1]) > KINEMATIC_WINDOW_MS:
            continue
        if fellow.state in GONE_STATES:
            fellows.append(number)
        elif _spoke_on(state, fellow, at_ms):
            return ()
        elif _kept_from_speaking(state, fellow, at_ms) and at_ms >= unanswered_at_ms(state, fellow, at_ms):
            fellows.append(number)
    return tuple(fellows) if len(fellows) >= FELLOWS_MIN else ()


def _spoke_on(state: WatchState, box: Box, at_ms: int) -> bool:
    """Return whether a struck box sent a message after the blow by `at_ms`; the message may still be pending."""
    return box.said_more() or state.waiting.came_at_ms(box.number, at_ms) - box.heard_at_ms > LAST_WORDS_MS


def _witnesses(state: WatchState, box: Box, at_ms: int) -> int:
    """Return how many others of its gateway have answered this call recently."""
    since_ms = max(at_ms - ANSWER_MS_MAX - CALL_INTERVAL_MS, box.called_at_ms)
    others = state.on_gateway.get(box.gateway, {}).values()
    return sum(other is not box and other.answers >= ANSWERS_MIN and other.answered_at_ms > since_ms for other in others)


def _calls(state: WatchState, at_ms: int) -> bool:
    """Return whether a blow starts a call: at sea, in heavy motion."""
    voyage = state.memory.voyage
    return state.settings.place.ship is not None and voyage.at_sea and voyage.roll(at_ms - ROLL_WINDOW_MS, at_ms)[0] > ROLL_GROWING_DEG
