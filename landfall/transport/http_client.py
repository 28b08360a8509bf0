"""The client side of a node's HTTP door, for every process on the machine other than the node: append through it, read through it.

It is synchronous and uses only the standard library, so that a Spark driver, an API worker or a script can use it. Async callers use a
thread.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from landfall.transport.foreign_servers import no_node
from streams.arrow_ipc import to_ipc
from streams.gap_skipping_reader import ReaderStanding, skipped_to_json
from streams.log import Append, Appended
from streams.model.errors import LandfallError, Misuse, NotAllowed, RetryLater, Trimmed
from streams.model.identifiers import Origin, Position

DOOR_TIMEOUT_S = 45.0
"""Timeout of a request, seconds. It is longer than a node takes to report that the brokers of its log do not answer: twice 20 s, unless its
settings differ.
"""
APPEND_BYTES_MAX = 64 << 20
APPENDS_MAX = 10_000
"""Maximum number of appends in one request: each takes some 5 kB in memory, however short it is."""
REFUSAL_BYTES_MAX = 64 << 10
ROWS_MAX = 100_000
"""Maximum number of rows in one answer of /read or /history."""
HISTORY_ROWS = 50_000
"""Number of rows of a history that are requested at a time."""
_JSON, _LINES = "application/json", "application/x-ndjson"
Answer = TypeVar("Answer")


class WireAppend(msgspec.Struct):
    """One Append as it is posted to the door; `records` is an Arrow IPC stream."""

    stream: str
    producer: str | None
    sequence: int | None
    records: bytes


class WireAppends(msgspec.Struct):
    """The body of `POST /append`: all of it is appended in one commit, or nothing."""

    appends: Annotated[list[WireAppend], msgspec.Meta(max_length=APPENDS_MAX)]


class WireGone(msgspec.Struct):
    """Offsets of one (stream, origin) that will never come, as its origin declared."""

    stream: str
    origin: str
    ranges: list[tuple[int, int]]
    reason: str


class WireAdmits(msgspec.Struct):
    """The body of `POST /admit`: blocks as they are sent between nodes, all admitted in one commit or none; then the offsets that will
    never come.

    `bringer`: the node that wrote the file they are from, if they are from one.
    """

    blocks: list[bytes]
    gone: list[WireGone]
    bringer: str | None = None


class WireFollow(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /follow/<stream>`: the position of the client (`streams.gap_skipping_reader.ReaderStanding`), and the number of
    rows it takes at a time.
    """

    position: dict[str, int]
    skipped: dict[str, list[tuple[int, int]]]
    limit: Annotated[int, msgspec.Meta(ge=1)]
    wait_ms: Annotated[int, msgspec.Meta(ge=0)]


class _Admitted(msgspec.Struct):
    new_records: int


class _Appended(msgspec.Struct):
    stream: str
    origin: str
    first: int
    count: int
    repeated: bool


class _Streams(msgspec.Struct):
    streams: list[str]


class _Begun(msgspec.Struct):
    floor: int


class _Ledger(msgspec.Struct):
    position: dict[str, int]
    origins: dict[str, _Begun]


class _Refusal(msgspec.Struct):
    problem: str | None = None
    code: str = ""
    waits_for: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Followed:
    """Rows as `ReadDoor.read` returns them, late rows first; and the standing of a reader that has dealt with all of them."""

    rows: list[dict[str, Any]]
    standing: ReaderStanding


class AdmitDoor:
    """A client that brings blocks from elsewhere to the node whose door is at `url`. The caller knows what may come from which node."""

    def __init__(self, url: str, token: str, timeout_s: float = DOOR_TIMEOUT_S) -> None:
        self._door = _Asking(url, token, timeout_s, None)

    def admit(self, blocks: list[bytes], gone: Sequence[WireGone] = (), bringer: str | None = None) -> int:
        """Admit all blocks, from `bringer` if it is a node's, and return how many records were new. They are durable when it returns. The
        same call again changes nothing.

        Raises RetryLater (node away, disk full), NotAllowed (wrong token) or Misuse (a block that the log does not take).
        """
        return self._door.ask("/admit", _Admitted, msgspec.msgpack.encode(WireAdmits(blocks, list(gone), bringer))).new_records


