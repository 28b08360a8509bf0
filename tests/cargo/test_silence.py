"""Goal: who is late or silent at sea is told once, at low severity, after as many intervals as its booking, or its size and type, asks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cargo.alerts.alert_log import AlertBook
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome
from cargo.loss.watch_state import WatchState
from cargo.rules.climate_limits import Climate
from cargo.shore_rules.fleet_rules import silent
from cargo.vocabulary.instants import time_text
from cargo.vocabulary.registry_entries import BookedContainer, Booking, Entry, SizeType
from tests.cargo.faults import of_gateway, without
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, START_MS, Sea, entry, fall, number, settings, told, watch

DEAD_MS = SAILS_MS + 8 * HOUR_MS
END_MS = SAILS_MS + 24 * HOUR_MS
RULES = {"late", "silent"}


def asked(code: str, **limits: Any) -> Entry:
    """What is asked of a size and type."""
    return entry("size_type", code, SizeType(Climate(**limits)))


def booked(serial: int, **limits: Any) -> Entry:
    """A booking of one box with limits."""
    boxes = (BookedContainer(number(serial), START_MS, None),)
    value = Booking(f"B{serial}", "a", "b", "fish", "JPTYO", "SGSIN", containers=boxes, limits=Climate(**limits))
    return entry("booking", f"B{serial}", value)


def voyage(sea: Sea, until_ms: int = END_MS, more: tuple[Entry, ...] = ()) -> WatchOutcome:
    """What the watch makes of the voyage; it heard of `more` with its lists."""
    state = WatchState(settings())
    made = learn(state, [*sea.entries(), *more])
    made.add(step(state, sea.readings(until_ms)))
    made.add(advance(state, until_ms + state.settings.lateness_ms))
    return made


def silence(made: WatchOutcome, serial: int) -> list[tuple[str, str]]:
    """The changes of the box's alerts of silence."""
    return [(one.body["rule"], one.body["state"]) for one in made.alerts if one.topic == number(serial) and one.body["rule"] in RULES]


def intervals(one: MadeRecord) -> float:
    """How many intervals after the box's last word the alert came."""
    last_ms: int = one.body["evidence"][0]["at_ms"]
    return (one.at_ms - last_ms) / HOUR_MS


def test_a_box_that_falls_silent_is_late_then_silent_then_heard_again() -> None:
    """Goal: after 2 and 6 of its own intervals; one is open at a time, and none when it speaks; no other box is told of."""
    made = voyage(Sea(boxes=24, silent={9: [(DEAD_MS, DEAD_MS + 10 * HOUR_MS)]}))
    assert silence(made, 9) == [("late", "raised"), ("late", "cleared"), ("silent", "raised"), ("silent", "cleared")]
    late, quiet = (told(made.alerts, rule=rule, state="raised")[0] for rule in ("late", "silent"))
    assert 2.0 < intervals(late) < 2.2
    assert 6.0 < intervals(quiet) < 6.2
    assert (late.body["severity"], quiet.body["severity"]) == ("LOG", "WARNING")
    assert {one.topic for one in made.alerts} == {number(9)}
    assert not any(not one.closed for one in AlertBook((one.topic, one.body) for one in made.alerts).standing())


def test_headquarters_tells_of_the_same_silence_by_the_same_alert() -> None:
    """Goal: the ship's `silent` and the fleet's, of one last word, are one alert."""
    made = voyage(Sea(boxes=24, silent={9: [(DEAD_MS, 1 << 62)]}))
    (ours,) = told(made.alerts, rule="silent", state="raised")
    assert silent(number(9), ours.body["evidence"][0]["at_ms"], SHIP).alert_id == ours.body["alert_id"]


def test_a_booking_goes_before_its_size_and_type_and_that_before_all() -> None:
    """Goal: boxes 5, 10, 15 are reefers 45R1; of 10 a booking asks, of 15 a booking asks something else; 9 is 45G1."""
    sea = Sea(boxes=24, silent={at: [(DEAD_MS + at * MINUTE_MS, 1 << 62)] for at in (5, 9, 10, 15)})
    more = (asked("45R1", late_intervals=4, silent_intervals=5), booked(10, late_intervals=1), booked(15, above_c=2.0))
    late = {one.topic: intervals(one) for one in told(voyage(sea, more=more).alerts, rule="late", state="raised")}
    assert {box: round(after) for box, after in late.items()} == {number(5): 4, number(9): 2, number(10): 1, number(15): 4}


