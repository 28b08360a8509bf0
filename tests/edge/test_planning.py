"""Goal: what a plan takes a link, a record and a thinning for is what real nodes' sockets count, and what thinning makes of a real log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edge.planning.backlog_model import ShipBacklog
from edge.planning.disk_model import Buffer, Rung, rungs_of
from edge.planning.record_bytes import MessageCarrier, StreamBytes, fragment_bytes, websocket
from edge.planning.record_samples import as_heard
from edge.planning.stream_flows import Flow
from edge.planning.voyage_plan import TLS_BYTES, UPGRADE_BYTES
from landfall.cli.main import main
from landfall.node.node import Node
from landfall.node.settings import LinkSettings, TlsSettings
from landfall.storage.append_planner import stamped
from sim.steady import Steady, box_readings, ship_readings
from streams.codec import BlockCodec
from streams.config.companion_streams import kept_of
from streams.config.roles import Lane
from streams.config.stream_definitions import Definitions
from streams.link_budget.daily_budget import BYTES_A_MB
from streams.log import Append
from streams.model.clock import StillClock
from streams.retention.disk_budget import Spending, stored_bytes
from streams.retention.thinner import WINDOWS_MS
from tests.retention.thinkit import no_excursions, none_ashore
from tests.streams.logkit import NOW_MS, open_log
from tests.support.fleet import address, settings, until

RECORDS = 20
NEAR = 0.05
"""What a socket counts and the plan may be so far apart: acknowledgements that go together, a ping more or less, and TLS's tickets."""


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
async def test_a_link_and_a_record_on_it_take_what_the_socket_counts(tmp_path: Path, secured: bool) -> None:
    """The ship's position over a satellite's link, a commit each."""
    if secured:
        for words in (("authority", tmp_path / "certs"), ("node", "hq", "ship-a", "-f", tmp_path / "certs", "--host", "127.0.0.1")):
            with pytest.raises(SystemExit):
                main(["certs", *map(str, words)])
    link = LinkSettings(streams=("ships", "!ships.heads", "!ships.waiting"), budget_bytes_per_day=5 * BYTES_A_MB)
    nodes = []
    for name in ("hq", "ship-a"):
        chosen = settings(name, tmp_path).model_copy(update={"links": {"satellite": link}})
        if secured:
            certs = tmp_path / "certs"
            tls = TlsSettings(authority=certs / "authority.pem", certificate=certs / f"{name}.pem", key=certs / f"{name}.key")
            chosen = chosen.model_copy(update={"tls": tls})
        nodes.append(Node(chosen, StillClock(NOW_MS) if name == "hq" else None))
    hq, ship = nodes
    carrier, rows = MessageCarrier(websocket(secured), fragment_bytes(10**9)), ship_readings("9321483", NOW_MS, RECORDS, 600_000)
    try:
        await hq.start()
        await ship.start()
        ship.link([address("ship-a", "hq", hq.tls_url if secured else hq.url, "satellite")])
        await until(lambda: any(one["open"] for one in ship.links.status().values()))
        await until(lambda: ship.links.status()["hq"]["rtt_ms"] is not None)
        met = _spent(ship)
        meeting = UPGRADE_BYTES + (TLS_BYTES if secured else 0) + carrier.meeting(ship.settings.policy("satellite"), ship.log.origin, [])
        assert met == pytest.approx(meeting, rel=NEAR)
        for at in range(RECORDS):
            await ship.append([Append("ships", rows.slice(at, 1))])
            await until(lambda: hq.log.position("ships") == ship.log.position("ships"))
            await until(lambda: not ship.links.status()["hq"]["unacknowledged_records"])
        measured = StreamBytes(BlockCodec(), "ships", ship.log.origin, as_heard(rows).slice(0, RECORDS))
        told = Flow("ships", Lane.SHIPS, 1 / 300, measured, RECORDS).live_bytes(carrier)
        assert (_spent(ship) - met) / RECORDS == pytest.approx(told, rel=NEAR)
    finally:
        await ship.stop()
        await hq.stop()


def _spent(ship: Node) -> int:
    return int(ship.links.budgets()["satellite"]["spent_bytes"])


BOXES, EVERY_MS, HOURS, FULL_H = 40, 60_000, 12, 9
HOURLY_ROWS = BOXES * 60


def test_what_thins_is_what_thinning_makes_of_a_real_log(tmp_path: Path) -> None:
    """Readings once a minute until the disk's budget is spent, and beyond: when that is, what thins, to how many, for which windows."""
    begins_ms = NOW_MS - HOURS * 3_600_000
    readings = box_readings(Steady(begins_ms, BOXES, HOURS * 60, EVERY_MS, 4))
    clock = StillClock(begins_ms)
    log, codec, definitions = open_log(tmp_path, clock=clock), BlockCodec(), Definitions()
    rows = stamped(readings, 0, NOW_MS)
    measured = StreamBytes(codec, "containers", log.origin, rows.slice(0, HOURLY_ROWS))
    flow = Flow("containers", Lane.READINGS, BOXES / (EVERY_MS / 1000), measured, HOURLY_ROWS)
    budget = round((FULL_H - 0.5) * HOURLY_ROWS * flow.stored_bytes())
    aboard = ShipBacklog([flow], begins_ms / 1000)

    def rungs(stream: str) -> Sequence[Rung]:
        return rungs_of(stream, log.origin, [rows], codec)

    buffer = Buffer(aboard, definitions, budget, rungs)
    spending, full_h, thinned = Spending(log, definitions, none_ashore, no_excursions), 0, 0
    for hour in range(1, HOURS + 1):
        clock.advance(3_600)
        log.append([Append("containers", readings.slice((hour - 1) * HOURLY_ROWS, HOURLY_ROWS))])
        while stored_bytes(log) > budget and (step := spending.thin()):
            full_h, thinned = full_h or hour, thinned + (step.records if step.stream == "containers" else 0)
        aboard.pass_until(begins_ms / 1000 + hour * 3_600, None)
        buffer.look()
    told, kept = buffer.thinned["containers"], log.ledger(kept_of("containers"))[log.origin].held.count()
    assert buffer.full_s is not None
    assert abs((buffer.full_s - begins_ms / 1000) / 3_600 - full_h) <= 1
    assert full_h == FULL_H
    assert told.records == pytest.approx(thinned, abs=HOURLY_ROWS)
    assert told.kept == pytest.approx(kept, rel=0.1)
    assert told.window_ms == WINDOWS_MS[0]
    assert 0.02 < told.kept / told.records < 0.5, "something thins, and something stays"
    log.close()
