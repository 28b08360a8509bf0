"""Goal: docs/reference/streams-table.md names every field of the records that the code has types for, and every stream with defaults;
docs/reference/node-http.md every route of a node; docs/internals/sync.md every message of the protocol."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from cargo.alerts.alert_log import Alert
from cargo.shore_rules.ship_queries import Answer, Ask
from cargo.alerts.crew_decisions import Said
from cargo.shore_rules.digests import DIGEST_SIGNALS
from cargo.report.loss_report import Content, Head, Receipt, Sending
from cargo.vocabulary.registry_entries import ENTRY_TYPES
from streams.config.stream_definitions import DEFAULTS
from streams.replication.sync_messages import Message

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "streams-table.md").read_text()
SHORT = re.compile(r"<([\w|]+)>_<([\w|]+)>_c")
SECTIONS = {
    "Alerts": tuple(field.name for field in fields(Alert) if field.name != "topic"),
    "Reports": tuple(name for kind in (Head, Content, Sending, Receipt) for name in kind.__struct_encode_fields__),
    "Decisions": Said.__struct_encode_fields__,
    "aboard/\\<imo\\>": Ask.__struct_encode_fields__,
    "Answers": Answer.__struct_encode_fields__,
}


def section(heading: str) -> str:
    """The text below a heading of the second level."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def lacking(text: str, names: tuple[str, ...]) -> set[str]:
    """Those of `names` that do not stand in `text`."""
    return set(names) - set(re.findall(r"\w+", text))


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_section_names_each_field_of_its_records(heading: str) -> None:
    text = section(heading)
    assert text
    assert lacking(text, SECTIONS[heading]) == set()


@pytest.mark.parametrize("kind", ENTRY_TYPES)
def test_the_registry_names_each_field_of_each_type(kind: str) -> None:
    (row,) = re.findall(rf"^\| `{kind}`.*$", section("Registry"), re.MULTILINE)
    value: type[msgspec.Struct] = ENTRY_TYPES[kind]
    assert lacking(row, value.__struct_encode_fields__) == set()


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
