"""Goal: gateways send buffered readings as lists, packed with gzip or Zstandard; what unpacks to too much, or not at all, is refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
import zstandard
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from intake.message_types import Outcome, Publish
from intake.payload_compression import UNPACKED_BYTES_MAX, UNPACKED_TIMES_MAX, NotUnpacked, unpack_all, unpacked
from intake.settings import EndpointSettings
from streams.model.clock import StillClock
from tests.intake.stand import AT, BOX, TOPIC, Publisher, eventually, payload, stand
from tests.intake.test_decoders import DOOR, settings

BATCH = [{"device": "TRK-1", "at": AT + n * 60_000, "return_c": 4.0 + n % 7 / 10, "battery_mv": 3_600 - n} for n in range(1_000)]
JSON = json.dumps(BATCH).encode()
ZSTD = zstandard.ZstdCompressor()


def gzip_of(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def content_type(name: str) -> Properties:
    properties: Properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.ContentType = name
    return properties


def refusal_of(content: bytes, packing: str = "gzip") -> NotUnpacked:
    with pytest.raises(NotUnpacked) as caught:
        unpacked(content, packing)
    return caught.value


@pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
async def test_a_packed_list_of_a_thousand_readings_is_in_the_log_whole_and_once(tmp_path: Path, protocol: Any) -> None:
    clock = StillClock(AT + 2 * 3_600_000 + 1_000 * 60_000)
    async with stand(tmp_path, clock=clock) as here:
        with Publisher(here.endpoint.port, protocol) as publisher:
            await publisher.welcomed()
            for sent in (gzip_of(JSON), ZSTD.compress(JSON), json.dumps(BATCH[:9]).encode()):
                publisher.publish(TOPIC, sent)
            publisher.publish(TOPIC, gzip_of(b'[{"device": "TRK-2", "return_c": 4}, {"device": "TRK-3"}, {"return_c": 4}]'))
            await eventually(lambda: len(publisher.acknowledged) == 4)
        rows = [row.record for row in here.rows("containers")]
        assert [(row.topic, row.device, row.device_at_ms) for row in rows[:1_000]] == [(BOX, "TRK-1", one["at"]) for one in BATCH]
        assert [row.signals for row in rows[:1_000]] == [{name: one[name] for name in ("return_c", "battery_mv")} for one in BATCH]
        assert [row.device for row in rows[1_000:]] == ["TRK-2", "TRK-3"]
        counts = here.counts()
        assert (counts["intake_received"], counts["intake_accepted"], counts["intake_repeated"], counts["intake_malformed"]) == (4, 1, 2, 1)


async def test_a_decoder_is_given_what_a_content_type_says_is_packed(tmp_path: Path) -> None:
    """A decoder of one's own may read packed bytes itself, so elsewhere than on our topics the first bytes alone say nothing."""
    events = gzip_of(json.dumps([DOOR]).encode())
    open_to_all = EndpointSettings(port=0, anonymous_publish=("#",))
    async with stand(tmp_path, open_to_all, settings(("dcsa/#", "dcsa-tnt-3")), StillClock(AT + 7_200_000)) as here:
        with Publisher(here.endpoint.port, mqtt.MQTTv5) as publisher:
            await publisher.welcomed()
            publisher.client.publish("dcsa/1", events, 1, properties=content_type("application/gzip; charset=utf-8"))
            publisher.client.publish("dcsa/1", events, 1)
            publisher.client.publish(TOPIC, b'{"device": "T"}', 1, properties=content_type("application/json"))
            publisher.client.publish(TOPIC, b'{"device": "T"}', 1, properties=content_type("application/zstd"))
            await eventually(lambda: len(publisher.acknowledged) == 4)
        assert [row.record.signals.get("door_open") for row in here.rows("containers")] == [True, None]
        assert here.counts()["intake_malformed"] == 2


async def test_secrets_in_what_does_not_unpack_are_masked(tmp_path: Path) -> None:
    sent = gzip_of(b'{"password": "kept-nowhere", "return_c": ' + b"4" * 9_000)[:-9]
    async with stand(tmp_path) as here:
        with Publisher(here.endpoint.port) as publisher:
            await publisher.welcomed()
            publisher.publish(TOPIC, sent)
            publisher.publish(TOPIC, payload())
            await eventually(lambda: len(publisher.acknowledged) == 2)
        (told,) = [row.record.body or {} for row in here.rows("exceptions")]
        assert (told["outcome"], told["secrets_masked"], told["payload_bytes"]) == ("malformed", 1, len(sent))
        assert told["payload_sha256"] == hashlib.sha256(sent).hexdigest()


@pytest.mark.parametrize("packed", [gzip_of(JSON), gzip_of(JSON[:99]) + gzip_of(JSON[99:]), gzip_of(JSON) + b"\0\0"])
def test_gzip_members_are_one_payload(packed: bytes) -> None:
    assert unpacked(packed, "gzip") == JSON


def test_zstd_frames_with_and_without_their_size_are_one_payload() -> None:
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    unsized = stream.compress(JSON[99:]) + stream.flush()
    assert unpacked(ZSTD.compress(JSON[:99]) + unsized + b"\0", "zstd") == JSON


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_what_unpacks_to_too_much_is_oversized_and_never_all_in_memory(packing: str) -> None:
    pack = {"gzip": gzip_of, "zstd": ZSTD.compress}[packing]
    bomb = refusal_of(pack(b" " * (64 << 20)), packing)
    assert (bomb.outcome, len(bomb.beginning) <= UNPACKED_BYTES_MAX + (2 << 20)) == (Outcome.OVERSIZED, True)
    assert refusal_of(pack(b" " * (UNPACKED_TIMES_MAX * 200)), packing).outcome == Outcome.OVERSIZED
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(UNPACKED_BYTES_MAX // 32))
    assert unpacked(pack(noise), packing) == noise
    assert refusal_of(pack(noise + b"1"), packing).outcome == Outcome.OVERSIZED


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_damaged_and_cut_off_is_malformed(packing: str) -> None:
    packed = {"gzip": gzip_of(JSON), "zstd": zstandard.ZstdCompressor(write_checksum=True).compress(JSON)}[packing]
    assert refusal_of(packed[:-5], packing).outcome == Outcome.MALFORMED
    assert refusal_of(packed[:2], packing).outcome == Outcome.MALFORMED
    assert refusal_of(packed[:-3] + b"xyz", packing).outcome == Outcome.MALFORMED
    assert refusal_of(packed + b"more", packing).outcome == Outcome.MALFORMED
    assert refusal_of(zlib.compress(JSON), packing).outcome == Outcome.MALFORMED


def test_what_a_door_refused_stays_refused_for_that() -> None:
    foreign = Publish(TOPIC.encode(), gzip_of(b'{"token": "x"}'), refused=Outcome.FOREIGN, reason="not yours")
    cut = Publish(TOPIC.encode(), gzip_of(JSON)[:9], refused=Outcome.OVERSIZED, reason="long", payload_bytes=999, payload_sha256="ab")
    unpack_all([foreign, cut])
    assert (foreign.refused, foreign.payload, cut.refused, cut.payload_bytes) == (
        Outcome.FOREIGN,
        b'{"token": "x"}',
        Outcome.OVERSIZED,
        999,
    )
