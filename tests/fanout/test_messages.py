"""Goal: whatever a record holds, its message is one that Kafka takes, and says what was left out: none keeps those behind it waiting."""

from __future__ import annotations

import hashlib
import json

import pyarrow as pa
import pytest

from hq.fanout.kafka_messages import MESSAGE_BYTES_MAX, messages
from streams.model.identifiers import TOPIC_CHARS_MAX, Coordinates, Origin
from streams.model.records import Batch, Record, to_batch
from tests.streams.logkit import NOW_MS, stamped

BOX = "MSKU1234565"


@pytest.mark.parametrize(("stream", "is_shared"), [("containers", True), ("customers/ducks", False)])
def test_a_message_is_plain_json(stream: str, is_shared: bool) -> None:
    """Coordinates, times, device, signals, body; the source for those who share the log, not for customers."""
    source = Coordinates("containers", Origin("ship-one", 3), 7)
    record = Record(BOX, "TRK", NOW_MS - 5, {"power_on": True, "return_c": 4.0}, {"title": "Überbord"}, source)
    [message] = messages(Batch(stream, Origin("hq", 1), stamped(to_batch([record]))))
    assert message.key == BOX.encode()
    expected = {
        "stream": stream,
        "origin": str(Origin("hq", 1)),
        "offset": 0,
        "topic": BOX,
        "device": "TRK",
        "device_at_ms": NOW_MS - 5,
        "received_at_ms": NOW_MS,
        "order_at_ms": NOW_MS - 5,
        "signals": {"power_on": True, "return_c": 4.0},
        "body": {"title": "Überbord"},
    }
    shared = {"source": {"stream": "containers", "origin": str(Origin("ship-one", 3)), "offset": 7}}
    assert json.loads(message.value) == (expected | shared if is_shared else expected)


def batch(record: Record, topic: str = BOX) -> Batch:
    rows = stamped(to_batch([record]))
    return Batch("containers", Origin("hq", 1), rows.set_column(0, rows.schema.field(0), pa.array([topic])))


@pytest.mark.parametrize(
    ("record", "topic"),
    [
        (Record(BOX, "TRK", 5, {"note": "x" * 20_000_000}), BOX),
        (Record(BOX, "TRK", 5, {"note": "é" * 500_000}), BOX),
        (Record(BOX, "TRK", 5, {"note": "x" * 200_000}, {"text": "y" * 790_000}), BOX),
        (Record(BOX, "TRK", 5, {"return_c": 4.0}), "t" * 1_000_000),
        (Record(BOX, "d" * 2_000_000, 5, {"return_c": 4.0}), BOX),
    ],
    ids=["signal", "letters", "signal and body", "topic", "device"],
)
def test_what_is_too_long_for_a_message_goes_without(record: Record, topic: str) -> None:
    [message] = messages(batch(record, topic))
    assert len(message.key) + len(message.value) <= MESSAGE_BYTES_MAX
    told = json.loads(message.value)
    assert (told["signals"], told["body"], told["offset"], told["topic"]) == ({}, None, 0, topic[:TOPIC_CHARS_MAX])
    assert told["left_out"]["bytes"] > MESSAGE_BYTES_MAX - len(topic)
    assert len(bytes.fromhex(told["left_out"]["sha256"])) == hashlib.sha256().digest_size


def test_what_fits_goes_whole() -> None:
    [message] = messages(batch(Record(BOX, "TRK", 5, {"note": "x" * 100_000}, {"text": "y" * 790_000})))
    told = json.loads(message.value)
    assert (len(told["signals"]["note"]), len(told["body"]["text"]), "left_out" in told) == (100_000, 790_000, False)
