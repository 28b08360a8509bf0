"""Goal: what a node's own consumers never read is in its health until `landfall consumer accept node`."""

from __future__ import annotations

from pathlib import Path

import pytest

from landfall.node import node
from streams.consumers import Consumer
from streams.log import Append
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from streams.skipped_records import ACCEPTED, NODE, TROUBLE, floor_append
from tests.support.fleet import started, until


async def test_health_shows_what_a_consumer_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("streams.skipped_records.LOOK_EVERY_S", 0.0)
    hq = await started("hq", tmp_path)
    await hq.append([Append("alerts", to_batch([Record("a")] * 20))])
    consumer = Consumer(hq.log, "watch/alerts", "alerts")
    await hq.append(consumer.with_position(Position({hq.log.origin: 5})))
    consumer.committed(Position({hq.log.origin: 5}))
    assert hq.health()["troubles"] == {}
    hq.log.trim("alerts", hq.log.origin, 12)
    await hq.append(consumer.with_position(consumer.poll_from_floor().position))
    await until(lambda: TROUBLE in hq.health()["troubles"])
    [trouble] = hq.metrics.body(0, 0)["troubles"]
    assert f"alerts:{hq.log.origin} 5..11" in trouble
    await hq.append([floor_append(NODE, "known", ACCEPTED, 0)])
    await until(lambda: not hq.health()["troubles"])
    await hq.stop()
