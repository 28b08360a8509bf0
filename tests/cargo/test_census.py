"""Goal: what is counted anew only of boxes that changed is what counting all of them one by one gives, at every question of every voyage;
and who falls silent beside thousands is not looked at thousands of times."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from cargo.loss import loss_evidence
from cargo.loss.accounted_boxes import in_time
from cargo.loss.container_state import Box
from cargo.loss.gateway_census import Census, CensusBox, Count
from cargo.loss.loss_classifier import GONE_STATES, GROUP_WINDOW_MS
from cargo.loss.reading_rows import Heard
from cargo.loss.watch import learn, step
from cargo.loss.watch_state import WatchState
from sim.trial import Trial
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, START_MS, Sea, settings
from tests.support.watched_voyages import alike, lossy, quiet, watched

MANY = 600


def one_by_one(state: WatchState, box: Box, at_ms: int, interval_ms: int) -> tuple[float | None, bool]:
    """What `judge.heard_share` says, of all boxes of the gateway as they are now."""
    silent, lost, heard = set(), set(), 0
    for number in state.on_gateway[box.gateway]:
        other = state.memory.boxes[number]
        if other.state in GONE_STATES:
            lost.add(number)
        if other is box or not other.aboard or other.state in GONE_STATES:
            continue
        habit = state.interval_ms(other, at_ms)
        if habit <= interval_ms * loss_evidence.LIKE_INTERVAL:
            if in_time(state.silent_ms(other, at_ms), habit):
                heard += 1
            else:
                silent.add(number)
    itself = {box.number} if not in_time(state.silent_ms(box, at_ms), state.interval_ms(box, at_ms)) and box.aboard else set()
    members = silent | lost
    with_it = _cluster(state, box, members)
    together = with_it & silent
    blow = any(_struck(state, number) for number in (box.number, *with_it))
    for one in sorted(silent - with_it):
        island = _cluster(state, state.memory.boxes[one], members) | {one}
        if state.stowage.on_deck(one) and _felt(state, island):
            silent.discard(one)
    total = heard + len(silent)
    if total >= loss_evidence.PEERS_MIN and (blow or 2 * len(together) <= total):
        silent -= together
        total = heard + len(silent)
    felt = _felt(state, with_it | (itself if state.stowage.on_deck(box.number) else set()))
    return (heard / total, False) if total >= loss_evidence.PEERS_MIN else (None, felt)


def _struck(state: WatchState, number: str) -> bool:
    return state.memory.boxes[number].struck(state.memory.voyage.sailed_at_ms)


def _felt(state: WatchState, numbers: set[str]) -> bool:
    blows = sum(_struck(state, number) for number in numbers)
    return blows >= 3 and 2 * blows >= len(numbers)


def _cluster(state: WatchState, box: Box, silent: set[str]) -> set[str]:
    """All of `silent` on deck that fell silent together with the box, one beside the other; not itself."""
    found: set[str] = set()
    edge = [box]
    while edge:
        one = edge.pop()
        for number in state.stowage.near(one.number):
            other = state.memory.boxes.get(number)
            if number not in silent or number in found or other is None or not state.stowage.on_deck(number):
                continue
            if abs(other.heard_at_ms - one.heard_at_ms) <= GROUP_WINDOW_MS:
                found.add(number)
                edge.append(other)
    return found - {box.number}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every share the watch asks for is held against the one counted one by one; how many there were of which kind."""
    told: Counter[str] = Counter()
    share = loss_evidence.heard_share

    def both(state: WatchState, box: Box, at_ms: int, interval_ms: int) -> tuple[float | None, bool]:
        found, wanted = share(state, box, at_ms, interval_ms), one_by_one(state, box, at_ms, interval_ms)
        assert found == wanted, (box.number, at_ms)
        heard, gone = found
        told["gone" if gone else "few" if heard is None else "all" if heard == 1.0 else "some" if heard >= 0.5 else "silent"] += 1
        return found

    monkeypatch.setattr(loss_evidence, "heard_share", both)
    return told


VOYAGES: dict[str, Callable[[], Trial]] = {
    "every fault": lambda: quiet(10),
    "a loss of many, some of it felt": lambda: lossy(3, "severe", "mixed", 40),
    "a loss nobody felt": lambda: lossy(5, "extreme", "nothing", 16),
    "a stack down aboard": lambda: alike("a stack falls aboard, half its trackers crushed", 6),
    "a radio shadow": lambda: alike("two stacks in a radio shadow for half an hour", 7),
}


