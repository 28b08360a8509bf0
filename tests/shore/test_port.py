"""Goal: a port's node takes its quay's sensors in and tells what stands there; headquarters' word reaches the ship."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from pydantic import ValidationError

from cargo.vocabulary.registry_entries import entry_body
from intake.settings import EndpointSettings, IntakeSettings
from shore.port import PortNode
from shore.settings import PortSettings
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.shore.test_aboard import BOXES, EVER, REGISTRY
from tests.support.fleet import address, introduced, settings, started, until
from tests.support.pahoclients import close
from tests.support.refusals import refusal

QUAY = IntakeSettings(endpoint=EndpointSettings(port=0, anonymous_publish=("landfall/#",)))


def _publish(port: int, readings: list[tuple[str, dict[str, object]]]) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        for box, reading in readings:
            client.publish(f"landfall/containers/{box}/reading", json.dumps(reading), qos=1).wait_for_publish(60)
    finally:
        close(client)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Stops what a test started, the last first, also where it fails: what is left open is blamed on the next test."""
    async with AsyncExitStack() as one:
        yield one


async def test_what_the_quay_hears_is_in_the_log_and_told(stack: AsyncExitStack, tmp_path: Path) -> None:
    hq = await started("hq", tmp_path)
    stack.push_async_callback(hq.stop)
    port = PortNode(PortSettings(node=settings("tokyo", tmp_path), intake=QUAY))
    stack.push_async_callback(port.stop)
    await port.start()
    await until(lambda: port.intake.port is not None)
    began_ms = WallClock().now_ms() - 120_000
    readings: list[tuple[str, dict[str, object]]] = [
        (box, {"device": f"TRK-{box}", "at": began_ms + 20_000 * at, "gateway": "Q-1", "return_c": 4.0}) for at in range(6) for box in BOXES
    ]
    await asyncio.to_thread(_publish, port.intake.port or 0, readings)
    log = port.node.log
    assert sum(log.position("containers").values()) == len(readings)

    def gated_in() -> set[str]:
        rows = [row.record for batch in log.read("events", Position()) for row in batch.rows()]
        return {record.topic for record in rows if (record.body or {})["event"] == "GTIN"}

    await until(lambda: gated_in() == set(BOXES))
    port.node.link([address("tokyo", "hq", hq.url)])
    await until(lambda: hq.log.position("events").reaches(log.position("events")))
    assert not sum(hq.log.position("exceptions").values())


async def test_a_load_list_written_at_headquarters_reaches_the_ship(stack: AsyncExitStack, tmp_path: Path) -> None:
    hq = PortNode(PortSettings(node=settings("hq", tmp_path)))
    stack.push_async_callback(hq.stop)
    await hq.start()
    tokyo, ship = await started("tokyo", tmp_path), await started("ship-a", tmp_path)
    for node in (tokyo, ship):
        stack.push_async_callback(node.stop)
    await introduced(ship, hq.node)
    tokyo.link([address("tokyo", "hq", hq.node.url)])
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await hq.node.append([Append("registry", to_batch([Record(entry.topic, body=entry_body(entry)) for entry in REGISTRY]))])
    await until(lambda: sum(ship.log.position(f"aboard/{EVER}").values()) == 8)
    await until(lambda: set(ship.log.streams()) - {"metrics", "exceptions"} == {f"aboard/{EVER}", f"aboard/{EVER}.heads"})
    assert tokyo.log.position("registry") == hq.node.log.position("registry")
    acknowledged = {"alert_id": "77", "rule": "lost", "severity": "alarm", "state": "acknowledged", "ship": EVER, "at_ms": 5, "by": "ops"}
    await hq.node.append([Append("alerts", to_batch([Record("MSKU1234565", body=acknowledged)]))])
    await until(lambda: sum(ship.log.position(f"aboard/{EVER}").values()) == 9)
    assert ship.log.latest(f"aboard/{EVER}", "acknowledgement/77")


def test_settings_say_what_is_wrong(tmp_path: Path) -> None:
    with refusal(ValidationError, "node.role"):
        PortSettings(node=settings("ship-a", tmp_path))
    with refusal(ValidationError, "intake.endpoint"):
        PortSettings(node=settings("hq", tmp_path), intake=QUAY)
