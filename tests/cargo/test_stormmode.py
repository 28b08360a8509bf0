"""Goal: storm mode begins with one hard roll, does not flap, ends once she lies calm, and is asked for again and again meanwhile."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cargo.errors import Unreadable
from cargo.stormmode import Asking, Request, StormRules, storms_until_ms

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
    assert storms_until_ms(minutely(*degrees), RULES) == ends_min * MINUTE_MS


@given(st.lists(st.floats(0, 45), max_size=120))
def test_it_never_begins_without_a_hard_roll_nor_ends_within_half_an_hour_of_one(degrees: list[float]) -> None:
    rolls = minutely(*degrees)
    hard = [at_ms for at_ms, deg in rolls if deg > RULES.begins_deg]
    until_ms = storms_until_ms(rolls, RULES)
    assert bool(until_ms) <= bool(hard)
    if hard and rolls[-1][0] < hard[-1] + RULES.calm_ms:
        assert until_ms >= hard[-1] + RULES.calm_ms


def test_what_is_said_when() -> None:
    """How things stand at first; the request at once, again each 10 min while it is in force, and its end once."""
    asking, said = Asking(SHIP, RULES), []
    degrees = [3.0, 12.0, *[9.0] * 20, *[3.0] * 60]
    for minute in range(len(degrees)):
        rolls = minutely(*degrees[: minute + 1])
        if (request := asking.due(rolls, minute * MINUTE_MS)) is not None:
            said.append((request.at // MINUTE_MS, request.interval_s, request.holds_s))
        assert asking.due(rolls, minute * MINUTE_MS) is None, "once"
    assert said == [(0, None, 0), (1, 60, 1_800), (11, 60, 1_800), (21, 60, 1_800), (31, 60, 1_800), (41, 60, 1_800), (51, None, 0)]


def test_after_a_restart_it_asks_for_what_it_asked_before() -> None:
    rolls = minutely(12.0, *[9.0] * 20)
    again = Asking(SHIP, RULES).due(rolls, rolls[-1][0])
    assert again is not None
    assert again.interval_s == 60


def test_how_a_request_is_written() -> None:
    request = Request(SHIP, 1_777_593_600_000, 60, 1_800)
    assert json.loads(request.to_bytes()) == {"ship": SHIP, "at": 1_777_593_600_000, "interval_s": 60, "holds_s": 1_800}
    assert Request.from_bytes(request.to_bytes()[:-1] + b', "newer": [1]}') == request
    for bad in (b"", b"{", b"[]", b'{"ship": "9321483", "at": 1, "interval_s": 0, "holds_s": 1}', b'{"interval_s": 60}'):
        with pytest.raises(Unreadable):
            Request.from_bytes(bad)
