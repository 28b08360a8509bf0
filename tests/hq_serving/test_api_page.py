"""Goal: the API's reference names each endpoint, and has an example answer of each; api-fields.md describes each account of a container."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import get_args

from fastapi.routing import APIRoute

from cargo.loss.accounted_boxes import Account
from hq.api.api_reference import page
from hq.api.app import ENDPOINTS, describe_api
from hq.api.codes import MEANINGS, Code
from hq.api.examples import EXAMPLES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE, FIELDS = ((REFERENCE / name).read_text() for name in ("api.md", "api-fields.md"))


def test_the_page_lists_the_endpoints_of_the_api_and_no_others() -> None:
    routes = [route for module in ENDPOINTS.values() for route in module.router.routes if isinstance(route, APIRoute)]
    there = {f"{method} /api{route.path.replace(':path', '')}" for route in routes for method in route.methods or ()}
    assert set(re.findall(r"`((?:GET|POST) /api/[\w/{}.-]+)", PAGE)) == there


def test_the_reference_at_docs_shows_the_first_paragraph_of_each_endpoint_whole() -> None:
    schema = describe_api()
    first = [unescape(re.sub("<[^>]+>", "", text)) for text in re.findall(r"<span>(.*?)</span>", page(schema), re.DOTALL)]
    told = [one["description"].partition("\n\n")[0].replace("`", "") for methods in schema["paths"].values() for one in methods.values()]
    assert first == told


def test_each_code_has_its_meaning() -> None:
    assert list(MEANINGS) == list(get_args(Code))


def test_the_reference_has_each_example_answer() -> None:
    shown = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    frame = {"clock", "as_of_at_ms"}
    assert shown == [fields for example in EXAMPLES.values() if (fields := {k: v for k, v in example.items() if k not in frame})]


def test_each_account_of_a_container_has_its_meaning() -> None:
    table = FIELDS.partition("## Accounted for\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    assert sorted(name for names in rows for name in re.findall(r"`(\w+)`", names)) == sorted(get_args(Account))
