"""Goal: a ship answers within the day's budget, or says what it costs and when it fits; a question or answer that is none is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cargo.errors import BadEntry
from cargo.shore_rules.ship_queries import RECORDS_MAX, Allowance, Ask, QueryMatch, answered, read_answer, read_ask
from cargo.vocabulary.trade_codes import make_container

BODY: dict[str, Any] = {
    "ask_id": "a1",
    "ship": "9321483",
    "container": make_container("DUCU", 1),
    "since_at_ms": 1,
    "until_at_ms": 2,
    "spend": "budget",
    "at_ms": 3,
    "by": "Mira",
}
SATELLITE = Allowance("satellite", "2026-12-31", free_bytes=1_000, day_bytes=5_000, price_per_mb=8.0, opening_bytes=100)


LEASED = " besides what its open link holds on lease, which is given back as it closes"
Agreed = dict[str, Any]
"""What a question says of the price."""
PRICE_ALONE: Agreed = {"spend": "nothing"}


def said(bytes_: int, agreed: Agreed | None = None, allowance: Allowance | None = SATELLITE, records: int = 40, before: int = 0) -> Any:
    return answered(read_ask({**BODY, **(agreed or {})}), QueryMatch(records, before, bytes_), allowance, 5, 6)


@pytest.mark.parametrize(
    ("bytes_", "agreed", "state", "granted", "words"),
    [
        (1_000, {}, "answered", 0, "cost 0.0080: 40 records, 1,000 bytes over the satellite link; 1,000 bytes are left today" + LEASED),
        (
            1_001,
            {},
            "priced",
            0,
            "it fits from 2027-01-01 00:00 UTC on, when the next day's budget begins, or agree to its price (--at-most)",
        ),
        (5_001, {}, "priced", 0, "more than the 5,000 bytes of a whole day, so ask for a shorter span"),
        (1_001, {"at_most": 0.008}, "answered", 101, "today's budget is raised by 101 bytes"),
        (1_100, {"at_most": 0.0087}, "priced", 0, f"1,000 bytes are left today{LEASED}: more than the 0.0087 agreed to"),
        (1_000, {"at_most": 0.0}, "answered", 0, "1,000 bytes are left today"),
        (9_000, PRICE_ALONE, "priced", 0, "cost 0.0720"),
    ],
)
def test_what_it_costs_and_whether_it_comes(bytes_: int, agreed: Agreed, state: str, granted: int, words: str) -> None:
    answer = said(bytes_, agreed)
    assert (answer.state, answer.granted_bytes, answer.granted_day) == (state, granted, "2026-12-31" if granted else None)
    assert answer.told.startswith(f"cost {bytes_ * 8 / 1e6:,.4f}: "), "the price first"
    assert words in answer.told
    assert read_answer(msgspec.to_builtins(answer)) == answer


@pytest.mark.parametrize(
    ("agreed", "state", "words"),
    [
        ({}, "priced", ": it comes when its price is agreed to (--at-most)"),
        ({"at_most": 3.9999}, "priced", ": more than the 3.9999 agreed to"),
        ({"at_most": 4.0}, "answered", ""),
        (PRICE_ALONE, "priced", ""),
    ],
)
def test_over_a_link_with_a_price_and_no_budget_nothing_comes_before_its_price_is_agreed_to(agreed: Agreed, state: str, words: str) -> None:
    answer = said(500_000, agreed, allowance=replace(SATELLITE, free_bytes=None))
    assert (answer.state, answer.cost, answer.free_bytes, answer.granted_bytes) == (state, 4.0, None, 0)
    assert answer.told.startswith("cost 4.0000: 40 records, 500,000 bytes ")
    assert answer.told.endswith(words)
    assert read_answer(msgspec.to_builtins(answer)) == answer
    assert said(0, allowance=replace(SATELLITE, free_bytes=None), records=0).state == "answered"


def test_a_link_without_a_budget_costs_nothing_and_what_was_sent_is_told() -> None:
    answer = said(9_000_000, allowance=None, before=7)
    assert (answer.state, answer.cost, answer.link) == ("answered", None, None)
    assert "7 were sent before" in answer.told
    assert said(0, records=0, before=7).told.count("7") == 1
    assert said(0, {"at_most": 9.0}, records=RECORDS_MAX + 1).state == "refused"


@pytest.mark.parametrize(
    "wrong",
    [
        {"ship": "9321484"},
        {"container": "a box"},
        {"until_at_ms": 1},
        {"spend": "any"},
        {"at_most": -1.0},
        {"at_most": float("inf")},
        {"at_most": float("nan")},
        {"at_most": 1.0, "spend": "nothing"},
        {"ask_id": "A/1"},
        {"by": "\0"},
        {"since_at_ms": -1},
        {"more": 1},
        {"at_ms": None},
    ],
)
def test_a_question_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadEntry):
        read_ask({**BODY, **wrong})
    assert isinstance(read_ask(BODY), Ask)


@pytest.mark.parametrize("wrong", [{"state": "lost"}, {"bytes": -1}, {"told": "\0"}, {"cost": float("inf")}, {"records": 1 << 60}])
def test_an_answer_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadEntry):
        read_answer({**msgspec.to_builtins(said(1)), **wrong})