@pytest.mark.parametrize("name", VOYAGES)
def test_each_share_is_the_one_counted_one_by_one(compared: Counter[str], name: str) -> None:
    seen = watched(VOYAGES[name]())
    assert seen.readings
    assert compared.total() >= 20


def test_so_is_it_where_most_of_a_gateway_is_silent(compared: Counter[str]) -> None:
    """Goal: hundreds fall silent one after the other, some speak again; meanwhile there are two storms, boxes change the gateway, some
    are off the ship's track by their own positions, and the list in force comes anew with other stacks."""
    chance, ends_ms = random.Random(6), SAILS_MS + 16 * HOUR_MS
    storms = [(SAILS_MS + at * HOUR_MS, SAILS_MS + (at + 1) * HOUR_MS) for at in (4, 11)]
    gone: dict[int, list[tuple[int, int]]] = {}
    for at in range(240):
        since = SAILS_MS + 3 * HOUR_MS + chance.randrange(120) * MINUTE_MS
        if chance.random() < 0.85:
            gone[at] = [(since, since + chance.choice([3, 40]) * HOUR_MS)]
    sea = Sea(boxes=240, tiers=5, gateways=1, storms=storms, silent=gone, hold=frozenset(range(200, 240)), reefer_every=2)
    readings = [_astray(row) if row.order_at_ms > SAILS_MS + 5 * HOUR_MS else row for row in sea.readings(ends_ms)]
    state = WatchState(settings())
    learn(state, sea.entries())
    for hour in range(22):
        step(state, [row for row in readings if hour == (row.order_at_ms - START_MS) // HOUR_MS])
        if hour == 13:
            other = Sea(boxes=240, tiers=2, hold=sea.hold, reefer_every=3)
            learn(state, [other.entries()[-1]])
    assert {"GW-0", "GW-9"} <= state.on_gateway.keys()
    assert compared["silent"] >= 100
    assert compared["some"] >= 100


def _astray(row: Heard) -> Heard:
    """One in three boxes is heard by another gateway, sooner or later; those of one stack say by
    their own link that they are 20 nm away, and farther each time."""
    if row.topic.startswith(SHIP):
        return row
    at, signals = int(row.device[-5:]), dict(row.signals)
    if at % 3 == 0 and row.order_at_ms > SAILS_MS + (4 + at / 40) * HOUR_MS:
        signals["gateway"] = "GW-9"
    if at < 5:
        del signals["gateway"]
        signals |= {"latitude_deg": 35.2 - (row.order_at_ms - SAILS_MS) / HOUR_MS / 100, "longitude_deg": 139.0}
    return msgspec.structs.replace(row, signals=signals)


def _row(stack: dict[str, CensusBox], near: int = 5) -> tuple[Census, Counter[str]]:
    """A census of boxes in one long row, each with its neighbours to either side; how often it asked for which."""
    numbers, asked = list(stack), Counter[str]()

    def line(number: str) -> CensusBox | None:
        asked["line"] += 1
        return stack.get(number)

    def beside(number: str) -> list[str]:
        asked["near"] += 1
        at = numbers.index(number)
        return numbers[max(0, at - near) : at + near + 1]

    return Census(numbers, line, beside), asked


def test_thousands_that_fall_silent_are_each_looked_at_once() -> None:
    """Goal: one after the other falls silent and is asked about: the work does not grow with how many already are."""
    stack = {f"BOX{at:05d}": CensusBox(True, True, False, at * 1_000, at * 1_000, (60_000, 90_000), (60_000, 90_000)) for at in range(MANY)}
    census, asked = _row(stack)
    for at, number in enumerate(stack):
        count = census.count(number, at * 1_000 + 90_000, 75_000.0, 0, storm=False)
        assert count == Count(MANY - 1 - at, at, at, False)
    assert asked["line"] == MANY
    assert asked["near"] <= 2 * MANY


def test_who_speaks_again_parts_a_neighbourhood() -> None:
    """Goal: of twelve that fell silent together the two in the middle speak again: each side is on its own, and a blow counts for its own
    side only."""
    quiet_for = (60_000, 90_000)
    stack = {f"BOX{at:02d}": CensusBox(True, True, at == 0, 0, 0, quiet_for, quiet_for) for at in range(12)}
    census, asked = _row(stack, near=2)
    assert census.count("BOX11", 100_000, 75_000.0, 0, storm=False) == Count(0, 11, 11, True)
    for number in ("BOX05", "BOX06"):
        stack[number] = CensusBox(True, True, False, 100_000, 100_000, quiet_for, quiet_for)
        census.changed(number)
    assert census.count("BOX11", 110_000, 75_000.0, 0, storm=False) == Count(2, 9, 4, False)
    assert census.count("BOX04", 110_000, 75_000.0, 0, storm=False) == Count(2, 9, 4, True)
    assert asked["line"] == 14
    del stack["BOX00"]
    census.changed("BOX00")
    assert census.count("BOX04", 110_000, 75_000.0, 0, storm=False) == Count(2, 8, 3, False)


@pytest.mark.parametrize("blown", [0, 5, 11])
def test_a_blow_anywhere_in_a_neighbourhood_counts_for_all_of_it(blown: int) -> None:
    """Goal: in whatever order they grow together; also where the box that asks is the one that was struck, and nobody is with it."""
    quiet_for = (60_000, 90_000)
    lines = {f"BOX{at:02d}": CensusBox(True, True, at == blown, 0, 0, quiet_for, quiet_for) for at in range(12)}
    for asks in lines:
        census, _ = _row(lines, near=1)
        assert census.count(asks, 100_000, 75_000.0, 0, storm=False) == Count(0, 11, 11, True)
    alone, _ = _row(lines, near=0)
    assert alone.count(f"BOX{blown:02d}", 100_000, 75_000.0, 0, storm=False) == Count(0, 11, 0, True)
    assert alone.count(f"BOX{(blown + 1) % 12:02d}", 100_000, 75_000.0, 0, storm=False) == Count(0, 11, 0, False)
    lines[f"BOX{blown:02d}"] = CensusBox(True, True, True, 50_000, 50_000, quiet_for, quiet_for)
    alone.changed(f"BOX{blown:02d}")
    assert alone.count(f"BOX{blown:02d}", 100_000, 75_000.0, 0, storm=False) == Count(0, 11, 0, True)


def test_those_told_as_lost_hold_a_neighbourhood_together() -> None:
    """Goal: of twelve that were struck and fell silent every other one is told as lost: the rest are still together. Two such
    neighbourhoods apart know of each other; where fewer than half were struck, a loss explains nothing."""
    quiet_for = (60_000, 90_000)

    def line(at: int, heard_at_ms: int = 0, *, struck: bool = True) -> CensusBox:
        return CensusBox(at % 2 == 0, True, struck, heard_at_ms, heard_at_ms, quiet_for, quiet_for, lost=at % 2 == 1)

    near, _ = _row({f"BOX{at:02d}": line(at) for at in range(12)}, near=1)
    assert near.count("BOX00", 100_000, 75_000.0, 0, storm=False) == Count(0, 5, 5, True, felt=True)
    apart, _ = _row({f"BOX{at:02d}": line(at, 0 if at < 6 else 200_000) for at in range(12)}, near=1)
    assert apart.count("BOX00", 300_000, 75_000.0, 0, storm=False) == Count(0, 5, 2, True, felt=True, elsewhere=3)
    few, _ = _row({f"BOX{at:02d}": line(at, struck=at < 4) for at in range(12)}, near=1)
    assert few.count("BOX00", 100_000, 75_000.0, 0, storm=False) == Count(0, 5, 5, True)


def test_what_an_outage_explains_is_no_silence() -> None:
    """Goal: nobody is silent from before its gateway heard again; and what is due in a storm is due there alone."""
    lines = {f"BOX{at:02d}": CensusBox(True, True, False, 0, 0, (3_600_000, 3_960_000), (60_000, 90_000)) for at in range(6)}
    census, _ = _row(lines)
    assert census.count("BOX00", 100_000, 75_000.0, 50_000, storm=True) == Count(5, 0, 0, False)
    assert census.count("BOX00", 140_000, 75_000.0, 50_000, storm=True) == Count(0, 5, 5, False)
    assert census.count("BOX00", 140_000, 75_000.0, 50_000, storm=False) == Count(0, 0, 0, False)
    assert census.count("BOX00", 140_000, 4_500_000.0, 50_000, storm=False) == Count(5, 0, 0, False)
