"""Goal: docs/reference/streams-table.md names every column of a digest, and every stream with defaults;
docs/reference/node-http.md every route of a node; docs/internals/sync.md every message of the protocol."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from cargo.shore_rules.digests import DIGEST_SIGNALS
from streams.config.stream_definitions import DEFAULTS
from streams.replication.sync_messages import Message

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "streams-table.md").read_text()
SHORT = re.compile(r"<([\w|]+)>_<([\w|]+)>_c")


def section(heading: str) -> str:
    """The text below a heading of the second level."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def lacking(text: str, names: tuple[str, ...]) -> set[str]:
    """Those of `names` that do not stand in `text`."""
    return set(names) - set(re.findall(r"\w+", text))


def test_the_digests_have_each_column() -> None:
    text = section("Digests")
    (airs, parts) = (part.split("|") for part in SHORT.findall(text)[0])
    assert lacking(text, DIGEST_SIGNALS) == {f"{air}_{part}_c" for air in airs for part in parts}


def test_each_stream_with_defaults_is_in_the_table() -> None:
    table = PAGE.partition("\n## ")[0].replace("<imo>", "*").replace("<id>", "*")
    assert [stream for stream in DEFAULTS if f"`{stream}`" not in table] == []


def test_the_page_of_a_nodes_http_interface_has_each_of_its_routes() -> None:
    source, page = (ROOT / "landfall/node/http/http_api.py").read_text(), (ROOT / "docs/reference/node-http.md").read_text()
    routes = {f"{method} {path.replace(':.+', '')}" for method, path in re.findall(r'\("(GET|POST)", "([^"]+)",', source)}
    assert routes
    assert set(re.findall(r"^\| `((?:GET|POST) [/\w{}]+)", page, re.MULTILINE)) == routes


def test_the_page_of_the_sync_protocol_has_each_message_with_its_number() -> None:
    page = (ROOT / "docs/internals/sync.md").read_text()
    rows = re.findall(r"^\| ([\d, ]+) \| (.+?) \|", page, re.MULTILINE)
    listed = [pair for numbers, names in rows for pair in zip(map(int, numbers.split(", ")), re.findall(r"`(\w+)`", names), strict=True)]
    assert listed == sorted((message.__struct_config__.tag, message.__name__) for message in get_args(Message))
