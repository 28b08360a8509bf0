"""Goal: whatever a sensor sends to a ship's process, by either way in, has one clear outcome with its bytes or flags, and she goes on."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cargo.loss.reading_rows import Value
from cargo.vocabulary.signals import SIGNALS
from cargo.vocabulary.trade_codes import make_container
from intake.message_types import KEPT_BYTES_MAX, Outcome
from intake.settings import EndpointSettings
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.edge.test_kill import subscribed
from tests.intake.mosquitto import MESSAGE_BYTES_MAX, mosquitto
from tests.support.aboard import TOKEN, Gateway, Message, ShipProcess, fleet_clock, publish_all, ship
from tests.support.process import wait
from tests.support.sea import SHIP, START_MS

HOUR_MS = 3_600_000
NOW_MS = START_MS + 24 * HOUR_MS
BOX = make_container("DUCU", 1)
WRONG_DIGIT = BOX[:-1] + str((int(BOX[-1]) + 1) % 10)
LOCATION = f"landfall/ships/{SHIP}/location"
PACKET_BYTES_MAX = EndpointSettings().packet_bytes_max
HUGE = b'{"device": "T9", "note": "' + b"x" * 10_000_000 + b'"}'
HUGE_FOR_A_BROKER = HUGE[:MESSAGE_BYTES_MAX]
"""More than that the ships' Mosquitto refuses itself."""

BROKEN: tuple[tuple[str, bytes, str], ...] = (
    (f"landfall/containers/{BOX}/reading", b'{"device": "T1", "at": 17', "malformed"),
    (f"landfall/containers/{BOX}/reading", b'{"device": "T2", "at": %d, "return_c": "warm"}' % START_MS, "bad_value"),
    (f"landfall/containers/{BOX}/reading", random.Random(3).randbytes(PACKET_BYTES_MAX - 100), "malformed"),
    (f"landfall/containers/{BOX}/reading", HUGE, "oversized"),
    (LOCATION, b'{"device": "GPS-1", "at": %d, "latitude_deg": 91.0, "longitude_deg": 140.0}' % START_MS, "bad_value"),
)
"""Of these nothing is left: topic, payload, outcome in `exceptions`."""


def broken(way: str) -> list[tuple[str, bytes, str]]:
    """`BROKEN`, with no more of what is huge than a broker lets through."""
    return [(topic, HUGE_FOR_A_BROKER if payload is HUGE and way == "broker" else payload, outcome) for topic, payload, outcome in BROKEN]


def reading(number: str, device: str, at_ms: int = START_MS, **fields: Any) -> Message:
    return f"landfall/containers/{number}/reading", json.dumps({"device": device, "at": at_ms, **fields}).encode()


ODD = (
    reading(BOX, "T3", return_c="warm", supply_c=3.9, power_on=1),
    reading(BOX, "T4", return_c=4.0, mood="fine", nested={"a": [1, None]}),
    reading(WRONG_DIGIT, "T5", return_c=5.0),
    (LOCATION, b'{"device": "GPS-2", "at": %d, "latitude_deg": 91.0, "longitude_deg": 140.0, "speed_kn": 12.0}' % START_MS),
    reading(BOX, "T6", NOW_MS + HOUR_MS, return_c=6.0),
)
"""Of these something is kept."""
WANTED = {
    "T3": (BOX, {"supply_c": 3.9}, {"refused": {"return_c": "warm", "power_on": 1}, "flags": ["refused"]}),
    "T4": (BOX, {"return_c": 4.0}, {"mood": "fine", "nested": {"a": [1, None]}}),
    "T5": (WRONG_DIGIT, {"return_c": 5.0}, {"flags": ["check_digit"]}),
    "GPS-2": (f"{SHIP}.location", {"speed_kn": 12.0}, {"refused": {"latitude_deg": 91.0, "longitude_deg": 140.0}, "flags": ["refused"]}),
    "T6": (BOX, {"return_c": 6.0}, {"flags": ["future"]}),
}
"""Device → topic, signals and body, as they are stored."""


