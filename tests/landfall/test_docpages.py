"""Goal: the generated reference pages are the code's, and complete."""

from __future__ import annotations

import re

import pytest

from cargo.vocabulary.registry_entries import ENTRY_TYPES
from cargo.vocabulary.signals import SIGNALS
from landfall.docs import commands_page, records_page, settings_page, signals_page
from landfall.docs.markdown_tables import table
from landfall.docs.pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_in_the_repository_is_the_generated_one(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `python -m landfall.docs.pages`"


def test_every_process_and_table_has_its_settings() -> None:
    headings = set(re.findall(r"^## (.+)$", settings_page.page(), re.MULTILINE))
    assert headings >= {f"`landfall {name}`" for name in ("ship", "port", "analytics", "projector", "api", "dashboards", "sim run")}
    assert headings >= {"NodeSettings", "EndpointSettings", "SparkSettings", "KnownPeer"}


def test_every_command_has_its_options() -> None:
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", commands_page.page(), re.MULTILINE))
    assert sections.keys() >= {"landfall demo", "landfall ship", "landfall ship link", "landfall log history", "landfall search-area"}
    assert "| `--folder`, `-f` |" in sections["landfall log history"]


def test_every_signal_has_its_unit_and_range() -> None:
    page = signals_page.page()
    assert re.findall(r"^\| `(\w+)` ", page, re.MULTILINE) == list(SIGNALS)
    assert "| `battery_mv` | int | mV | 0 | 60,000 |" in page


def test_every_type_of_a_record_has_its_fields() -> None:
    sections = dict(re.findall(r"^### (.+)\n((?:(?!##).*\n)*)", records_page.page(), re.MULTILINE))
    assert sections.keys() >= {kind.__name__ for kind in ENTRY_TYPES.values()}
    assert "| `from` | text |" in sections["Booking"]
    assert "| `limits`? | [Climate](#climate) |" in sections["Booking"]
    assert "| `granted_day`? | text or null |" in sections["Answer"]


def test_a_cell_can_not_break_its_table() -> None:
    assert table(("a",), [("x | y\nz",)]) == "| a |\n| --- |\n| x \\| y z |\n"
