"""Goal: what passed the links of each class, and what it cost, is told over every end of the node, however it ended."""

from __future__ import annotations

import math
from pathlib import Path
from unittest.mock import ANY

import pytest

from landfall.node.peers.traffic import FILE_NAME, KEPT_EVERY_S, Passed, Traffic
from streams.config.roles import LinkClass
from streams.link_budget.daily_budget import Tariff

NOON_MS = 1_777_636_800_000
TARIFFS: dict[LinkClass, Tariff] = {"satellite": Tariff(overhead_percent=100.0, price_per_mb=5.0)}
LIVE: tuple[Passed, ...] = (("satellite", 300_000, 200_000),)
SPENT = {"since_wall_at_ms": NOON_MS, "sent_bytes": 1_300_000, "received_bytes": 700_000, "cost": 15.0}


def begun(folder: Path, now_at_ms: int = NOON_MS) -> Traffic:
    return Traffic(folder, TARIFFS, now_at_ms)


def test_a_killed_node_goes_on_counting_where_it_was_written_down(tmp_path: Path) -> None:
    """Sessions that were under way are in it, and nothing counts twice. Who dials pays."""
    traffic = begun(tmp_path)
    for _ in range(2):
        traffic.dialled("satellite", 500_000, 250_000)
    traffic.ended(("port", 7, 5))
    traffic.keep(LIVE, now_s=0.0)
    for day in (1, 2):
        traffic = begun(tmp_path, NOON_MS + day * 86_400_000)
        assert traffic.status(()) == {
            "port": {"since_wall_at_ms": NOON_MS, "sent_bytes": 7, "received_bytes": 5, "cost": None},
            "satellite": SPENT,
        }
        traffic.keep((), now_s=0.0)


def test_it_is_written_down_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    traffic = begun(tmp_path)
    traffic.keep((), now_s=0.0)
    assert not (tmp_path / FILE_NAME).exists(), "nothing has passed"
    traffic.keep(LIVE, now_s=0.0)
    before = (tmp_path / FILE_NAME).read_bytes()
    traffic.keep((*LIVE, *LIVE), now_s=KEPT_EVERY_S - 1)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    traffic.keep((*LIVE, *LIVE), now_s=KEPT_EVERY_S)
    assert begun(tmp_path).status(())["satellite"]["sent_bytes"] == 600_000
    traffic.keep((*LIVE, *LIVE, *LIVE), now_s=math.inf)
    assert begun(tmp_path).status(())["satellite"]["sent_bytes"] == 900_000


def test_on_a_full_disk_it_counts_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    traffic = begun(tmp_path)
    (tmp_path / FILE_NAME).mkdir()
    traffic.keep(LIVE, now_s=0.0)
    assert [(record.levelname, record.args) for record in caplog.records] == [("WARNING", (tmp_path / FILE_NAME, ANY))]
    (tmp_path / FILE_NAME).rmdir()
    traffic.keep(LIVE, now_s=KEPT_EVERY_S)
    assert begun(tmp_path).status(())["satellite"]["sent_bytes"] == 300_000


def test_what_does_not_read_is_told_of_and_stops_no_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE_NAME).write_text('{"since_at_ms": "yesterday"}')
    assert begun(tmp_path).status(()) == {}
    assert [(record.levelname, record.args) for record in caplog.records] == [("WARNING", (tmp_path / FILE_NAME, ANY))]
