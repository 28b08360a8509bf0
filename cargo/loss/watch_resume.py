"""A watch that was down goes on: for time in which nobody listened no box is silent.

What the node heard ends before it was ended, and begins when it listens again. What other nodes of its ship or port took in meanwhile is
heard first: then somebody listened, from the first of it to the last. In the rest a box may have spoken and nobody know. Its silence before
counts on, but where a word of it was due then: it is as if it had spoken at the end of that time.
"""

from __future__ import annotations

from cargo.loss.container_state import Box
from cargo.loss.loss_classifier import State
from cargo.loss.reading_rows import Heard
from cargo.loss.report_interval import LIKE_PART, grace_ms
from cargo.loss.roll_call import STRUCK_WORDS
from cargo.loss.watch_state import WatchState

SPANS_MAX = 4
_OPEN: frozenset[State] = frozenset({"ONBOARD", "LATE"})


def hear_again(state: WatchState, row: Heard) -> None:
    """This is the next that was heard while a watch that was down goes on (`EventClock.resume`)."""
    span = state.memory.clock.unheard(row)
    if span is not None:
        _leave_out(state, *span)


def leave_out_again(state: WatchState, box: Box) -> None:
    """The box's last word had its turn only now, and came before a time in which nobody listened."""
    box.listened_from_ms = 0
    for since_ms, until_ms in state.memory.down:
        _leave_out_of(state, box, since_ms, until_ms)


def _leave_out(state: WatchState, since_ms: int, until_ms: int) -> None:
    """In this span (UTC ms by the node's clock) nobody listened. What was found of a box before stands: one that is missing stays so."""
    memory = state.memory
    memory.down = [*memory.down[1 - SPANS_MAX :], (since_ms, until_ms)]
    if until_ms - since_ms < state.settings.deaf_ms:
        memory.voyage.unfelt(since_ms, until_ms)
    for box in memory.boxes.values():
        if box.state in _OPEN:
            _leave_out_of(state, box, since_ms, until_ms)
    state.all_changed()


def _leave_out_of(state: WatchState, box: Box, since_ms: int, until_ms: int) -> None:
    from_ms = state.silent_from_ms(box)
    if 0 < from_ms < until_ms:
        again = from_ms > since_ms or _was_due(state, box, since_ms, until_ms)
        box.listened_from_ms = until_ms if again else from_ms + until_ms - since_ms
    if box.heard_at_ms < until_ms and until_ms - since_ms >= (STRUCK_WORDS - 1) * box.again_ms:
        box.again_ms = 0  # what it promised after a blow it may have kept, and all words that end the promise have said so unheard


def _was_due(state: WatchState, box: Box, since_ms: int, until_ms: int) -> bool:
    """Whether it may have spoken in the span: a word of it was due, by its own word or its habit, or it was called."""
    if not box.heard_at_ms:
        return False
    interval_ms = box.again_ms or state.interval_ms(box, since_ms)
    before_ms, after_ms = since_ms - box.heard_at_ms, until_ms - box.heard_at_ms
    missed = max(0, before_ms - grace_ms(interval_ms)) // interval_ms
    return since_ms < box.call_until_ms or after_ms >= (missed + 1) * interval_ms * (1 - LIKE_PART)