def test_a_later_version_of_a_size_and_type_holds_from_then_on_and_outlives_a_restart() -> None:
    """Goal: a registry entry, no restart; each limit left out stays as it is for all."""
    state, _ = watch(Sea(boxes=24), Sea(boxes=24).readings(SAILS_MS))
    learn(state, [booked(5, above_c=1.5), asked("45R1", above_c=2.0, below_c=1.0)])
    again = from_snapshot(snapshot_of(state), settings())
    for one in (state, again):
        assert [(limits.above_c, limits.below_c) for _, limits in (one.terms_of(number(at), SAILS_MS) for at in (5, 10, 9))] == [
            (1.5, 1.0),
            (2.0, 1.0),
            (3.0, 3.0),
        ]
    learn(again, [asked("45R1", below_c=2.0)])
    assert [again.terms_of(number(at), SAILS_MS)[1].above_c for at in (5, 10)] == [1.5, 3.0]


def test_an_outage_of_the_gateway_and_the_port_are_no_silence() -> None:
    """Goal: whom nobody could hear is not late; nor is who does not speak in port."""
    sea = Sea(boxes=48)
    readings = without(sea.readings(END_MS), of_gateway("GW-1"), DEAD_MS, DEAD_MS + 8 * HOUR_MS)
    assert not [one for one in watch(sea, readings)[1].alerts if one.body["rule"] in RULES]
    berthed = Sea(boxes=24, silent={9: [(START_MS + HOUR_MS, 1 << 62)]}, sails_ms=START_MS + 40 * HOUR_MS)
    assert not silence(voyage(berthed, START_MS + 39 * HOUR_MS), 9)


def test_it_says_when_the_box_was_heard_and_not_when_the_outage_ended() -> None:
    """A box of a silent gateway that dies meanwhile: its silence counts from the outage's end, it was last heard before."""
    dead = next(at for at in range(48) if Sea(boxes=48).says(at, SAILS_MS).signals.get("gateway") == "GW-1")
    sea = Sea(boxes=48, silent={dead: [(DEAD_MS, 1 << 62)]})
    readings = without(sea.readings(END_MS), of_gateway("GW-1"), DEAD_MS, DEAD_MS + 8 * HOUR_MS)
    [late] = [one for one in watch(sea, readings)[1].alerts if one.topic == number(dead) and one.body["rule"] == "late"][:1]
    heard_ms = late.body["evidence"][0]["at_ms"]
    assert heard_ms < DEAD_MS
    assert f"last heard {time_text(heard_ms)}, " in late.body["detail"]
    assert "; an outage, so silence counts from " in late.body["detail"]


def test_a_loss_is_told_in_place_of_its_silence() -> None:
    """Goal: whoever is probably overboard is not late beside it."""
    sea = Sea(boxes=24, silent={at: [(DEAD_MS, 1 << 62)] for at in (0, 9)})
    state, made = watch(sea, sea.readings(END_MS, fall(sea, 0, DEAD_MS)))
    assert state.memory.boxes[number(0)].state == "PROBABLE_OVERBOARD"
    assert silence(made, 0) == []
    assert silence(made, 9)[0] == ("late", "raised")


def test_what_was_kept_and_comes_late_ends_the_silence_for_good() -> None:
    """Goal: a box is late, then its gateway passes on what it had kept, said before the box was late: by the fold that ends it."""
    sea = Sea(boxes=24, silent={9: [(DEAD_MS, END_MS)]})
    readings = sea.readings(DEAD_MS + 4 * HOUR_MS)
    _, made = watch(sea, readings)
    (late,) = told(made.alerts, rule="late", state="raised")
    kept = replace(sea.says(9, late.at_ms - HOUR_MS), received_at_ms=readings[-1].received_at_ms)
    _, made = watch(sea, [*readings, kept], batch=1)
    assert silence(made, 9)[:2] == [("late", "raised"), ("late", "cleared")]
    standing = AlertBook((one.topic, one.body) for one in made.alerts).get(late.body["alert_id"])
    assert standing is not None
    assert standing.closed
