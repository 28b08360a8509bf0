"""Goal: the table of rules has every rule there is."""

from __future__ import annotations

from cargo.agreement import RULES as JUDGED
from cargo.alerts import SPEED, UNRELIABLE
from cargo.entitled import LOSS_RULES
from cargo.rulebook import RULES


def test_every_rule_is_in_the_table_once() -> None:
    fleet = {SPEED, UNRELIABLE, "two_ships", "missing_at_discharge", "heard_after_loss"}
    assert sorted(one.name for one in RULES) == sorted({*JUDGED, *LOSS_RULES, "stack_down", *fleet})


def test_a_loss_is_closed_by_its_report_alone() -> None:
    assert {one.name for one in RULES if "person" not in one.closes} == LOSS_RULES
