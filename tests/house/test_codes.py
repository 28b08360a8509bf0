"""Goal: what refuses a person or a program has a code of its own, and the page of a node's HTTP interface lists those it answers with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("streams", "landfall", "cargo", "intake", "edge", "shore", "hq", "sim", "dashboards")
WITH_CODE = {
    "NotAllowed", "Misuse", "RetryLater", "Corrupt", "InvalidValue", "CargoError", "Refuse", "Damage", "Hole", "LogFinding", "failure",
    "problem_response",
}  # fmt: skip
"""What is made with a code each time. What a disk does not return has the code of its class, `unreadable`."""
REPORTED = {"report", "_report"}


NODE = ("streams", "intake", "edge", "shore", "landfall/node", "landfall/access", "landfall/transport", "landfall/watch")
"""What reports to `exceptions` through a node: reason, outcome and details, one of which is the code."""


@cache
def calls() -> list[tuple[str, ast.Call]]:
    return list(_calls())


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for file in (file for top in PRODUCT for file in sorted((ROOT / top).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and made(node) in WITH_CODE | REPORTED:
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def made(call: ast.Call) -> str:
    """The name of what is called, without its module."""
    return call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""


def code_of(call: ast.Call) -> ast.expr | None:
    if made(call) == "problem_response":
        return call.args[2]
    return next((word.value for word in call.keywords if word.arg == "code"), None)


def test_every_refusal_has_a_code() -> None:
    assert [place for place, call in calls() if made(call) in WITH_CODE and code_of(call) is None] == []


def test_every_report_of_a_node_has_a_code() -> None:
    reports = [(place, call) for place, call in calls() if made(call) in REPORTED and len(call.args) == 2 and place.startswith(NODE)]
    assert len(reports) > 50
    assert [place for place, call in reports if code_of(call) is None and not passes_on(call)] == []


def passes_on(call: ast.Call) -> bool:
    """Whether the call gives on what it was given itself, the code among it."""
    return all(isinstance(given, ast.Name) for given in call.args) and [word.arg for word in call.keywords] == [None]


def test_a_code_is_words_of_small_letters() -> None:
    codes = [(place, str(code.value)) for place, call in calls() if isinstance(code := code_of(call), ast.Constant)]
    assert [one for one in codes if not re.fullmatch(r"[a-z]+(_[a-z]+)*", one[1])] == []


def test_the_page_of_a_node_lists_each_code_of_its_interface() -> None:
    page = (ROOT / "docs/reference/node-http.md").read_text()
    files = (
        "landfall/node/http/",
        "landfall/node/lost_offsets.py",
        "landfall/node/write_authorization.py",
        "edge/console/",
        "streams/arrow_ipc.py",
    )
    answers = [call for place, call in calls() if place.startswith(files) and made(call) in WITH_CODE]
    found = {str(code.value) for call in answers if isinstance(code := code_of(call), ast.Constant)}
    assert {code for code in found if f"`{code}`" not in page} == set()
