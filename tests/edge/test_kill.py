"""Goal: killed with SIGKILL between any two commits it makes, a ship has every acknowledged reading exactly once, and every alert once.

Linked to the fleet: `tests/shore/test_kill.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cargo.vocabulary.trade_codes import make_container
from tests.intake.mosquitto import mosquitto
from tests.node.points import SENSED
from tests.support.aboard import Gateway, Message, ShipProcess, fleet_clock, ship
from tests.support.process import wait
from tests.support.sea import SHIP, START_MS

BOXES, SPEAKS = 20, 15
MINUTE_MS = 60_000
NOW_MS = START_MS + 24 * 60 * MINUTE_MS


def messages() -> list[Message]:
    """Boxes that speak every minute and are struck once each; the ship's position lets time pass until all is decided."""
    said: list[tuple[int, str, dict[str, Any]]] = []
    for box in range(BOXES):
        topic = f"landfall/containers/{make_container('DUCU', box)}/reading"
        for n in range(SPEAKS):
            signals = {"ambient_c": 20 + n / 10, "gateway": f"GW-{box % 2}"} | ({"shock_g": 5.0 + box} if n == box % SPEAKS else {})
            said.append((START_MS + n * MINUTE_MS + box * 1_000, topic, {"device": f"TRK-{box}", **signals}))
    for n in range(SPEAKS + 1):
        where = {"device": "GPS-1", "latitude_deg": 20 + n / 1_000, "longitude_deg": 140.0, "speed_kn": 12.0, "course_deg": 0.0}
        said.append((START_MS + n * MINUTE_MS + 59_000, f"landfall/ships/{SHIP}/location", where))
    said.sort(key=lambda one: one[0])
    return [(topic, json.dumps({"at": at_ms, **fields}).encode()) for at_ms, topic, fields in said]


def readings_of(rows: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return sorted((row["topic"], row["device_at_ms"], json.dumps(row["signals"], sort_keys=True)) for row in rows)


def check(process: ShipProcess) -> None:
    """Every reading once, with every field; every blow one event and one alert."""
    wanted = []
    for topic, payload in messages():
        fields = json.loads(payload)
        signals = {name: value for name, value in fields.items() if name not in ("at", "device")}
        stored_as = topic.removeprefix("landfall/containers/").removesuffix("/reading")
        stored_as = f"{SHIP}.location" if "ships" in topic else stored_as
        wanted.append((stored_as, fields["at"], json.dumps(signals, sort_keys=True)))
    assert readings_of(process.rows("containers") + process.rows("ships")) == sorted(wanted)
    wait(lambda: len(process.rows("alerts")) >= BOXES, process.tail)
    struck = {make_container("DUCU", box) for box in range(BOXES)}
    assert sorted(row["topic"] for row in process.rows("alerts") if row["body"]["rule"] == "shock") == sorted(struck)
    assert sorted(row["topic"] for row in process.rows("events") if row["body"]["event"] == "X_SHOCK") == sorted(struck)
    for stream, id_ in (("alerts", "alert_id"), ("events", "event_id")):
        ids = [(row["body"][id_], row["body"].get("state")) for row in process.rows(stream)]
        assert len(set(ids)) == len(ids)


def shares() -> list[list[Message]]:
    """The messages, in order: a share for each life that ends with a kill, and for the last."""
    said, lives = messages(), len(SENSED) + 1
    return [said[n * len(said) // lives : (n + 1) * len(said) // lives] for n in range(lives)]


def test_the_endpoint_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Killed again while it takes up what the kill before has left."""
    with fleet_clock(NOW_MS) as clock, ship(tmp_path, clock=clock) as process, Gateway(process.mqtt_port) as gateway:
        *killed, last = shares()
        for point, share in zip(SENSED, killed, strict=True):
            process.start(f"{point}:1")
            gateway.publish(share)
            wait(process.dead, process.tail)
        process.start()
        gateway.publish(last)
        wait(gateway.done, process.tail)
        process.wait_ready()
        check(process)
        assert process.stop() == 0


def test_behind_a_broker_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker, fleet_clock(NOW_MS) as clock, Gateway(broker.port) as gateway:
        more = f'[intake.broker]\nport = {broker.port}\nclient_id = "ship"\n'
        with ship(tmp_path, more, clock, endpoint=False) as process:
            *killed, last = shares()
            for point, share in zip(SENSED, killed, strict=True):
                process.start(f"{point}:1")
                wait(lambda: subscribed(process) or process.dead(), process.tail)
                gateway.publish(share)
                wait(process.dead, process.tail)
            gateway.publish(last)
            wait(gateway.done, process.tail)
            process.start()
            process.wait_ready()
            wait(lambda: len(process.rows("containers")) + len(process.rows("ships")) >= len(messages()), process.tail)
            check(process)
            assert process.stop() == 0


def subscribed(process: ShipProcess) -> bool:
    """Whether the broker keeps for the ship what comes from now on."""
    return ((process.status() or {}).get("intake") or {}).get("broker_connected") is True
