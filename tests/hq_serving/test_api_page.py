"""Goal: the API's reference names each endpoint, and with api-fields.md and records.md each field of the example answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, get_args

from fastapi.routing import APIRoute

from hq.api.api_reference import page
from hq.api.app import ENDPOINTS, describe_api
from hq.api.codes import MEANINGS, Code
from hq.api.examples import EXAMPLES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE, FIELDS, RECORDS = ((REFERENCE / name).read_text() for name in ("api.md", "api-fields.md", "records.md"))
IN_REPORTS = {"lines", "lost", "at_risk", "found", "sendings", "receipts"}
OF_OTHERS = {*IN_REPORTS, "area", "limits", "load_list", "gauges", "counts", "signals", "names", "reasons"}
"""Fields whose content another page describes, or whose content is named by the values themselves."""


def test_the_page_lists_the_endpoints_of_the_api_and_no_others() -> None:
    routes = [route for module in ENDPOINTS.values() for route in module.router.routes if isinstance(route, APIRoute)]
    there = {f"{method} /api{route.path.replace(':path', '')}" for route in routes for method in route.methods or ()}
    assert set(re.findall(r"`((?:GET|POST) /api/[\w/{}.-]+)", PAGE)) == there


def test_the_reference_at_docs_shows_the_first_paragraph_of_each_endpoint_whole() -> None:
    schema = describe_api()
    first = [unescape(re.sub("<[^>]+>", "", text)) for text in re.findall(r"<span>(.*?)</span>", page(schema), re.DOTALL)]
    told = [one["description"].partition("\n\n")[0].replace("`", "") for methods in schema["paths"].values() for one in methods.values()]
    assert first == told


def test_the_page_names_each_field_of_the_examples() -> None:
    words = set(re.findall(r"\w+", FIELDS + RECORDS))
    assert {name for example in EXAMPLES.values() for name in fields(example)} - words == set()


def test_each_code_has_its_meaning() -> None:
    assert list(MEANINGS) == list(get_args(Code))


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
