"""Conversion of messages to records: one Arrow batch per stream, built column by column, and a record per refused message."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import Any

import msgspec
import pyarrow as pa

from cargo.loss.reading_rows import RETAINED, WILL
from cargo.vocabulary.reading_batches import ReadingColumns, read_payloads
from cargo.vocabulary.reading_identity import identities
from intake.decoders.decoder_port import Decoder, decoded
from intake.message_types import KEPT_BYTES_MAX, STORED, Outcome, Publish
from intake.topic_routes import Routes, TopicRoute
from landfall.system.secret_masks import mask_secrets
from streams.model.clock import Clock
from streams.model.records import BODY, GIVEN, LATE_MS_MAX, TOPIC, Record, body_text

EXCEPTIONS = "exceptions"
CONTAINERS = "containers"
MQTT_TOPIC_CHARS_MAX = 400
Arrived = tuple[int, TopicRoute, bytes]
"""Input to read: the number of the message that brought it, the route of its readings, its payload in our form."""
_OF_CLOCKS = {"future": Outcome.FUTURE, "stale": Outcome.STALE}


@dataclass(slots=True)
class StreamRows:
    """Rows for one stream: row i came from message `messages[i]` and has identity `identities[i]`.

    Device `whose[i]` (a number) reported it at `times_ms[i]` (UTC ms; None: without a time)."""

    stream: str
    records: pa.RecordBatch
    messages: list[int]
    identities: list[bytes]
    whose: list[int]
    times_ms: list[int | None]

    def taken(self, rows: Sequence[int], flagged: Collection[int], flag: str) -> StreamRows:
        """Return these rows, in order; those `flagged` have the flag in their body."""
        records = self.records.take(pa.array(rows, pa.int64()))
        if flagged:
            bodies = records.column(BODY).to_pylist()
            marked = [_with_flag(text, flag) if row in flagged else text for row, text in zip(rows, bodies, strict=True)]
            records = records.set_column(records.schema.get_field_index(BODY), BODY, pa.array(marked, pa.string()))
        return StreamRows(
            self.stream,
            records,
            [self.messages[row] for row in rows],
            [self.identities[row] for row in rows],
            [self.whose[row] for row in rows],
            [self.times_ms[row] for row in rows],
        )


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message, by `number`, that is not accepted as a reading, or not all of it, and the reason."""

    number: int
    outcome: Outcome
    reason: str


@dataclass(slots=True)
class Prepared:
    """Result of `prepare`: the outcome of each message as far as it is known before the log is checked, and what is to be appended."""

    outcomes: list[Outcome]
    parts: list[StreamRows] = field(default_factory=list)
    refused: list[RefusedMessage] = field(default_factory=list)


def prepare(messages: Sequence[Publish], routes: Routes, believed: range) -> Prepared:
    """Decode and check `messages`; readings of a device time (UTC ms) that is not `believed` are flagged.

    Never raises for what they contain; repeats are still in it.
    """
    prepared = Prepared([Outcome.ACCEPTED] * len(messages))
    found: dict[str, list[Arrived]] = {}
    for number, message in enumerate(messages):
        route = routes.route(message.topic)
        if message.refused is not None:
            _refuse(prepared, number, message.refused, message.reason)
        elif route is None:
            _refuse(prepared, number, Outcome.UNKNOWN_TOPIC, "this MQTT topic is none of ours")
        elif route.refusal:
            _refuse(prepared, number, Outcome.FOREIGN, route.refusal)
        elif route.decode is None:
            found.setdefault(route.stream, []).append((number, route, message.payload))
        elif problem := _decode(found, number, message, route.decode, routes):
            _refuse(prepared, number, Outcome.MALFORMED, problem)
    for stream, arrived in found.items():
        readings = read_payloads([payload for _, _, payload in arrived])
        for row, refusal in readings.refusals.items():
            _refuse(prepared, arrived[row][0], Outcome[refusal.outcome.upper()], refusal.reason)
        if readings.rows:
            taken = [arrived[row] for row in readings.rows]
            prepared.parts.append(_part(stream, taken, messages, readings, prepared.outcomes, believed))
    return prepared


def _decode(found: dict[str, list[Arrived]], number: int, message: Publish, decode: Decoder, routes: Routes) -> str:
    """Add the readings in a message of another format to `found`; return the problem with the rest of it, if any."""
    made = decoded(decode, message.payload)
    problem = made.problem
    for topic, payload in made.messages:
        route = routes.route(topic)
        if route is None or route.decode is not None:
            problem = (
                problem or f"its decoder names a topic that is none of ours: {topic.decode('utf-8', 'replace')[:MQTT_TOPIC_CHARS_MAX]}"
            )
        elif route.refusal:
            problem = problem or route.refusal
        else:
            found.setdefault(route.stream, []).append((number, route, payload))
    return problem


def mark_strangers(prepared: Prepared, strangers: Callable[[set[str]], set[str]]) -> None:
    """Mark, in the outcomes of `prepared`, the readings of containers that this node does not know.

    Their rows stay as they are: a container that is in no list today may be in tomorrow's."""
    for part in prepared.parts:
        if part.stream == CONTAINERS:
            topics = part.records.column(TOPIC).to_pylist()
            if unknown := strangers(set(topics)):
                _are_unknown(compress(part.messages, (topic in unknown for topic in topics)), prepared.outcomes)


