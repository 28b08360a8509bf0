"""Goal: the master can send a loss report while the node's clock is doubted: a clock that went back puts no act before the loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from cargo.loss.watch_outcome import MadeRecord, WatchPlace
from cargo.loss.watch_state import WatchSettings
from cargo.report.loss_report import Content, Head, LossReport, ReportedBox, Sending, approve, drafted, mark_sent
from edge.services.loss_report_service import LossReports
from landfall.node.node import Node
from landfall.node.settings import NodeSettings
from landfall.watch.watch_service import Watching
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.records import Record, to_batch
from tests.support.fleet import Stepped
from tests.support.sea import HOUR_MS, SHIP

YEARS_MS = 10 * 365 * 24 * HOUR_MS


class Settled(Watching):
    """A watch whose readings show `at_ms`."""

    at_ms = 0

    async def asks(self) -> tuple[list[tuple[int, float]], int, tuple[str, ...]]:
        return [], self.at_ms, ()


@pytest.mark.parametrize("ahead_ms", [0, -YEARS_MS, YEARS_MS])
async def test_a_report_is_approved_and_sent_whatever_the_clock_shows(tmp_path: Path, ahead_ms: int) -> None:
    clock = Stepped(WallClock().now_ms())
    node = Node(NodeSettings.model_validate({"node": "ship-a", "role": "ship", "identity": SHIP, "folder": tmp_path}), clock)
    await node.start()
    lost_at_ms = clock.at_ms - HOUR_MS
    watching = Settled(WatchSettings(WatchPlace("ship-a", ship=SHIP)), tmp_path, node.clock, node.metrics, node.report)
    watching.at_ms = clock.at_ms - 60_000
    box = ReportedBox(container="MSKU1234565", at_ms=lost_at_ms, lost_at_ms=lost_at_ms, lost_until_ms=lost_at_ms + 60_000)
    draft = drafted(Head("i-1", SHIP, "INITIAL", 1), Content({}, (box,), (), ()), "news", 0, "ship-a", lost_at_ms + 90_000)
    await node.append([Append("reports", to_batch([Record(draft.topic, device_at_ms=draft.at_ms, body=draft.body)]))])
    reports = LossReports(node, watching)
    clock.ahead_ms = ahead_ms
    assert node.clock.doubted() == bool(ahead_ms)

    def sent(report: LossReport, at_ms: int) -> MadeRecord:
        return mark_sent(report, Sending(at_ms, "COASTAL_STATE", "RCC", "Inmarsat-C", "Master Moe"), at_ms)

    await reports.change("i-1-1", lambda report, at_ms: approve(report, "Master Moe", at_ms))
    report = await reports.change("i-1-1", sent)
    [sending] = report.sendings
    assert (report.state, report.clock_doubted) == ("sent", bool(ahead_ms))
    assert lost_at_ms < sending.sent_at_ms <= clock.at_ms
    await node.stop()
