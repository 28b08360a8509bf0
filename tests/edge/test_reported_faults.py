"""Goal: sequences of messages that went wrong at other users' sites have the right outcome on a real node, over real sockets.

The folder `cases` has their payloads one by one; these need a node, its clock, a broker or a tracker's own connection.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cargo.vocabulary.registry_entries import entry_body
from intake.mqtt.packets import packet
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.edge.test_kill import subscribed
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import Publisher
from tests.support.aboard import Gateway, Message, ShipProcess, fleet_clock, message, publish_all, ship
from tests.support.process import wait
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, SHIP, START_MS, Sea, number

FALLS_MS = SAILS_MS + HOUR_MS
SEA = Sea(
    boxes=16,
    interval_ms=5 * MINUTE_MS,
    gateways=1,
    storms=[(FALLS_MS - 10 * MINUTE_MS, FALLS_MS + 10 * MINUTE_MS)],
    storm_roll_deg=24.0,
    silent={0: [(FALLS_MS, FALLS_MS + HOUR_MS)]},
)
SAID = SEA.readings(FALLS_MS + 5 * MINUTE_MS)
LOST = number(0)
LAST = message(SEA.says(0, FALLS_MS, shock_g=8.0, free_fall_ms=1_900, tilt_deg=80.0))
ENTRIES = Append(f"aboard/{SHIP}", to_batch([Record(one.topic, body=entry_body(one)) for one in SEA.entries()]))
YEAR_MS = 365 * 24 * HOUR_MS


class Time:
    """The fleet's time, moved by a test."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def __call__(self) -> int:
        return self.at_ms


def between(since_ms: int, until_ms: int) -> list[Message]:
    """What is said then."""
    return [message(one) for one in SAID if since_ms <= one.order_at_ms < until_ms]


def told_lost(process: ShipProcess) -> list[str]:
    """The states of the lost container's alert, in order."""
    rows = [row for row in process.rows("alerts") if row["topic"] == LOST and row["body"]["rule"] == "lost_container"]
    return [row["body"]["state"] for row in rows]


def readings_of(process: ShipProcess, box: str) -> list[dict[str, Any]]:
    return [row for row in process.rows("containers") if row["topic"] == box]


def flags(row: dict[str, Any]) -> list[str]:
    found: list[str] = (row["body"] or {}).get("flags", [])
    return found


def pass_time(process: ShipProcess, time: Time, until_ms: int, port: int) -> None:
    """Publish what is said until then at `port`, each reading within 20 s of its time by the node's own clock."""
    while time.at_ms < until_ms:
        since_ms, time.at_ms = time.at_ms, min(time.at_ms + 20 * SECOND_MS, until_ms)
        wait(lambda: (process.status() or {}).get("at_ms") == time.at_ms, process.tail)
        publish_all(port, between(since_ms, time.at_ms), process.tail)


@contextmanager
def tracker(port: int, will: Message, keep_alive_s: int) -> Iterator[socket.socket]:
    """A tracker's own connection, with a will; at the end it breaks off without a word."""

    def text(value: bytes) -> bytes:
        return struct.pack(">H", len(value)) + value

    with socket.create_connection(("127.0.0.1", port), 60) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        head = text(b"MQTT") + bytes([4, 0b1110]) + struct.pack(">H", keep_alive_s)
        link.sendall(packet(0x10, head + text(b"TRK-X") + text(will[0].encode()) + text(will[1])))
        assert link.recv(4)[0] == 0x20
        yield link


def test_a_will_retracts_no_loss(tmp_path: Path) -> None:
    """A tracker falls with its box, and 90 s later its will is published: it is kept, and changes nothing."""
    time = Time(FALLS_MS)
    topic, last = LAST
    with fleet_clock(time) as clock, ship(tmp_path, clock=clock) as process:
        process.start()
        process.wait_ready()
        process.hears([ENTRIES])
        publish_all(process.mqtt_port, between(START_MS, FALLS_MS), process.tail)
        will = topic, b'{"device": "TRK-X", "status": "offline"}'
        with tracker(process.mqtt_port, will, 60) as link:
            link.sendall(packet(0x32, struct.pack(">H", len(topic)) + topic.encode() + struct.pack(">H", 1) + last))
            assert link.recv(4)[0] == 0x40
            pass_time(process, time, FALLS_MS + 80 * SECOND_MS, process.mqtt_port)
            wait(lambda: bool(told_lost(process)), process.tail)
            time.at_ms = FALLS_MS + 90 * SECOND_MS
        wait(lambda: any("will" in flags(row) for row in readings_of(process, LOST)), process.tail)
        time.at_ms = FALLS_MS + 5 * MINUTE_MS
        struck_ms = FALLS_MS + 3 * MINUTE_MS
        struck = message(SEA.says(9, struck_ms, shock_g=60.0))
        after = [*between(FALLS_MS + 80 * SECOND_MS, struck_ms), struck, *between(struck_ms, time.at_ms)]
        publish_all(process.mqtt_port, after, process.tail)
        wait(lambda: any(row["topic"] == number(9) and row["body"]["rule"] == "shock" for row in process.rows("alerts")), process.tail)
        assert not {"retracted", "cleared"} & set(told_lost(process))


