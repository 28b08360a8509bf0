"""Goal: the table of rules in the docs has every rule there is, and is the code's."""

from __future__ import annotations

from cargo.agreement import RULES as JUDGED
from cargo.alerts import SPEED, UNRELIABLE
from cargo.entitled import LOSS_RULES
from cargo.rulebook import RULES
from landfall.rulesdoc import TARGET, page


def test_the_page_of_alerts_is_the_codes() -> None:
    """Written anew by `python -m landfall.rulesdoc`."""
    assert TARGET.read_text(encoding="utf-8") == page()


def test_every_rule_is_in_the_table_once() -> None:
    fleet = {SPEED, UNRELIABLE, "two_ships", "missing_at_discharge", "heard_after_loss"}
    assert sorted(one.name for one in RULES) == sorted({*JUDGED, *LOSS_RULES, "stack_down", *fleet})


def test_a_loss_is_closed_by_its_report_alone() -> None:
    assert {one.name for one in RULES if "person" not in one.closes} == LOSS_RULES
