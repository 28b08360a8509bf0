"""Goal: the tables of docs/watch.md and docs/reference/alert-limits.md have the weights, the transitions and the limits of the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from cargo.loss.loss_classifier import DECIDED_BY_PEOPLE, WEIGHTS
from cargo.rules.climate_limits import Climate
from cargo.rules.episodes import Limits
from cargo.vocabulary.durations import duration_text

DOCS = Path(__file__).parents[2] / "docs"
WATCH = (DOCS / "watch.md").read_text()
LIMITS = (DOCS / "reference" / "alert-limits.md").read_text()
NAMED = {
    "silent together": "group",
    "stands on a lost one": "below",
    "roll": "motion",
    "free fall": "free_fall",
    "sockets": "power",
    "own position": "position",
    "battery, signal": "battery",
    "restart": "restarted",
    "stack down": "collapse",
    "discharge, in port": "discharge",
}
"""Evidence as the page names it, where it differs from the weight's name."""


def cells(page: str, head: str) -> list[list[str]]:
    """Return the rows of the table that begins with `head`."""
    lines = page.partition(f"{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_weights_are_those_in_use() -> None:
    shown = {
        NAMED.get(evidence, evidence): weight for _, evidence, weight, _ in cells(WATCH, "| family | evidence | weight | counts when |")
    }
    (promise,) = re.findall(r"\| silence \| 0 \| always; (\+[\d.]+) when the device announced", WATCH)
    del shown["silence"]
    in_use = msgspec.structs.asdict(WEIGHTS)
    probable_min = in_use.pop("probable_min")
    assert {name: float(weight.replace("−", "-")) for name, weight in shown.items()} | {"promise": float(promise)} == in_use
    assert f"at a probability of at least {probable_min}" in WATCH


def test_people_decide_what_the_code_lets_them() -> None:
    shown = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in cells(WATCH, "| from | to |")}
    assert shown == {state: set(others) for state, others in DECIDED_BY_PEOPLE.items()}


def test_the_limits_and_their_defaults_are_those_of_the_code() -> None:
    shown = {row[0].strip("`"): row[1] for row in cells(LIMITS, "| in `limits` | default | meaning |")}
    assert shown.keys() == set(Climate.__struct_fields__)
    assert shown.pop("humidity_pct") == "none"
    defaults = {name: getattr(Limits(), name) for name in shown}
    assert shown == {name: duration_text(value) if name.endswith("_ms") and value else f"{value:g}" for name, value in defaults.items()}