class AppendDoor:
    """A client that appends to the log of the node whose door is at `url`. It is safe to use from any thread: every call is a request of
    its own.
    """

    def __init__(self, url: str, token: str, timeout_s: float = DOOR_TIMEOUT_S, context: ssl.SSLContext | None = None) -> None:
        """Make the client. `context`: for an `https://` door, `landfall.transport.tls.trusting`."""
        self._door = _Asking(url, token, timeout_s, context)

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Append all of `appends` in one commit, durable when it returns, and return the answers.

        A retry is safe when every Append has producer and sequence: after RetryLater the same call again makes no second copy. Raises
        RetryLater (node away, disk full), NotAllowed (wrong token, or a stream that the node may not write) or Misuse (records that the log
        refuses).
        """
        try:
            body = msgspec.msgpack.encode(WireAppends([wire_append(append) for append in appends]))
        except OverflowError as problem:
            raise Misuse(f"a sequence is no 64-bit number: {[append.sequence for append in appends]}", code="sequence_invalid") from problem
        answers = self._door.ask("/append", list[_Appended], body)
        return [Appended(a.stream, Origin.parse(a.origin), a.first, a.count, a.repeated) for a in answers]


class ReadDoor:
    """A client that reads the log of the node whose door is at `url`, as JSON. It is safe to use from any thread.

    Every call raises RetryLater when no node answers there, also when something else does, and NotAllowed for a wrong token.
    """

    def __init__(self, url: str, token: str, timeout_s: float = DOOR_TIMEOUT_S, context: ssl.SSLContext | None = None) -> None:
        """Make the client. `context`: for an `https://` door, `landfall.transport.tls.trusting`."""
        self._door = _Asking(url, token, timeout_s, context)

    def health(self) -> dict[str, Any]:
        """Return the node's own report on its health. Raises RetryLater while it is not ready."""
        answer = self._door.ask("/healthz", dict[str, Any])
        if "node" not in answer:
            raise no_node(self._door.url, http.client.OK)
        return answer

    def streams(self) -> list[str]:
        """Return the names of all streams of this copy."""
        return self._door.ask("/streams", _Streams).streams

    def position(self, stream: str) -> Position:
        """Return the Position of this copy of `stream`."""
        return Position.from_json(self._door.ask(f"/ledger/{stream}", _Ledger).position)

    def start(self, stream: str) -> Position | None:
        """Return where this copy of `stream` begins: at each origin's floor, below which it has dropped everything. None where it has
        nothing of the stream.
        """
        origins = self._door.ask(f"/ledger/{stream}", _Ledger).origins
        return Position.from_json({origin: one.floor for origin, one in origins.items()}) if origins else None

    def read(self, stream: str, position: Position | None = None, limit: int = 10_000) -> Iterator[dict[str, Any]]:
        """Yield rows of `stream` from `position` on, at most `limit`, each as a dict: coordinates, times, topic, device, signals, body.

        Raises Trimmed when `position` is below this copy's floor.
        """
        query = {"position": json.dumps((position or Position()).to_json()), "limit": str(limit)}
        yield from self._door.rows(f"/read/{stream}?{urllib.parse.urlencode(query)}")

    def follow(self, stream: str, standing: ReaderStanding, limit: int = 10_000, wait_ms: int = 0) -> Followed:
        """Return what follows `standing`: late rows of what it skipped, then rows from its Position on, at most `limit` in all.

        The node waits at a hole as long as the stream's patience, and then continues beyond it. When there is nothing, it waits for rows,
        at most `wait_ms`. Raises Trimmed when the Position is below this copy's floor.
        """
        wanted = WireFollow(standing.position.to_json(), skipped_to_json(standing.skipped), limit, wait_ms)
        lines = list(self._door.rows(f"/follow/{stream}", msgspec.json.encode(wanted), wait_s=wait_ms / 1000))
        if not lines:
            raise no_node(self._door.url, http.client.OK)
        *rows, reached = lines
        return Followed(rows, ReaderStanding.from_json(reached))

    def latest(self, stream: str, topic: str) -> Iterator[dict[str, Any]]:
        """Yield the last row of `topic` at each origin of `stream` that has one."""
        yield from self._door.rows(f"/latest/{stream}?{urllib.parse.urlencode({'topic': topic})}")

    def history(self, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield every row of one topic with since <= order time < until (UTC ms), in one order over all streams; requested in parts.

        Rows that come meanwhile may be left out. Raises Misuse where more rows are of one instant than an answer holds.
        """
        path = f"/history/{urllib.parse.quote(topic, safe='')}"
        since, rows_max, given = since_at_ms, HISTORY_ROWS, set[_Place]()
        while True:
            times = {name: str(at) for name, at in (("since_at_ms", since), ("until_at_ms", until_at_ms)) if at is not None}
            rows = list(self._door.rows(f"{path}?{urllib.parse.urlencode({**times, 'limit': str(rows_max)})}"))
            yield from (row for row in rows if _place(row) not in given)
            if len(rows) < rows_max:
                return
            given = {_place(row) for row in rows if row["order_at_ms"] == rows[-1]["order_at_ms"]}
            if rows[-1]["order_at_ms"] != since:
                since = rows[-1]["order_at_ms"]
            elif (rows_max := 2 * rows_max) > ROWS_MAX:
                raise Misuse(
                    f"more than {ROWS_MAX} records of {topic} are of one instant, {since}",
                    hint="read each stream by itself",
                    code="instant_crowded",
                )


_Place = tuple[str, str, int]


def _place(row: dict[str, Any]) -> _Place:
    return row["stream"], row["origin"], row["offset"]


def wire_append(append: Append) -> WireAppend:
    """Return the Append as it is posted."""
    return WireAppend(append.stream, append.producer, append.sequence, to_ipc(append.records))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: a node never redirects, and the token is for it alone."""

    def redirect_request(self, *_: Any) -> None:
        """Return None: no redirect is followed."""


@dataclass(frozen=True, slots=True)
class _Asking:
    url: str
    token: str
    timeout_s: float
    context: ssl.SSLContext | None

    def ask(self, path: str, form: type[Answer], body: bytes | None = None) -> Answer:
        """Return the door's answer, JSON of this form."""
        try:
            return msgspec.json.decode(self._answer(path, _JSON, body), type=form)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise no_node(self.url, http.client.OK) from None

    def rows(self, path: str, body: bytes | None = None, wait_s: float = 0.0) -> Iterator[dict[str, Any]]:
        """Yield the door's answer, a JSON object a line; it may take `wait_s` longer than others."""
        for line in self._answer(path, _LINES, body, wait_s).splitlines():
            yield json.loads(line)

    def _answer(self, path: str, kind: str, body: bytes | None = None, wait_s: float = 0.0) -> bytes:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/msgpack"}
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context), _NoRedirects()
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=self.timeout_s + wait_s) as answer:
                if answer.headers.get_content_type() != kind:
                    raise no_node(self.url, answer.status)
                whole: bytes = answer.read()
                return whole
        except urllib.error.HTTPError as problem:
            with problem:
                raise self._refusal(problem) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
            raise RetryLater(
                f"the node at {self.url} can not be reached: {problem}",
                hint="the same call again is safe with producer and sequence",
                code="node_unreachable",
            ) from None

    def _refusal(self, problem: urllib.error.HTTPError) -> LandfallError:
        kinds: dict[int, type[LandfallError]] = {400: Misuse, 401: NotAllowed, 403: NotAllowed, 410: Trimmed, 413: Misuse}
        try:
            refusal = msgspec.json.decode(problem.read(REFUSAL_BYTES_MAX), type=_Refusal)
        except (msgspec.MsgspecError, UnicodeDecodeError, http.client.HTTPException, OSError):
            refusal = _Refusal()
        if refusal.waits_for:
            return RetryLater(f"the node at {self.url} waits for {', '.join(refusal.waits_for)}", code="node_waits")
        if not refusal.problem:
            return no_node(self.url, problem.code)
        return kinds.get(problem.code, RetryLater)(refusal.problem, code=refusal.code)