def test_what_a_broker_kept_is_taken_in_once_and_retracts_no_loss(tmp_path: Path) -> None:
    """Three boxes publish retained, without a time, with the true one and with one of 1970, and so does one that then falls; the node is
    started again five times."""
    time = Time(FALLS_MS)
    times: dict[int, dict[str, Any]] = {101: {}, 102: {"at": time.at_ms - SECOND_MS}, 103: {"at": 0}}
    kept = [
        (f"landfall/containers/{number(serial)}/reading", json.dumps({"device": f"TRK-{serial:05d}", **at, "return_c": 4.0}).encode())
        for serial, at in times.items()
    ]
    with mosquitto(tmp_path) as broker, fleet_clock(time) as clock:
        more = f'[intake.broker]\nport = {broker.port}\nclient_id = "ship"\n'
        with ship(tmp_path, more, clock, endpoint=False) as process:
            process.start()
            wait(lambda: subscribed(process), process.tail)
            process.hears([ENTRIES])
            publish_all(broker.port, between(START_MS, FALLS_MS), process.tail)
            with Publisher(broker.port, client_id="retaining") as publisher:
                for topic, payload in (LAST, *kept):
                    publisher.client.publish(topic, payload, qos=1, retain=True)
                publisher.wait(lambda one: len(one.acknowledged) == 1 + len(kept))
            wait(lambda: bool(readings_of(process, number(103))), process.tail)  # the broker has acknowledged it, the node maybe not yet
            pass_time(process, time, FALLS_MS + 80 * SECOND_MS, broker.port)
            wait(lambda: bool(told_lost(process)), process.tail)
            before, repeated = len(process.rows("containers")), 1 + len(kept)
            for _ in range(5):
                assert process.stop() == 0
                process.start()
                wait(lambda: subscribed(process), process.tail)
                wait(lambda: (process.status() or {})["intake"].get("repeated", 0) >= repeated, process.tail)
            assert len(process.rows("containers")) == before
            assert [len(readings_of(process, number(serial))) for serial in (101, 102, 103)] == [1, 1, 1]
            assert not {"retracted", "cleared"} & set(told_lost(process))


def test_data_of_2016_is_kept_and_alarms_nobody(tmp_path: Path) -> None:
    """On a node without a position: a door that is open and a shock, replayed today."""
    at_ms = 1_461_000_000_000
    time = Time(FALLS_MS)
    said: tuple[dict[str, Any], ...] = ({"door_open": True, "shock_g": 6.4}, {"door_open": True})
    old = [
        (f"landfall/containers/{LOST}/reading", json.dumps({"device": "TRK-00000", "at": at_ms + 60_000 * row, **one}).encode())
        for row, one in enumerate(said)
    ]
    with fleet_clock(time) as clock, ship(tmp_path, clock=clock) as process:
        process.start()
        process.wait_ready()
        others = [one for one in between(FALLS_MS - 5 * MINUTE_MS, FALLS_MS) if one[0].startswith("landfall/containers/")]
        struck = message(SEA.says(9, FALLS_MS - 3 * MINUTE_MS, shock_g=60.0))
        with Gateway(process.mqtt_port, [*old, struck, *others]) as gateway:
            wait(gateway.done, process.tail)
        wait(lambda: any(row["topic"] == number(9) for row in process.rows("alerts")), process.tail)
        kept = [(row["device_at_ms"], "stale" in flags(row)) for row in readings_of(process, LOST) if row["device_at_ms"] < START_MS]
        assert kept == [(at_ms, True), (at_ms + MINUTE_MS, True)]
        assert {row["topic"] for row in process.rows("alerts")} == {number(9)}
