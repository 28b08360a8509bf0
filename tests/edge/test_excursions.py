"""Goal: what led to an alert, and what came until it was over, stays whole when a ship thins."""

from __future__ import annotations

from pathlib import Path

from edge.ship import BEFORE_MS, OPEN_MS, AroundAlerts
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.streams.logkit import NOW_MS, open_log

HOUR_MS = 3_600_000


def alert(topic: str, name: str, state: str, at_ms: int) -> Append:
    return Append(
        "alerts",
        to_batch([Record(topic, body={"alert_id": name, "state": state, "at_ms": at_ms, "rule": "excursion", "severity": "ALARM"})]),
    )


def test_from_an_hour_before_it_was_raised_until_it_was_cleared(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    around = AroundAlerts(lambda: log)
    assert around("containers", 0, 1 << 60) == {}
    log.append([alert("MSKU1234565", "a", "raised", NOW_MS)])
    assert list(around("containers", 0, 1 << 60)["MSKU1234565"]) == [(NOW_MS - BEFORE_MS, NOW_MS + OPEN_MS + 1)]
    log.append([alert("MSKU1234565", "a", "cleared", NOW_MS + 60 * HOUR_MS), alert("CSQU3054383", "b", "raised", NOW_MS)])
    spans = around("containers", NOW_MS, NOW_MS + 100 * HOUR_MS)
    assert list(spans["MSKU1234565"]) == [(NOW_MS, NOW_MS + 60 * HOUR_MS + 1)], "as long as it lasted, whoever said what in between"
    assert set(spans) == {"MSKU1234565", "CSQU3054383"}
    assert around("containers", NOW_MS + 90 * HOUR_MS, NOW_MS + 100 * HOUR_MS) == {}
    log.close()
