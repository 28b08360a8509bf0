"""Goal: a ship's node is killed at any instant and started again: for time in which none of her nodes listened no box is late, missing or
lost, and what fell is told as soon as somebody listens. The nodes of a pair, or three, come to hold what one holds that never died.
"""

from __future__ import annotations

import random

import pytest

from tests.cargo.downtime import NEVER, Node, Span, arrivals, taken_in
from tests.cargo.test_roll_call import BAY, ENDS_MS, LOSS_MS, STRUCK, answers, blow, called, drilled, stormy
from tests.cargo.test_tells_on import BLOW_MS, calm, on
from tests.cargo.test_tells_on import blow as promising
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, SHIP, Sea, fall, number

STORM_MS = SAILS_MS + 2 * HOUR_MS
LOST = range(3)
KNOWN_MS = BLOW_MS - 2 * HOUR_MS
"""Since then boxes that report every 5 minutes have shown that they do."""
DOWN_S = (5, 20, 50, 100, 170, 600, 3_000, 5_400)
WHEN = ("none", "before", "during", "after")


class Day:
    """A storm, or calm water; from a seed, when a node is killed, and when boxes go over the side."""

    def __init__(self, seed: str, storm: bool, down_s: int, when: str) -> None:
        chance = random.Random(seed)
        self.killed_ms = STORM_MS + 20 * MINUTE_MS + chance.randrange(5 * MINUTE_MS)
        self.up_ms = self.killed_ms + down_s * SECOND_MS
        self.falls_ms = {
            "none": 0,
            "before": self.killed_ms - chance.randrange(5, 90) * SECOND_MS,
            "during": self.killed_ms + chance.randrange(down_s * SECOND_MS),
            "after": self.up_ms + chance.randrange(5, 120) * SECOND_MS,
        }[when]
        boxes = LOST if self.falls_ms else ()
        storms = [(STORM_MS, STORM_MS + 5 * HOUR_MS)] if storm else []
        self.sea = Sea(boxes=24, seed=chance.randrange(1_000), storms=storms, silent={at: [(self.falls_ms, 1 << 62)] for at in boxes})
        blows = [one for at in boxes for one in fall(self.sea, at, self.falls_ms + at * 700)]
        self.said = self.sea.readings(self.up_ms + (15 if storm else 150) * MINUTE_MS, blows)
        self.lost = frozenset(number(at) for at in boxes)

    def node(self) -> Node:
        """One of hers, not started yet."""
        return Node(self.sea, self.lost, self.killed_ms)

    def nodes(self, downs: list[Span], kept: bool) -> list[Node]:
        """Her nodes, after that day."""
        heard, nodes = taken_in(self.said, downs, kept), [self.node() for _ in downs]
        for at, node in enumerate(nodes):
            node.lives(arrivals(heard, at, downs), downs[at])
        return nodes


def alone(seed: int, storm: bool, down_s: int, kept: bool, when: str) -> None:
    """One node."""
    day = Day(f"{seed}/{down_s}/{when}", storm, down_s, when)
    (node,) = day.nodes([(day.killed_ms, day.up_ms)], kept)
    assert not node.wrong, node.wrong[:5]
    assert node.told_lost() <= day.lost
    if kept or when != "during":
        assert {container for container, reason in node.reasons().items() if reason == "gone"} == day.lost
    elif storm:
        assert node.unaccounted() == day.lost, "nobody heard them fall; all others speak, and they do not"


def pair(seed: int, storm: bool, down_s: int, other_s: int, kept: bool, when: str) -> None:
    """Two, of which the second is killed, and with `other_s` the first at the same instant, for so long."""
    day = Day(f"{seed}/{down_s}/{other_s}/{when}", storm, down_s, when)
    downs = [(day.killed_ms, day.killed_ms + other_s * SECOND_MS) if other_s else NEVER, (day.killed_ms, day.up_ms)]
    nodes = day.nodes(downs, kept)
    for node in nodes:
        assert not node.wrong, node.wrong[:5]
        assert node.told_lost() <= day.lost
    assert nodes[0].unaccounted() == nodes[1].unaccounted()
    if not other_s or when == "none":
        (never,) = day.nodes([NEVER], kept)
        assert nodes[0].unaccounted() == never.unaccounted() == day.lost


