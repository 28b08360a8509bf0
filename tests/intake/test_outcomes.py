"""Goal: whatever comes to the endpoint has one counted outcome, the counts add up to what came in, and the log holds what they say."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import re
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest

from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings
from cargo.vocabulary.registry_entries import entry_body
from intake.message_types import KEPT_BYTES_MAX, STORED, Outcome
from intake.mqtt.packets import packet
from intake.settings import EndpointSettings
from landfall.watch.watch_service import Watching
from streams.group_commit import GroupCommitter
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch
from tests.intake.stand import BOX, TOPIC, Publisher, eventually, payload, stand
from tests.support.sea import SHIP, Sea

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "payloads.md"
NOW_MS = time.time_ns() // 1_000_000
STRANGER = "HLXU2008419"
PACKET_BYTES_MAX = 20_000
SETTINGS = EndpointSettings(port=0, anonymous_publish=("landfall/#", "dcsa/#"), packet_bytes_max=PACKET_BYTES_MAX)
Message = tuple[str, bytes]
CONNECTIONS, MESSAGES = 12, 60

MAKES: dict[Outcome, Callable[[int, random.Random], Message]] = {
    Outcome.ACCEPTED: lambda n, _: (TOPIC, payload(n, at=NOW_MS - n)),
    Outcome.FUTURE: lambda n, _: (TOPIC, payload(n, at=4_000_000_000_000 + n)),
    Outcome.STALE: lambda n, _: (TOPIC, payload(n)),
    Outcome.MALFORMED: lambda n, chance: (TOPIC, chance.randbytes(chance.choice((0, 1, 100, KEPT_BYTES_MAX, 15_000))) + b"%d" % n),
    Outcome.BAD_VALUE: lambda n, _: (TOPIC, json.dumps({"device": "T", "at": n, "latitude_deg": 123}).encode()),
    Outcome.UNKNOWN_TOPIC: lambda n, _: (f"dcsa/{n}", payload(n)),
    Outcome.OVERSIZED: lambda n, _: (TOPIC, payload(n, pad="x" * PACKET_BYTES_MAX)),
    Outcome.FOREIGN: lambda n, _: ("elsewhere", payload(n)),
    Outcome.UNKNOWN_CONTAINER: lambda n, _: (f"landfall/containers/{STRANGER}/reading", payload(n, at=NOW_MS - n)),
}
"""How the n-th message of each outcome may look; REPEATED: what was in the log before. Where a message is LET_GO:
`test_lost_on_the_way.py`."""


def strangers(numbers: set[str]) -> set[str]:
    return numbers - {BOX}


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_counts_add_up_to_what_came_in(tmp_path: Path, seed: int) -> None:
    """Any mixture of messages, at QoS 0 and 1, from MQTT 3.1.1 and 5, some of them wills of clients that break off."""
    chance = random.Random(seed)
    wanted: Counter[Outcome] = Counter()
    refused: Counter[tuple[str, str, int, str]] = Counter()
    stored: list[Message] = []
    async with stand(tmp_path, SETTINGS, strangers=strangers) as one:
        for connection in range(CONNECTIONS):
            protocol = chance.choice((mqtt.MQTTv311, mqtt.MQTTv5))
            if chance.random() < 0.5:
                await break_off(one.endpoint.port, *MAKES[Outcome.ACCEPTED](-connection - 1, chance))
                wanted[Outcome.ACCEPTED] += 1
            with Publisher(one.endpoint.port, protocol, f"gateway-{connection}") as publisher:
                await publisher.welcomed()
                for n in range(connection * MESSAGES, (connection + 1) * MESSAGES):
                    outcome = chance.choice([*MAKES, Outcome.REPEATED] if stored else [*MAKES])
                    topic, sent = chance.choice(stored) if outcome == Outcome.REPEATED else MAKES[outcome](n, chance)
                    publisher.publish(topic, sent, chance.choice((0, 1)))
                    wanted[outcome] += 1
                    if outcome in STORED:
                        stored.append((topic, sent))
                    elif outcome != Outcome.REPEATED:
                        refused[outcome.name.lower(), topic, len(sent), hashlib.sha256(sent).hexdigest()] += 1
                await asyncio.to_thread(publisher.wait, lambda p: len(p.acknowledged) == MESSAGES)
        total = sum(wanted.values())
        await eventually(lambda: one.counts().get("intake_received", 0) >= total and not one.waiting())
        counts = {name.removeprefix("intake_"): count for name, count in one.counts().items() if name.startswith("intake_")}
        assert counts.pop("received") == total
        assert counts == {outcome.name.lower(): count for outcome, count in wanted.items()}
        assert len(one.rows("containers")) == sum(wanted[outcome] for outcome in STORED)
        bodies = [row.record.body or {} for row in one.rows("exceptions")]
    assert Counter((body["outcome"], body["mqtt_topic"], body["payload_bytes"], body["payload_sha256"]) for body in bodies) == refused
    for body in bodies:
        kept = base64.b64decode(body["payload_base64"])
        assert len(kept) == min(body["payload_bytes"], KEPT_BYTES_MAX)
        assert len(kept) == KEPT_BYTES_MAX or hashlib.sha256(kept).hexdigest() == body["payload_sha256"]


async def test_what_is_no_containers_number_is_unknown_and_kept(tmp_path: Path) -> None:
    """Whatever a node has heard of lists: there is no such container."""
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port) as gateway:
            for n, number in enumerate(("HELLO", "MSKU1234560", BOX)):
                gateway.publish(f"landfall/containers/{number}/reading", payload(n, at=NOW_MS - n))
            gateway.publish("landfall/ships/9321484/location", payload(9, at=NOW_MS, latitude_deg=1.0, longitude_deg=2.0))
            await asyncio.to_thread(gateway.wait, lambda p: len(p.acknowledged) == 4)
        counts = one.counts()
        assert (counts["intake_received"], counts["intake_unknown_container"], counts["intake_accepted"]) == (4, 2, 2)
        told = {row.record.topic: row.record.body for row in one.rows("containers")}
        assert told == {"HELLO": {"flags": ["check_digit"]}, "MSKU1234560": {"flags": ["check_digit"]}, BOX: None}


async def break_off(port: int, topic: str, will: bytes) -> None:
    """Connect with a will, and go without a word."""
    said = b"".join(struct.pack(">H", len(one)) + one for one in (b"breaks-off", topic.encode(), will))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(packet(0x10, b"\0\4MQTT\4\x06\0\x3c" + said))
    assert await reader.readexactly(4) == b"\x20\2\0\0"
    writer.close()
    await writer.wait_closed()


async def test_what_the_watch_has_heard_of_no_list_or_booking_for_is_unknown(tmp_path: Path) -> None:
    """The watch knows what its lists say, from when it has heard the first; until then nothing is unknown."""
    async with stand(tmp_path) as one:
        sea, told = Sea(boxes=24), f"aboard/{SHIP}"
        aboard = {row.topic for row in sea.readings(sea.entries()[0].at_ms + 48 * 3_600_000) if "." not in row.topic}
        watching = Watching(WatchSettings(WatchPlace("ship-a", ship=SHIP)), tmp_path, WallClock(), Metrics("ship"), _unasked, (told,))
        committer = GroupCommitter(one.log)
        running = asyncio.create_task(watching.run(one.log, committer))
        assert watching.strangers({STRANGER}) == set()
        one.log.append([Append(told, to_batch([Record(entry.id, body=entry_body(entry)) for entry in sea.entries()]))])
        await eventually(lambda: watching.strangers({STRANGER, *aboard}) == {STRANGER} or running.done())
        running.cancel()
        await asyncio.wait([running])
        await committer.close()
        assert running.cancelled()


def test_the_docs_name_every_outcome() -> None:
    told = DOCS.read_text(encoding="utf-8").partition("## What becomes of a message")[2].partition("## ")[0]
    named = {name for line in told.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == {outcome.name.lower() for outcome in Outcome}


def _unasked(*told: Any, **more: Any) -> None:
    raise AssertionError((told, more))
