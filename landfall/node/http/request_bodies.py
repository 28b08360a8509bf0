"""The requests that come to a node's door: their parts, read and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast, get_args

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from aiohttp import web

from landfall.storage.row_tables import INT64_MAX
from landfall.transport.http_client import APPEND_BYTES_MAX, WireAppends
from landfall.transport.tls import node_of
from streams.arrow_ipc import read_ipc
from streams.config.roles import LinkClass
from streams.log import Append
from streams.model.errors import Misuse
from streams.model.identifiers import Origin, Position, check_stream, check_topic
from streams.model.records import SOURCE_ORIGIN, SOURCE_STREAM, TOPIC, check_given


async def body_of(request: web.Request) -> bytearray:
    """Return the whole body, a piece of some hundred KiB at a time. Raises a refusal as soon as it has more than APPEND_BYTES_MAX bytes."""
    body = bytearray()
    while piece := await request.content.readany():
        body += piece
        if len(body) > APPEND_BYTES_MAX:
            refusal = {"problem": f"one request takes at most {APPEND_BYTES_MAX} bytes", "code": "body_too_large"}
            raise web.HTTPRequestEntityTooLarge(APPEND_BYTES_MAX, len(body), text=json.dumps(refusal), content_type="application/json")
    return body


def number_of(request: web.Request, name: str, default: int | None, least: int = 0) -> Any:
    """Return a whole number of the query, from `least` to what 64 bits hold; `default` where there is none. Raises Misuse else."""
    if (text := request.query.get(name)) is None:
        return default
    if not (re.fullmatch(r"-?[0-9]{1,19}", text) and least <= int(text) <= INT64_MAX):
        raise Misuse(f"{name} is a whole number from {least} to {INT64_MAX}, not {text[:100]!r}", code="number_invalid")
    return int(text)


def asked_position(text: str) -> Position:
    """Return the Position that `text` holds as JSON. Raises Misuse for other text."""
    try:
        return Position.from_json(msgspec.json.decode(text, type=dict[str, int]))
    except (msgspec.MsgspecError, ValueError) as problem:
        what = f"a position is a JSON object of origins and offsets, not {text[:100]}: {problem}"
        raise Misuse(what, code="position_invalid") from None


def bearer_of(request: web.Request) -> str:
    """Return the token that the request shows; empty for none."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def certified_of(request: web.Request) -> str | None:
    """Return the node in whose name the peer has shown a certificate; None when it has shown none."""
    certificate = request.transport and request.transport.get_extra_info("peercert")
    return (node_of(certificate) or "no node") if certificate else None


def link_class_of(name: str) -> LinkClass:
    """Return the class of link of this name. Raises Misuse for another."""
    for known in get_args(LinkClass):
        if name == known:
            return cast(LinkClass, known)
    raise Misuse(f"a link is one of {', '.join(get_args(LinkClass))}, not {name!r}", code="link_class_unknown")


def appends_of(body: bytes | bytearray) -> list[Append]:
    """Return the appends that a body posted to /append requests. Raises Misuse, ValueError and msgspec's errors for an invalid body."""
    wanted = msgspec.msgpack.decode(body, type=WireAppends)
    return [Append(check_stream(one.stream), _records(one.records), one.producer, one.sequence) for one in wanted.appends]


def _records(ipc: bytes) -> pa.RecordBatch:
    """Return the rows of an Arrow IPC stream. Raises Misuse for bytes that are no such stream, ValueError for rows that may not be
    appended.
    """
    records = check_given(read_ipc(ipc))
    checks: tuple[tuple[str, Callable[[Any], object]], ...] = (
        (TOPIC, check_topic),
        (SOURCE_STREAM, check_stream),
        (SOURCE_ORIGIN, Origin.parse),
    )
    for name, check in checks:
        if name in records.schema.names and pa.types.is_string(records.column(name).type):
            for value in pc.unique(records.column(name)).drop_null().to_pylist():
                check(value)
    return records
