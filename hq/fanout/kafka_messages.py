"""Records of a stream as Kafka messages: plain JSON, one record a message, for clients that know nothing of Landfall."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from hq.fanout.customer_routes import CUSTOMERS
from streams.model.identifiers import TOPIC_CHARS_MAX
from streams.model.records import (
    BODY,
    DEVICE,
    DEVICE_AT,
    OFFSET,
    ORDER_AT,
    RECEIVED_AT,
    SOURCE_OFFSET,
    SOURCE_ORIGIN,
    SOURCE_STREAM,
    TOPIC,
    Batch,
    read_body,
    signal_names,
)

BODY_BYTES_MAX = 800_000
"""Maximum bytes of the body's text. By default, Kafka's clients take messages up to 1,000,000 bytes."""
MESSAGE_BYTES_MAX = 950_000
"""Maximum size of a whole message with its key, bytes: a longer message goes without its signals and body."""


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message: `key` is the record's topic, so that what one origin says of one thing stays in order."""

    key: bytes
    value: bytes


def messages(batch: Batch) -> Iterator[Message]:
    """Yield a message per row, in order. The value is a JSON object: coordinates `stream`, `origin`, `offset`; `topic`, `device`, times in
    UTC ms (`device_at_ms`, `received_at_ms`, `order_at_ms`), `signals` (only those the row has), `body`. `source` names the coordinates of
    the record this one was made from, but not to customers: offsets of streams that all share would reveal how much others have there. A
    body that is longer than BODY_BYTES_MAX, or does not read (`streams.model.records.read_body`), is left out: `body` is null and
    `body_left_out` has its length and digest. If a record would be longer than MESSAGE_BYTES_MAX with its signals, these are left out, too.
    Topic and device are then cut to TOPIC_CHARS_MAX: `left_out` has length and digest of what it would have been."""
    signals = signal_names(batch.records)
    shared = not batch.stream.startswith(CUSTOMERS)
    head = {"stream": batch.stream, "origin": str(batch.origin)}
    for row in batch.records.to_pylist():
        value: dict[str, Any] = {**head, **{name: row.get(name) for name in (OFFSET, TOPIC, DEVICE, DEVICE_AT, RECEIVED_AT, ORDER_AT)}}
        if shared and row.get(SOURCE_OFFSET) is not None:
            value["source"] = {"stream": row[SOURCE_STREAM], "origin": row[SOURCE_ORIGIN], "offset": row[SOURCE_OFFSET]}
        value["signals"] = {name: row[name] for name in signals if row[name] is not None}
        value |= _body(row[BODY])
        yield _fitting(row[TOPIC], value)


def _fitting(topic: str, value: dict[str, Any]) -> Message:
    whole = orjson.dumps(value)
    if len(topic.encode()) + len(whole) <= MESSAGE_BYTES_MAX:
        return Message(topic.encode(), whole)
    cut = {name: value[name] and value[name][:TOPIC_CHARS_MAX] for name in (TOPIC, DEVICE)}
    left_out = {"bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
    return Message(topic[:TOPIC_CHARS_MAX].encode(), orjson.dumps(value | cut | {"signals": {}, "body": None, "left_out": left_out}))


def _body(text: str | None) -> dict[str, Any]:
    if text is None:
        return {"body": None}
    whole = text.encode()
    if len(whole) <= BODY_BYTES_MAX and _reads(text):
        return {"body": orjson.Fragment(whole)}
    return {"body": None, "body_left_out": {"bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}}


def _reads(text: str) -> bool:
    try:
        read_body(text)
    except ValueError:
        return False
    return True