@contextmanager
def taking_in(folder: Path, way: str) -> Iterator[tuple[ShipProcess, int]]:
    """A ship's process, ready, and the port that its gateways publish to."""
    with ExitStack() as stack:
        clock = stack.enter_context(fleet_clock(NOW_MS))
        if way == "endpoint":
            process = stack.enter_context(ship(folder, clock=clock))
            process.start()
            process.wait_ready()
            yield process, process.mqtt_port
        else:
            broker = stack.enter_context(mosquitto(folder))
            more = f'[intake.broker]\nport = {broker.port}\nclient_id = "ship"\n'
            process = stack.enter_context(ship(folder, more, clock, endpoint=False))
            process.start()
            wait(lambda: subscribed(process), process.tail)
            yield process, broker.port
        assert process.stop() == 0


@pytest.mark.parametrize("way", ["endpoint", "broker"])
def test_each_has_its_outcome_and_the_ship_goes_on(tmp_path: Path, way: str) -> None:
    refused = broken(way)
    with taking_in(tmp_path, way) as (process, port):
        good = [reading(BOX, "GOOD", START_MS + n, return_c=n / 10) for n in range(20)]
        with Gateway(port, [*good[:10], *((topic, payload) for topic, payload, _ in refused), *ODD, *good[10:]]) as gateway:
            wait(gateway.done, process.tail)
        wait(lambda: len(process.rows("containers")) == len(good) + 4, process.tail)
        wait(lambda: len(process.rows("exceptions")) >= len(refused), process.tail)
        told = [row["body"] for row in process.rows("exceptions")]
        found = {(body["mqtt_topic"], body["outcome"], body["payload_bytes"], body["payload_sha256"]) for body in told}
        assert found == {(topic, outcome, len(payload), hashlib.sha256(payload).hexdigest()) for topic, payload, outcome in refused}
        kept = {body["payload_sha256"]: base64.b64decode(body["payload_base64"]) for body in told}
        assert kept == {hashlib.sha256(payload).hexdigest(): payload[:KEPT_BYTES_MAX] for _, payload, _ in refused}
        assert all(body["reason"] for body in told)
        counts = (process.status() or {})["intake"]
        assert counts["received"] == sum(counts.get(outcome.name.lower(), 0) for outcome in Outcome) == len(good) + len(refused) + len(ODD)
        rows = process.rows("containers") + process.rows("ships")
        odd = {row["device"]: (row["topic"], row["signals"], row["body"]) for row in rows if row["device"] != "GOOD"}
        assert odd == WANTED
        assert [row["signals"]["return_c"] for row in rows if row["device"] == "GOOD"] == [n / 10 for n in range(20)]
        (future,) = (row for row in rows if row["device"] == "T6")
        assert (future["device_at_ms"], future["order_at_ms"]) == (NOW_MS + HOUR_MS, future["received_at_ms"])
        assert process.read.health()["node"] == f"ship-{SHIP}"


ANY_VALUES: tuple[Value, ...] = (4, 4.5, "warm", True, float("nan"), float("inf"), -1e300, 2**62)


def test_a_value_that_no_sensor_can_mean_ends_no_node_whoever_appends_it(tmp_path: Path) -> None:
    """By the door every signal in every type, and beyond its range: kept as it is, and no rule goes by it."""
    with taking_in(tmp_path, "endpoint") as (process, port):
        door = AppendDoor(process.url, TOKEN)
        batches = [
            Append(stream, to_batch([Record(topic, "ODD", NOW_MS - HOUR_MS + place, dict.fromkeys(SIGNALS, value))]))
            for stream, topic in (("containers", BOX), ("ships", f"{SHIP}.location"), ("ships", f"{SHIP}.environment"))
            for place, value in enumerate(ANY_VALUES)
        ]
        for batch in batches:
            door.append([batch])
        publish_all(port, [reading(BOX, "GOOD", NOW_MS - 1_000, shock_g=60.0)], process.tail)
        wait(lambda: any(row["body"]["rule"] == "shock" for row in process.rows("alerts")), process.tail)  # all before it is judged
        stored = [row for row in process.rows("containers") if row["device"] == "ODD"]
        assert len(stored) == len(ANY_VALUES)
        assert [row["signals"]["shock_g"] for row in stored][:4] == [4, 4.5, "warm", True]
