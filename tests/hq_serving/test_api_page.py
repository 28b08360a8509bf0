"""Goal: docs/reference/api.md names each endpoint of the API, and with streams-table.md each field of the example answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from fastapi.routing import APIRoute

from hq.api import errors
from hq.api.endpoints import alerts, asks, bookings, containers, fleet, ports, registry, reports, searcharea, session, status
from hq.api.examples import EXAMPLES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE, RECORDS = ((REFERENCE / name).read_text() for name in ("api.md", "streams-table.md"))
PARTS = (session, fleet, containers, alerts, bookings, ports, registry, reports, searcharea, asks, status)
IN_REPORTS = {"lines", "lost", "at_risk", "found", "sendings", "receipts"}
OF_OTHERS = {*IN_REPORTS, "area", "limits", "load_list", "gauges", "counts", "signals", "names", "reasons"}
"""Fields whose content another page describes, or whose content is named by the values themselves."""


def test_the_page_lists_the_endpoints_of_the_api_and_no_others() -> None:
    routes = [route for part in PARTS for route in part.router.routes if isinstance(route, APIRoute)]
    there = {f"{method} /api{route.path.replace(':path', '')}" for route in routes for method in route.methods or ()}
    assert set(re.findall(r"`((?:GET|POST) /api/[\w/{}.-]+)", PAGE)) == there


def test_the_page_names_each_field_of_the_examples() -> None:
    words = set(re.findall(r"\w+", PAGE + RECORDS))
    assert {name for example in EXAMPLES.values() for name in fields(example)} - words == set()


def test_the_page_lists_the_codes_of_refusals_and_no_others() -> None:
    table = PAGE.partition("## Error codes\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \| \d", table, re.MULTILINE) == list(get_args(errors.Code))


def fields(example: Any) -> Iterator[str]:
    """The names of all fields in an example answer, those that are described elsewhere left out."""
    if isinstance(example, dict):
        for name, value in example.items():
            yield name
            if name not in OF_OTHERS:
                yield from fields(value)
    elif isinstance(example, list):
        for item in example:
            yield from fields(item)
