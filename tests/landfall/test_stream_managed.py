"""Goal: who manages streams does so from the command line, through headquarters' API, and is told of every mistake at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hq_serving.conftest import PASSWORD, api_of, settings_for
from tests.hq_serving.test_registry import running_node
from tests.landfall.test_log_shown import landfall

NAME = "customers/duckworks"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Options that reach the API of a real headquarters, whose folder is the test's."""
    with running_node(tmp_path) as door, api_of(settings_for(tmp_path / "log", tmp_path, door)) as client:
        yield ("--api", str(client.base_url).rstrip("/"), "--username", "cleo", "--password", PASSWORD)


def test_a_customers_boxes_in_a_stream_with_other_settings(at: tuple[str, ...], tmp_path: Path) -> None:
    done = landfall("stream", "create", NAME, "age_days=365", "access=role:claims", *at)
    assert (done.returncode, done.stdout) == (0, f"{NAME} is set, version 1\n"), done.stderr
    assert "has settings of its own already" in landfall("stream", "create", NAME, "age_days=1", *at).stderr
    done = landfall("stream", "set", NAME, "bytes=1000000", "patience_s=5", *at)
    assert done.stdout == f"{NAME} is set, version 2\n", done.stderr
    for where in (at, ("--folder", tmp_path)):
        shown = json.loads(landfall("stream", "show", NAME, "--json", *where).stdout)
        value = shown["value"]
        assert (shown["version"], value["retention"]) == (2, {"age_days": 365, "bytes": 1_000_000}), "what is not named stays as it was"
        assert (value["patience_s"], value["access"], value["replicate"]) == (5, "role:claims", ["customer/duckworks"])
    versions = [json.loads(line) for line in landfall("stream", "versions", NAME, "--folder", tmp_path, "--json").stdout.splitlines()]
    assert [(one["version"], one["by"]) for one in versions] == [(1, "Cleo"), (2, "Cleo")]
    assert [one["value"]["access"] for one in versions] == ["role:claims"] * 2
    assert [one["value"]["retention"] for one in versions] == [{"age_days": 365}, {"age_days": 365, "bytes": 1_000_000}]
    assert "role:claims" in landfall("stream", "versions", NAME, "--folder", tmp_path).stdout
    told = landfall("stream", "show", NAME, "--folder", tmp_path).stdout
    assert "365 days" in told
    assert "1,000,000 B" in told
    listed = landfall("stream", "ls", *at).stdout
    assert [line.split()[0] for line in listed.splitlines() if "365 days" in line] == [NAME]


def test_every_mistake_is_told_at_once_and_nothing_is_set(at: tuple[str, ...]) -> None:
    done = landfall("stream", "create", "containers", "age_days=-3", "replicate=hq,customer/duckworks", "lane=fast", *at)
    told = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert all(problem in told for problem in ("age_days is a number above 0", "customers/duckworks and no other", "lane: it is one of"))
    assert "has no settings of its own" in " ".join(landfall("stream", "set", "containers", "age_days=3", *at).stderr.split())
    assert "is no setting" in landfall("stream", "create", "containers", "forever", *at).stderr
