"""Goal: storm mode begins with one hard roll, does not flap, ends once she lies calm, and is asked for again and again meanwhile."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cargo.errors import BadEntry
from cargo.rules.storm_mode import CALLED_MAX, Request, RollCall, StormRequests, StormRules, storm_span

RULES = StormRules()
MINUTE_MS = 60_000
SHIP = "9321483"


def minutely(*degrees: float) -> list[tuple[int, float]]:
    return [(n * MINUTE_MS, deg) for n, deg in enumerate(degrees)]


@pytest.mark.parametrize(
    ("degrees", "ends_min"),
    [
        ((), 0),
        ((9.9, 10.0), 0),
        ((10.1,), 30),
        ((10.1, 8.0, 8.0), 30),
        ((10.1, 8.1, 8.1), 32),
        ((*[8.5] * 50, 7.0), 0),
        ((10.1, *[9.0] * 100), 130),
        ((10.1, *[7.9] * 29), 30),
        ((10.1, *[7.9] * 30), 0),
        ((10.1, *[7.9] * 30, 9.0), 0),
        ((10.1, *[7.9] * 40, 12.0), 71),
    ],
)
def test_when_it_is_in_force(degrees: tuple[float, ...], ends_min: int) -> None:
    assert storm_span(minutely(*degrees), RULES)[1] == ends_min * MINUTE_MS


@given(st.lists(st.floats(0, 45), max_size=120))
def test_it_never_begins_without_a_hard_roll_nor_ends_within_half_an_hour_of_one(degrees: list[float]) -> None:
    rolls = minutely(*degrees)
    hard = [at_ms for at_ms, deg in rolls if deg > RULES.begins_deg]
    since_ms, until_ms = storm_span(rolls, RULES)
    assert since_ms in hard or not until_ms
    assert bool(until_ms) <= bool(hard)
    if hard and rolls[-1][0] < hard[-1] + RULES.calm_ms:
        assert until_ms >= hard[-1] + RULES.calm_ms


def test_what_is_said_when() -> None:
    """How things stand at first; the request at once with a drill, without it when that is over, again each 10 min while it lasts, and
    its end once."""
    asking, said, calls = StormRequests(SHIP, RULES), [], []
    degrees = [3.0, 12.0, *[9.0] * 20, *[3.0] * 60]
    for minute in range(len(degrees)):
        rolls = minutely(*degrees[: minute + 1])
        if (request := asking.due(rolls, minute * MINUTE_MS)) is not None:
            said.append((request.at // MINUTE_MS, request.interval_s, request.holds_s))
            calls.append(request.roll_call)
        assert asking.due(rolls, minute * MINUTE_MS) is None, "once"
    assert said == [(0, None, 0), *((minute, 60, 1_800) for minute in (1, 2, 12, 22, 32, 42)), (51, None, 0)]
    assert calls == [None, RollCall(10, 60), *[None] * 6]


def test_after_a_restart_it_asks_for_what_it_asked_before() -> None:
    rolls = minutely(12.0, *[9.0] * 20)
    again = StormRequests(SHIP, RULES).due(rolls, rolls[-1][0])
    assert again is not None
    assert again.interval_s == 60


def test_a_drill_is_said_again_till_it_is_over_and_each_sixth_hour() -> None:
    """Its seconds are those that are left; at 06:00 UTC of a storm there is another one."""
    asking, told = StormRequests(SHIP, RULES), []
    hours_ms = 6 * 60 * MINUTE_MS
    rolls = [(minute * MINUTE_MS, 12.0) for minute in range(5 * 60, 7 * 60)]
    for now_ms in [*range(5 * 60 * MINUTE_MS, 5 * 60 * MINUTE_MS + 60_000, 500), *range(hours_ms - 1_000, hours_ms + 60_000, 500)]:
        if (request := asking.due(rolls, now_ms)) is not None and request.roll_call:
            told.append((now_ms % MINUTE_MS, request.roll_call.holds_s, request.roll_call.containers))
    assert told == [(at_ms, 60 - at_ms // 1_000, None) for at_ms in range(0, 60_000, 10_000)] * 2


def test_who_is_called_is_said_at_once_and_again_beside_the_storms_request() -> None:
    """Others being called are said at once; of too many no name is; the end of the call is said once. A call needs no storm mode."""
    asking, calm, told = StormRequests(SHIP, RULES), StormRequests(SHIP, RULES), []
    rolls, begins_ms = minutely(12.0), MINUTE_MS
    two, three = ("MSKU1234565", "TGHU7654327"), ("MSKU1234565", "MSKU1234570", "TGHU7654327")
    many = tuple(f"MSKU{at:07d}" for at in range(CALLED_MAX + 1))
    for now_ms, called in [
        (0, two),
        (500, two),
        (1_000, three),
        (9_000, three),
        (11_000, three),
        (11_500, many),
        (12_000, ()),
        (12_500, ()),
    ]:
        if (request := asking.due(rolls, begins_ms + now_ms, called)) is not None:
            told.append((now_ms, request.interval_s, request.roll_call))
    named = [RollCall(5, 180, names) for names in (two, three, three)]
    assert told == [
        *((at, 60, call) for at, call in zip((0, 1_000, 11_000), named, strict=True)),
        (11_500, 60, RollCall(10, 180)),
        (12_000, 60, None),
    ]
    assert calm.due([], 0, two) == Request(SHIP, 0, None, 0, RollCall(5, 180, two))


def test_how_a_request_is_written() -> None:
    request = Request(SHIP, 1_777_593_600_000, 60, 1_800)
    assert json.loads(request.to_bytes()) == {"ship": SHIP, "at": 1_777_593_600_000, "interval_s": 60, "holds_s": 1_800}
    assert Request.from_bytes(request.to_bytes()[:-1] + b', "newer": [1]}') == request
    called = Request(SHIP, 1, 60, 1_800, RollCall(5, 180, ("MSKU1234565",)))
    assert json.loads(called.to_bytes())["roll_call"] == {"interval_s": 5, "holds_s": 180, "containers": ["MSKU1234565"]}
    assert Request.from_bytes(called.to_bytes()) == called
    assert json.loads(Request(SHIP, 1, 60, 1_800, RollCall(10, 40)).to_bytes())["roll_call"] == {"interval_s": 10, "holds_s": 40}
    none_at_all = b'{"ship": "9321483", "at": 1, "interval_s": 60, "holds_s": 1, "roll_call": {"interval_s": 0, "holds_s": 1}}'
    for bad in (none_at_all, b"", b"{", b"[]", b'{"ship": "9321483", "at": 1, "interval_s": 0, "holds_s": 1}', b'{"interval_s": 60}'):
        with pytest.raises(BadEntry):
            Request.from_bytes(bad)
