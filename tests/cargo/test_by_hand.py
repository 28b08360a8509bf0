"""What people say of boxes: what follows from it, what is refused, and that it is said with a name."""

from __future__ import annotations

from typing import Any

import pytest

from cargo.byhand import WORDS, Said, Word, may_say, read_said, take_said
from cargo.errors import Unreadable
from cargo.outcome import Outcome
from cargo.state import WatchState
from cargo.watch import advance
from tests.cargo.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, fall, join, number, settings, watch

LOSS_MS = SAILS_MS + 2 * HOUR_MS
SAID_MS = LOSS_MS + 4 * HOUR_MS


def said(word: Word, serial: int = 0) -> Said:
    return Said(number(serial), SHIP, word, SAID_MS, "Mate Meyer", "from the wing")


def silent(*, blow: bool) -> tuple[WatchState, Outcome]:
    """A watch with box 0 silent: lost with a blow, or missing only."""
    sea = Sea(boxes=24, silent={0: [(LOSS_MS, 1 << 62)]})
    state, made = watch(sea, sea.readings(SAID_MS - MINUTE_MS, fall(sea, 0, LOSS_MS) if blow else []))
    join(made, advance(state, SAID_MS))
    return state, made


def state_of(state: WatchState) -> str:
    return state.memory.boxes[number(0)].state


@pytest.mark.parametrize(("word", "becomes"), [("seen", "FOUND"), ("collapsed", "COLLAPSED_ON_BOARD")])
def test_a_loss_is_refuted_with_a_name(word: Word, becomes: str) -> None:
    """Goal: alert and incident are taken back, and the alert says who saw what; the box's silence raises nothing anew."""
    state, _ = silent(blow=True)
    assert state_of(state) == "PROBABLE_OVERBOARD"
    made = take_said(state, said(word))
    assert state_of(state) == becomes
    box, incident = (next(one.body for one in made.alerts if (one.body["rule"] == "incident") is whole) for whole in (False, True))
    assert (box["state"], incident["state"]) == ("retracted", "retracted")
    assert (box["by"], box["detail"]) == ("Mate Meyer", f"{WORDS[word]}, says Mate Meyer: from the wing")
    assert [piece["family"] for piece in box["evidence"]] == ["person"]
    assert not advance(state, SAID_MS + 12 * HOUR_MS).alerts


def test_a_missing_box_that_a_count_does_not_find_is_an_incident() -> None:
    """Goal: nobody felt a blow; the count alone raises alert and incident, confirmed, with who counted beside what the watch knew."""
    state, _ = silent(blow=False)
    assert state_of(state) == "MISSING"
    made = take_said(state, said("gone"))
    assert state_of(state) == "CONFIRMED_LOST"
    box = next(one.body for one in made.alerts if one.body["rule"] == "lost_container")
    assert (box["state"], box["status"], box["by"], box["posterior"]) == ("raised", "CONFIRMED_LOST", "Mate Meyer", 1.0)
    assert {piece["family"] for piece in box["evidence"]} > {"person", "presence"}
    assert [one.body["incident"]["containers"] for one in made.alerts if one.body["rule"] == "incident"] == [[number(0)]]
    assert [one.body["event"] for one in made.events] == ["X_PROBABLE_OVERBOARD", "X_LOST_OVERBOARD"]


def test_a_restart_before_it_makes_the_same_of_it() -> None:
    """Goal: the watch kept and taken up again before what was said makes the very same records."""
    state, _ = silent(blow=False)
    again = WatchState.from_bytes(state.to_bytes(), settings())
    assert take_said(again, said("gone")) == take_said(state, said("gone"))
    assert again.to_bytes() == state.to_bytes()


def test_nothing_is_said_of_a_box_that_speaks() -> None:
    """Goal: what does not follow from the box's state is refused and changes nothing; what may be said is told by state."""
    state, _ = silent(blow=True)
    before = state.to_bytes()
    for one in (said("gone", 5), said("seen", 99), said("ashore")):
        with pytest.raises(ValueError, match="of that nobody can say"):
            take_said(state, one)
    assert state.to_bytes() == before
    assert may_say("PROBABLE_OVERBOARD") == ["seen", "collapsed", "gone"]
    assert may_say("MISSING") == ["seen", "collapsed", "gone", "ashore"]
    assert may_say("ONBOARD") == may_say(None) == []


@pytest.mark.parametrize(
    "wrong",
    [{"by": " "}, {"by": ""}, {"said": "lost"}, {"note": "n" * 201}, {"note": "two\nlines"}, {"at_ms": -1}, {"more": 1}, {"container": 7}],
)
def test_what_does_not_read_is_refused(wrong: dict[str, Any]) -> None:
    """Goal: a record holds who, what and when, and no more; what its own fields write reads back."""
    body = dict(said("seen").made().body)
    assert read_said(body) == said("seen")
    with pytest.raises(Unreadable, match="does not read"):
        read_said({**body, **wrong})
