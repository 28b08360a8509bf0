"""Goal: the settings a person reads about are the settings there are."""

from __future__ import annotations

from landfall.settingsdoc import TARGET, page


def test_the_page_is_what_the_code_says() -> None:
    assert TARGET.read_text() == page(), "write it anew with `python -m landfall.settingsdoc`"


def test_every_process_and_table_is_there() -> None:
    told = page()
    assert all(f"## `landfall {name}`" in told for name in ("ship", "port", "analytics", "projector", "api", "dashboards", "sim run"))
    assert all(f"## {table}" in told for table in ("NodeSettings", "EndpointSettings", "SparkSettings", "KnownPeer"))