def exception_record(process: str, message: Publish, refused: RefusedMessage, now_ms: int) -> Record:
    """Return the record in `exceptions` of a refused message.

    It has the first KEPT_BYTES_MAX of its payload, without the values of secrets in it, and the length and SHA-256 of all of it."""
    whole = not message.payload_sha256
    kept, secrets = mask_secrets(message.payload[:KEPT_BYTES_MAX])
    body = {
        "reason": refused.reason,
        "outcome": refused.outcome.name.lower(),
        "mqtt_topic": message.topic.decode("utf-8", "backslashreplace")[:MQTT_TOPIC_CHARS_MAX],
        "payload_base64": base64.b64encode(kept[:KEPT_BYTES_MAX]).decode(),
        "payload_bytes": len(message.payload) if whole else message.payload_bytes,
        "payload_sha256": hashlib.sha256(message.payload).hexdigest() if whole else message.payload_sha256,
        **({"secrets_masked": secrets} if secrets else {}),
        "at_ms": now_ms,
    }
    return Record(topic=process, body=body)


def _refuse(prepared: Prepared, number: int, outcome: Outcome, reason: str) -> None:
    prepared.outcomes[number] = outcome
    prepared.refused.append(RefusedMessage(number, outcome, reason))


def _part(
    stream: str, arrived: list[Arrived], messages: Sequence[Publish], readings: ReadingColumns, outcomes: list[Outcome], believed: range
) -> StreamRows:
    numbers = [number for number, _, _ in arrived]
    topics = [route.topic for _, route, _ in arrived]
    valid = [route.number_valid for _, route, _ in arrived]
    flags = _flags(valid, readings, numbers, outcomes, believed)
    _flag(flags, (row for row, number in enumerate(numbers) if messages[number].will), WILL)
    _flag(flags, (row for row, number in enumerate(numbers) if messages[number].retained), RETAINED)
    if stream == CONTAINERS and not all(valid):
        _are_unknown(compress(numbers, map(not_, valid)), outcomes)
    cores: dict[int, dict[str, Any]] = {row: dict(fields) for row, fields in readings.unknown.items()}
    for row, fields in readings.refused.items():
        cores.setdefault(row, {})["refused"] = fields
    core_texts = {row: body_text(core) for row, core in cores.items()}
    bodies = core_texts | _flagged(flags, cores)
    columns = [
        pa.array(topics, pa.string()),
        pa.array(readings.devices, pa.string()),
        pa.array(readings.device_at_ms, pa.int64()),
        pa.array([bodies.get(row) for row in range(len(topics))], pa.string()) if bodies else pa.nulls(len(topics), pa.string()),
        *readings.signals.values(),
    ]
    schema = pa.schema([*GIVEN, *(pa.field(name, column.type) for name, column in readings.signals.items())])
    records = pa.RecordBatch.from_arrays(columns, schema=schema)
    found = identities(topics, readings.devices, readings.device_at_ms, readings.signals, core_texts)
    return StreamRows(stream, records, numbers, found, whose_of(topics, readings.devices), readings.device_at_ms)


def _flagged(flags: dict[int, list[str]], cores: dict[int, dict[str, Any]]) -> dict[int, str]:
    """Return the bodies of the rows that have flags. Most have only flags, the same as others: each text is made once."""
    alone: dict[str, str] = {}
    bodies = {}
    for row, row_flags in flags.items():
        if row in cores:
            bodies[row] = body_text({**cores[row], "flags": row_flags})
        elif (text := alone.get(key := " ".join(row_flags))) is not None:
            bodies[row] = text
        else:
            bodies[row] = alone[key] = body_text({"flags": row_flags})
    return bodies


def whose_of(topics: Iterable[str], devices: Iterable[str | None]) -> list[int]:
    """Return a number for each device on its topic; another process has other numbers."""
    return list(map(hash, zip(topics, devices, strict=True)))


def _with_flag(body: str | None, flag: str) -> str:
    fields: dict[str, Any] = {} if body is None else msgspec.json.decode(body)
    return body_text({**fields, "flags": [*fields.get("flags", ()), flag]})


def _flags(
    valid: Sequence[bool], readings: ReadingColumns, numbers: Sequence[int], outcomes: list[Outcome], believed: range
) -> dict[int, list[str]]:
    """Return the flags by row, and mark future and stale rows in `outcomes`, except for a message that was refused for another of its
    readings."""
    flags: dict[int, list[str]] = {}
    if not all(valid):
        _flag(flags, (row for row, one in enumerate(valid) if not one), "check_digit")
    _flag(flags, readings.refused, "refused")
    for row, at_ms in enumerate(readings.device_at_ms):
        if flag := clock_flag(at_ms, believed):
            _flag(flags, (row,), flag)
            if flag in _OF_CLOCKS:
                _mark(outcomes, numbers[row], _OF_CLOCKS[flag])
    return flags


def clock_flag(at_ms: int | None, believed: range) -> str:
    """Return the flag for a device's time (UTC ms): `no_time`, `future`, `stale`; empty for one that is `believed`."""
    if at_ms is None:
        return "no_time"
    return "" if at_ms in believed else "future" if at_ms >= believed.stop else "stale"


def believed_times(clock: Clock) -> range:
    """Return the device times (UTC ms) that are accepted now by a node's `clock`: all where the clock itself is doubted."""
    now_ms = clock.now_ms()
    return range(1 << 62) if clock.doubted() else range(now_ms - LATE_MS_MAX, now_ms + clock.early_ms() + 1)


def _are_unknown(numbers: Iterable[int], outcomes: list[Outcome]) -> None:
    """Mark these messages as of containers that this node does not know, or that can not exist."""
    for number in numbers:
        if outcomes[number] == Outcome.ACCEPTED:
            outcomes[number] = Outcome.UNKNOWN_CONTAINER


def _mark(outcomes: list[Outcome], number: int, outcome: Outcome) -> None:
    if outcomes[number] in STORED:
        outcomes[number] = outcome


def _flag(flags: dict[int, list[str]], rows: Iterable[int], flag: str) -> None:
    for row in rows:
        flags.setdefault(row, []).append(flag)
