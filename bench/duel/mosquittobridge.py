"""Mosquitto: a ship's broker is bridged to headquarters', whose subscriber takes all that comes."""

from __future__ import annotations

import subprocess
import time
from itertools import islice
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.duel.side import Compared, Given, compare, folder_of, wait_until
from bench.mqtt import mosquitto_binary
from bench.mqttload import Sender, publish
from intake.mqtt.packets import packet
from tests.support.pahoclients import close
from tests.support.ports import free_ports
from tests.support.proxy import Proxy

AT_ONCE = 50_000
USUAL = {
    "allow_anonymous": "true",
    "persistence": "true",
    "autosave_interval": "60",
    "max_queued_messages": "0",
    "max_inflight_messages": "0",
    "set_tcp_nodelay": "true",
}
BRIDGE = {
    "topic": "# out 1",
    "cleansession": "false",
    "remote_clientid": "ship",
    "notifications": "false",
    "try_private": "false",
    "keepalive_interval": "60",
    "restart_timeout": "1",
    "bridge_protocol_version": "mqttv311",
}


class MosquittoBridge:
    """Both brokers, QoS 1 all the way. The ship's dials through the proxy."""

    name = "mosquitto"
    bytes_reading_least = 300.0
    shoreward_is_out = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ship_port, self._hq_port = free_ports(2)
        self.proxy = Proxy(self._hq_port)
        self._brokers: dict[str, subprocess.Popen[bytes]] = {}
        self._came: list[tuple[str, bytes]] = []
        self._heard: dict[int, float] = {}
        self._reader = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="reader", clean_session=False, protocol=mqtt.MQTTv311)

    def start(self) -> dict[str, Any]:
        """Both brokers, and the subscriber."""
        bridge = "\n".join(f"{name} {value}" for name, value in BRIDGE.items())
        for name, port, more in (
            ("hq", self._hq_port, ""),
            ("ship", self._ship_port, f"connection hq\naddress 127.0.0.1:{self.proxy.port}\n{bridge}\n"),
        ):
            folder = folder_of(self._folder, name)
            usual = "\n".join(f"{setting} {value}" for setting, value in USUAL.items())
            config = folder / "mosquitto.conf"
            config.write_text(f"listener {port} 127.0.0.1\n{usual}\npersistence_location {folder}/\nuser root\n{more}")
            with (folder / "mosquitto.log").open("ab") as words:
                self._brokers[name] = subprocess.Popen([mosquitto_binary(), "-c", str(config)], stdout=words, stderr=words)
            wait_until(lambda port=port: _answers(port), f"{name}'s broker")
        self._reader.on_message = self._on_message
        self._reader.connect("127.0.0.1", self._hq_port)
        self._reader.subscribe("#", qos=1)
        self._reader.loop_start()
        version = subprocess.run([mosquitto_binary(), "-h"], capture_output=True, text=True, check=False).stdout.splitlines()[0]
        return {"version": version, "settings": USUAL | BRIDGE}

    def load(self, given: Given) -> None:
        """Publish the readings to the ship's broker at QoS 1, and wait until all are acknowledged."""
        messages, number = given.messages(), 0
        while part := list(islice(messages, AT_ONCE)):
            publish(self._ship_port, [_packet(f"c/{topic}", payload, number + n) for n, (topic, payload) in enumerate(part)], 1)
            number += len(part)

    def arrived(self) -> int:
        """Messages that headquarters' subscriber had, repeats among them."""
        return len(self._came)

    def moved(self) -> int:
        """By readings."""
        return self.arrived()

    def alert(self, number: int) -> None:
        """Publish the alert to the ship's broker at QoS 1."""
        publish(
            self._ship_port, [_packet(f"a/{number}", b'{"alert_id":"duel-%d","rule":"overboard","severity":"critical"}' % number, 0)], 1
        )

    def alerts_heard_s(self) -> dict[int, float]:
        """By the same subscriber."""
        return self._heard

    def compared(self, given: Given) -> Compared:
        """What the subscriber had."""
        return compare(given.messages(), list(self._came))

    def processes(self) -> dict[str, int]:
        """The two brokers."""
        return {"ship": self._brokers["ship"].pid, "shore": self._brokers["hq"].pid}

    def stop(self) -> None:
        """Killed."""
        close(self._reader)
        for broker in self._brokers.values():
            broker.kill()
            broker.wait()

    def _on_message(self, _: mqtt.Client, __: object, message: mqtt.MQTTMessage) -> None:
        kind, _slash, name = message.topic.partition("/")
        if kind == "c":
            self._came.append((name, bytes(message.payload)))
        else:
            self._heard.setdefault(int(name), time.monotonic())


def _packet(topic: str, payload: bytes, number: int) -> bytes:
    """A PUBLISH at QoS 1."""
    named = topic.encode()
    return packet(0x32, len(named).to_bytes(2, "big") + named + (number % 65_535 + 1).to_bytes(2, "big") + payload)


def _answers(port: int) -> bool:
    try:
        Sender(port, "looks", [], 0).socket.close()
    except OSError:
        return False
    return True
