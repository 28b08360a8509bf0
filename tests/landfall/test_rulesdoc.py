"""Goal: the table of rules has every rule there is."""

from __future__ import annotations

from cargo.alerts.alert_authorization import LOSS_RULES
from cargo.alerts.alert_log import SPEED, UNRELIABLE
from cargo.rules.rulebook import RULES
from cargo.shore_rules.alert_comparison import RULES as JUDGED


def test_every_rule_is_in_the_table_once() -> None:
    fleet = {SPEED, UNRELIABLE, "two_ships", "missing_at_discharge", "heard_after_loss"}
    assert sorted(one.name for one in RULES) == sorted({*JUDGED, *LOSS_RULES, "stack_down", *fleet})


def test_a_loss_is_closed_by_its_report_alone() -> None:
    assert {one.name for one in RULES if "person" not in one.closes} == LOSS_RULES
