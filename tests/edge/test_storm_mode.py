"""Goal: a ship's process asks devices for a shorter interval while she rolls, calls who was struck then, tells her crew so, and goes on
asking after a kill."""

from __future__ import annotations

import json
from pathlib import Path

from cargo.rules.storm_mode import Request, RollCall
from cargo.vocabulary.trade_codes import make_container
from tests.intake.test_requests import Device
from tests.support.aboard import Message, ShipProcess, fleet_clock, publish_all, ship
from tests.support.process import wait
from tests.support.sea import MINUTE_MS, SHIP, START_MS


def rolled(minute: int, roll_deg: float) -> Message:
    """What her motion sensor says."""
    payload = {"device": "MET", "at": START_MS + minute * MINUTE_MS, "roll_deg": roll_deg}
    return f"landfall/ships/{SHIP}/environment", json.dumps(payload).encode()


def hears(process: ShipProcess, interval_s: int | None) -> Request:
    """What a device hears that comes now; the console says the same."""
    with Device(process.mqtt_port) as device:
        device.wait(lambda one: bool(one.connects))
        assert device.subscribe("landfall/devices/interval") == ["Granted QoS 0"]
        device.wait(lambda _: any(Request.from_bytes(payload).interval_s == interval_s for payload, _ in device.heard))
        assert (process.status() or {})["storm"]["interval_s"] == interval_s
        return Request.from_bytes(device.heard[-1][0])


def test_she_asks_while_she_rolls(tmp_path: Path) -> None:
    with fleet_clock(START_MS + 60 * MINUTE_MS) as clock, ship(tmp_path, "[storm]\ncalm_after_s = 600\n", clock) as process:
        process.start()
        process.wait_ready()
        publish_all(process.mqtt_port, [rolled(0, 4.0), rolled(1, -9.9)], process.tail)
        assert hears(process, None) == Request(SHIP, 0, None, 0), "calm, from the beginning"
        publish_all(process.mqtt_port, [rolled(2, -11.0), rolled(3, 9.0)], process.tail)
        asked = hears(process, 60)
        assert (asked.ship, asked.holds_s) == (SHIP, 1_800)
        process.kill()
        process.start()
        process.wait_ready()
        assert hears(process, 60).holds_s == 1_800, "a kill changes nothing"
        publish_all(process.mqtt_port, [rolled(14, 3.0), rolled(15, 3.0)], process.tail)
        assert hears(process, None).interval_s is None
        wait(lambda: "storm mode: devices are asked to report as usual" in process.tail(), process.tail)
        assert process.stop() == 0


def felt(number: str, second: int, **signals: float) -> Message:
    """What a box says so long after START_MS."""
    payload = {"device": f"TRK-{number}", "at": START_MS + second * 1_000, **signals}
    return f"landfall/containers/{number}/reading", json.dumps(payload).encode()


def test_she_calls_who_was_struck(tmp_path: Path) -> None:
    """Once the blow is in, though its turn comes 10 s later; and again after a kill."""
    one, other = make_container("DUCU", 1), make_container("DUCU", 2)
    with fleet_clock(START_MS + 60 * MINUTE_MS) as clock, ship(tmp_path, clock=clock) as process:
        process.start()
        process.wait_ready()
        publish_all(process.mqtt_port, [felt(one, 0, ambient_c=20.0), felt(other, 0, ambient_c=20.0), rolled(1, 22.0)], process.tail)
        publish_all(process.mqtt_port, [rolled(3, 22.0)], process.tail)
        assert hears(process, 60).roll_call is None
        publish_all(process.mqtt_port, [felt(one, 181, shock_g=3.9), felt(other, 182, shock_g=6.0)], process.tail)
        wait(lambda: (process.status() or {})["storm"]["roll_call"] is not None, process.tail)
        call = RollCall(5, 180, (other,))
        assert hears(process, 60).roll_call == call
        assert (process.status() or {})["storm"]["roll_call"] == {"interval_s": 5, "holds_s": 180, "containers": [other]}
        process.kill()
        process.start()
        process.wait_ready()
        wait(lambda: (process.status() or {})["storm"]["roll_call"] is not None, process.tail)
        assert hears(process, 60).roll_call == call
        publish_all(process.mqtt_port, [rolled(7, 22.0)], process.tail)
        wait(lambda: (process.status() or {})["storm"]["roll_call"] is None, process.tail)
        assert hears(process, 60).roll_call is None
        assert process.stop() == 0