@pytest.mark.parametrize("down_s", DOWN_S)
@pytest.mark.parametrize("storm", [True, False], ids=["storm", "calm"])
def test_nobody_is_missed_for_time_in_which_the_node_was_down(storm: bool, down_s: int) -> None:
    for at, when in enumerate(WHEN):
        alone(at, storm, down_s, kept=(at + down_s // 10) % 2 == 0, when=when)


@pytest.mark.parametrize("kept", [True, False])
def test_who_was_called_is_not_missed_for_answers_that_nobody_heard(kept: bool) -> None:
    """Goal: a box is struck and lies aboard; it answers the roll call only after half a minute, when the node is down."""
    sea, others = stormy([]), set(BAY) - {STRUCK}
    answered = [*called(sea, others), *answers(sea, [STRUCK], LOSS_MS + 22 * SECOND_MS, LOSS_MS + 3 * MINUTE_MS, 5)]
    said = sea.readings(ENDS_MS, [*drilled(sea), blow(sea), *answered])
    said = [one for one in said if one.topic != number(STRUCK) or not LOSS_MS < one.order_at_ms < LOSS_MS + 22 * SECOND_MS]
    downs = [(LOSS_MS + 20 * SECOND_MS, LOSS_MS + 80 * SECOND_MS)]
    node = Node(sea, frozenset(), LOSS_MS)
    node.lives(arrivals(taken_in(said, downs, kept), 0, downs), downs[0])
    assert not node.told_lost()
    assert not node.wrong


@pytest.mark.parametrize("down_s", [8, 15, 22, 30, 100, 600])
def test_what_was_promised_after_a_blow_may_have_been_kept_unheard(down_s: int) -> None:
    """Goal: a box is struck, tells on for a minute, and lies aboard; its next regular report is an hour away."""
    sea = calm()
    said = sea.readings(BLOW_MS + 3 * HOUR_MS, [promising(sea, 2), *on(sea, 2)])
    killed_ms = BLOW_MS + 9 * SECOND_MS
    downs = [(killed_ms, killed_ms + down_s * SECOND_MS)]
    node = Node(sea, frozenset(), BLOW_MS)
    node.lives(arrivals(taken_in(said, downs, kept=False), 0, downs), downs[0])
    assert not node.told_lost()
    assert not node.wrong


@pytest.mark.parametrize("killed_s", [1, 9, 20])
def test_of_two_both_tell_who_was_struck_and_broke_its_promise(killed_s: int) -> None:
    """Goal: in calm water, one is killed right after the blow, and started again; the other listens, and hears somebody every 3 s."""
    sea = calm([2], interval_ms=5 * MINUTE_MS)
    said = [one for one in sea.readings(BLOW_MS + HOUR_MS, [promising(sea, 2)]) if one.topic.startswith(SHIP) or one.order_at_ms > KNOWN_MS]
    downs = [NEVER, (BLOW_MS + killed_s * SECOND_MS, BLOW_MS + 10 * MINUTE_MS)]
    heard = taken_in(said, downs, kept=True)
    for at, down in enumerate(downs):
        node = Node(sea, frozenset({number(2)}), BLOW_MS)
        node.lives(arrivals(heard, at, downs), down)
        told_ms = [one.at_ms - BLOW_MS for one in node.made.alerts if one.body["rule"] == "lost_container"]
        assert len(told_ms) == 1
        assert told_ms[0] <= MINUTE_MS
        assert not node.wrong


@pytest.mark.parametrize(("down_s", "other_s"), [(5, 0), (100, 0), (3_000, 0), (100, 70), (100, 98), (600, 150)])
@pytest.mark.parametrize("storm", [True, False], ids=["storm", "calm"])
def test_two_nodes_come_to_hold_the_same(storm: bool, down_s: int, other_s: int) -> None:
    for at, when in enumerate(WHEN):
        pair(at, storm, down_s, other_s, kept=True, when=when)


def three(seed: int, storm: bool, down_s: int, kept: bool, when: str) -> None:
    """Three, of which one is killed, and another while it is down: somebody listens all the time."""
    day = Day(f"{seed}/{down_s}/three/{when}", storm, down_s, when)
    chance = random.Random(seed)
    begins_ms = day.killed_ms + chance.randrange(-10, down_s) * SECOND_MS
    second = (begins_ms, begins_ms + chance.randrange(1, 2 * down_s) * SECOND_MS)
    downs = chance.sample([NEVER, (day.killed_ms, day.up_ms), second], 3)
    for node in day.nodes(downs, kept):
        assert not node.wrong, node.wrong[:5]
        assert node.told_lost() <= day.lost
        assert node.unaccounted() == day.lost


@pytest.mark.parametrize("down_s", [100, 3_000])
@pytest.mark.parametrize("storm", [True, False], ids=["storm", "calm"])
def test_three_nodes_come_to_hold_the_same(storm: bool, down_s: int) -> None:
    for at, when in enumerate(WHEN):
        three(at, storm, down_s, kept=True, when=when)


def many(seed: int) -> None:
    """Every time down, every time at which boxes fall, in a storm and in calm water; one node, two and three."""
    for down_s in DOWN_S:
        for when in WHEN:
            for storm in (True, False):
                for kept in (True, False):
                    alone(seed, storm, down_s, kept, when)
                three(seed, storm, down_s, kept=True, when=when)
                pair(seed, storm, down_s, 0, kept=True, when=when)
                pair(seed, storm, down_s, down_s * 2 // 3, kept=False, when=when)


@pytest.mark.timeout(3_600)
@pytest.mark.long
@pytest.mark.parametrize("seed", [10, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(11, 20))])
def test_the_same_of_many(seed: int) -> None:
    many(seed)
