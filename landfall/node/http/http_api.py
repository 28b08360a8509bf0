"""A node's HTTP door: health, the sync upgrade, append for local processes, and reading as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from aiohttp import web
from aiohttp.typedefs import Handler

from landfall.access.password_checks import Crowded
from landfall.access.principals import Principal, may
from landfall.node.http.request_bodies import appends_of, asked_position, bearer_of, body_of, certified_of, link_class_of, number_of
from landfall.node.http.request_guard import OPEN, Guard, Need, must, principal_of, problem_response
from landfall.node.http.row_json import batch_lines, table_lines
from landfall.node.http.stream_follower import FollowRequest, StreamFollowers
from landfall.node.lost_offsets import Losing, PeerClaims, losing, losing_fields, missing
from landfall.node.peers.peer_identification import PEER_UNKNOWN
from landfall.node.peers.session_manager import Links
from landfall.node.settings import NodeSettings
from landfall.node.write_authorization import OF_ITSELF, Originating
from landfall.storage.row_tables import INT64_MIN
from landfall.system.text_files import json_of
from landfall.system.thread_pool import READERS, WRITERS
from landfall.transport.aiohttp_headers import protect_answers
from landfall.transport.dialer import LINK_HEADER, NODE_HEADER
from landfall.transport.http_client import ROWS_MAX, WireAdmits, WireFollow
from landfall.transport.websocket import Wire
from streams.config.companion_streams import DERIVED
from streams.config.stream_definitions import Definitions, may_have, may_originate
from streams.consumers import CONSUMERS, check_client
from streams.gap_skipping_reader import ReaderStanding
from streams.log import Append, Appended, Log
from streams.model.block import Block
from streams.model.clock import Clock
from streams.model.errors import InvalidValue, LandfallError, NotAllowed, RetryLater, Trimmed
from streams.model.identifiers import Origin, check_stream, check_topic
from streams.model.ledger import position_of
from streams.model.ranges import RangeSet
from streams.model.records import BODY, TOPIC, read_body
from streams.replication.ledger_summaries import checked_ranges, checked_reason
from streams.replication.link_terms import Key
from streams.retention.floor_reasons import starts_of
from streams.retention.known_holdings import HOMES
from streams.skipped_records import EXCEPTIONS, floor_topic, process_of

ROWS = 10_000
RETRY_AFTER_S, CROWDED_RETRY_AFTER_S = "1", "5"
"""Time after which to ask again after a 503, and after a 429, seconds."""
HEALTH_FOR_ALL = ("ready", "waits_for", "node", "role")
"""Fields that /healthz shows without a credential."""
WAIT_MS_MAX = 30_000
"""Maximum time that an empty answer of /follow waits for records, milliseconds."""


class ServedNode(Protocol):
    """The node behind the door."""

    @property
    def settings(self) -> NodeSettings:
        """Settings of the node."""
        ...

    @property
    def log(self) -> Log:
        """Log of the node."""
        ...

    @property
    def links(self) -> Links:
        """Sessions of the node."""
        ...

    @property
    def definitions(self) -> Definitions:
        """Present management of each stream."""
        ...

    @property
    def originating(self) -> Originating:
        """Rules for what the node may write."""
        ...

    @property
    def clock(self) -> Clock:
        """Clock that the node waits by."""
        ...

    async def append(self, appends: list[Append]) -> list[Appended]:
        """Append, and return the answers; durable when it returns."""
        ...

    async def admit(self, blocks: list[Block], bringer: str | None = None) -> int:
        """Admit blocks from elsewhere, of the node `bringer` if any, and return how many records were new. They are durable when it
        returns.
        """
        ...

    def health(self) -> dict[str, Any]:
        """Return the node's report on its health."""
        ...


class _Lose(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to give up offsets `first .. end - 1` of an origin. Unless `sure`, only the effect is reported. Nodes named in `without`
    are not waited for.
    """

    origin: str
    first: int
    end: int
    sure: bool = False
    without: tuple[str, ...] = ()


class HttpApi:
    """The routes of one node, and what each needs of its caller (docs/reference/access.md). /sync is for peers, which `Links.who`
    identifies.
    """

    def __init__(self, node: ServedNode, guard: Guard) -> None:
        self._node, self._guard = node, guard
        self._following = StreamFollowers(node.definitions, node.clock)

    def mount(self, app: web.Application) -> None:
        """Add the routes, and the check of callers and errors that all routes of `app` share."""
        app.middlewares.append(self._check)
        protect_answers(app)
        consume, its_own = Need("consume", "{stream}"), Need("consume")
        for method, path, handler, need in (
            ("GET", "/healthz", self._healthz, OPEN),
            ("GET", "/sync", self._sync, OPEN),
            ("POST", "/append", self._append, Need("produce")),
            ("POST", "/admit", self._admit, Need("admin")),
            ("POST", "/lose/{stream:.+}", self._lose, Need("admin", "{stream}")),
            ("GET", "/missing", self._missing, Need("admin", "*")),
            ("GET", "/streams", self._streams, its_own),
            ("GET", "/ledger/{stream:.+}", self._ledger, consume),
            ("GET", "/read/{stream:.+}", self._read, consume),
            ("POST", "/follow/{stream:.+}", self._follow, consume),
            ("GET", "/latest/{stream:.+}", self._latest, consume),
            ("GET", "/history/{topic}", self._history, its_own),
        ):
            self._guard.route(method, path, handler, need)

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.headers.get("Content-Encoding", "identity").lower() != "identity":
                return problem_response(415, "bodies are not unpacked here: send them without Content-Encoding", "body_encoded")
            return await self._guard.check(request, handler)
        except web.HTTPNotFound:
            return problem_response(404, f"this node has no {request.path}", "path_unknown")
        except web.HTTPMethodNotAllowed as problem:
            allowed = ", ".join(sorted(problem.allowed_methods))
            sentence = f"{request.path} takes {allowed}, and no {request.method}"
            return problem_response(405, sentence, "method_not_allowed", {"Allow": allowed})
        except NotAllowed as problem:
            return problem_response(403, str(problem), problem.code)
        except Crowded:
            sentence = "too many wrong secrets, or passwords that wait to be checked: try again soon"
            return problem_response(429, sentence, "secrets_too_many", {"Retry-After": CROWDED_RETRY_AFTER_S})
        except RetryLater as problem:
            return problem_response(503, str(problem), problem.code, {"Retry-After": RETRY_AFTER_S})
        except Trimmed as problem:
            return problem_response(410, str(problem), problem.code)
        except LandfallError as problem:
            return problem_response(400, str(problem), problem.code)
        except InvalidValue as problem:
            return problem_response(400, str(problem), problem.code)
        except (ValueError, msgspec.MsgspecError, pa.ArrowException) as problem:
            return problem_response(400, str(problem), "request_invalid")

    async def _healthz(self, request: web.Request) -> web.Response:
        """Answer all of it to a caller that may read `metrics`; other callers do not get the peers in session."""
        health = self._node.health()
        principal = await self._guard.known(request)
        known = principal is not None and may(principal, "consume", "metrics")
        fields = health if known else {name: health[name] for name in HEALTH_FOR_ALL}
        return web.json_response(fields, status=200 if health["ready"] else 503)

    async def _sync(self, request: web.Request) -> web.StreamResponse:
        links, name, certified, token = self._node.links, request.headers.get(NODE_HEADER, ""), certified_of(request), bearer_of(request)
        try:
            guest = links.who(name, certified, token)
        except NotAllowed as problem:
            if problem.code == PEER_UNKNOWN and (certified or token):
                await self._guard.shown_wrong(request, f"node:{name}")
            raise
        link = link_class_of(request.headers.get(LINK_HEADER, "lan"))
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return problem_response(400, "this is the door of the sync session: it wants a WebSocket", "websocket_expected")
        wire = await Wire.accept(request)
        await links.accept(guest, link, wire)
        return wire.response

    async def _append(self, request: web.Request) -> web.Response:
        appends = await WRITERS.run(partial(appends_of, await body_of(request)))
        for append in appends:
            must(request, "produce", append.stream)
            _check_floors(principal_of(request), append)
        for append in appends:
            await self._check_writes(append)
            if append.stream == CONSUMERS:
                await WRITERS.run(partial(self._check_consumers, append.records))
        return web.json_response([_appended(answer) for answer in await self._node.append(appends)])

    async def _check_writes(self, append: Append) -> None:
        """Raise NotAllowed for what only the node's own process writes, and for what this node may not write.

        A record of the second kind that is here already raises nothing: its retry gets that answer even where the right to write is gone by
        now.
        """
        if append.stream.endswith(DERIVED) or append.stream == HOMES:
            what = f"{append.stream} is what the node itself says of its records: no other program writes into it"
            raise NotAllowed(what, code="stream_of_node")
        try:
            self._node.originating.check(append.stream)
            await WRITERS.run(partial(self._node.originating.check_said, append))
        except NotAllowed:
            await self._node.append([])  # a first attempt that is still on its way is done then
            if not await WRITERS.run(partial(self._node.log.repeats, append)):
                raise

    def _check_consumers(self, records: pa.RecordBatch) -> None:
        """Refuse what is not a program's own consumer. The nodes' own consumers write their positions into the log itself, not through a
        door.
        """
        known = self._node.log.streams()
        for row in records.to_pylist():
            check_client(row[TOPIC], read_body(row[BODY]), known)

    async def _admit(self, request: web.Request) -> web.Response:
        wanted = msgspec.msgpack.decode(await body_of(request), type=WireAdmits)
        blocks = [Block.from_bytes(data) for data in wanted.blocks]
        for stream in {*(block.stream for block in blocks), *(gone.stream for gone in wanted.gone)}:
            must(request, "admin", stream)
        new_records = await self._node.admit(blocks, wanted.bringer)
        for gone in wanted.gone:
            stream, origin, reason = check_stream(gone.stream), Origin.parse(gone.origin), checked_reason(gone.reason)
            ranges = checked_ranges(gone.ranges).without(self._settled(stream, origin))
            await WRITERS.run(partial(self._node.log.declare_all_gone, stream, origin, ranges, reason))
        return web.json_response({"new_records": new_records})

    def _settled(self, stream: str, origin: Origin) -> RangeSet:
        one = self._node.log.ledger(stream).get(origin)
        return one.settled() if one else RangeSet()

    async def _lose(self, request: web.Request) -> web.Response:
        wanted = json_of(await body_of(request), _Lose)
        key = check_stream(request.match_info["stream"]), Origin.parse(wanted.origin)
        node, asked = self._node, checked_ranges([(wanted.first, wanted.end)])
        said = self._said(key)

        def lose() -> Losing:
            found = losing(node.log, node.settings.me(), key, asked, said)
            found.check(wanted.without)
            if wanted.sure:
                node.log.declare_all_gone(*key, found.lost, found.reason)
            return found

        found = await WRITERS.run(lose)
        return web.json_response({"lost": list(found.lost), "away": found.away, "known_end": found.known_end})

    def _said(self, key: Key) -> PeerClaims:
        links = self._node.links
        senders = {name: session.sender for name, session in links.sessions().items()}
        tracks = {name: one.track(key) for name, one in senders.items() if key in one.settled_by_peer()}
        floors, gone = {name: one.floor for name, one in tracks.items()}, {name: one.gone.copy() for name, one in tracks.items()}
        return PeerClaims(links.settled(key), floors, [peer.node for peer in self._node.settings.known], gone)

    async def _missing(self, request: web.Request) -> web.Response:
        node = self._node
        ledgers = await READERS.run(lambda: {stream: node.log.ledger(stream) for stream in node.log.streams()})
        keys = [(stream, origin) for stream in sorted(ledgers) for origin in sorted(ledgers[stream])]
        lacks = [offsets for key in keys if (offsets := missing(node.log, node.settings.me(), key, self._said(key)))]
        return web.json_response({"missing": [losing_fields(offsets) for offsets in lacks]})

    async def _streams(self, request: web.Request) -> web.Response:
        return web.json_response({"streams": await READERS.run(partial(self._readable, principal_of(request)))})

    def _readable(self, principal: Principal) -> list[str]:
        """Return the streams of this copy that the caller may read."""
        return [stream for stream in self._node.log.streams() if may(principal, "consume", stream)]

    async def _ledger(self, request: web.Request) -> web.Response:
        stream = check_stream(request.match_info["stream"])
        log, me = self._node.log, self._node.settings.node
        ledger, why = await READERS.run(lambda: (log.ledger(stream), starts_of(log, stream, {me})))
        origins = {
            str(origin): {
                "held": list(one.held),
                "gone": {reason: list(ranges) for reason, ranges in one.gone.items()},
                "floor": one.floor,
                "floor_why": why.get(origin),
            }
            for origin, one in ledger.items()
        }
        return web.json_response({"stream": stream, "position": position_of(ledger).to_json(), "origins": origins})

    async def _read(self, request: web.Request) -> web.Response:
        stream = self._to_be_here(check_stream(request.match_info["stream"]))
        position = asked_position(request.query.get("position", "{}"))
        topics = request.query.getall("topic", []) or None
        limit, log = min(number_of(request, "limit", ROWS), ROWS_MAX), self._node.log
        return _lines_answer(await READERS.run(lambda: _text(batch_lines(map(log.own, log.read(stream, position, topics)), limit))))

    def _to_be_here(self, stream: str) -> str:
        """Return `stream` itself. Raises RetryLater where nothing of it is here nor, as it is managed now, ever will be: others may have
        it.
        """
        me, definition = self._node.settings.me(), self._node.definitions.of(stream)
        its_own = stream in OF_ITSELF or may_originate(definition, me.role, me.node)
        if its_own or may_have(me, definition) or stream in self._node.log.streams():
            return stream
        what = f"'{me.node}' is given nothing of {stream}, which goes to {', '.join(definition.replicate)}"
        raise RetryLater(what, hint="ask these", code="stream_elsewhere")

    async def _follow(self, request: web.Request) -> web.Response:
        wanted = json_of(await body_of(request), WireFollow)
        standing = ReaderStanding.from_json({"position": wanted.position, "skipped": wanted.skipped})
        stream = self._to_be_here(check_stream(request.match_info["stream"]))
        ask = FollowRequest(stream, standing, min(wanted.limit, ROWS_MAX))
        polled = await self._following.follow(self._node.log, ask, min(wanted.wait_ms, WAIT_MS_MAX))
        rows = await READERS.run(lambda: _text(batch_lines((*polled.late, *polled.batches), ROWS_MAX)))
        return _lines_answer(f"{rows}{json.dumps(polled.standing.to_json())}\n")

    async def _latest(self, request: web.Request) -> web.Response:
        stream, topic = check_stream(request.match_info["stream"]), check_topic(request.query.get("topic", ""))
        return _lines_answer(await READERS.run(lambda: _text(batch_lines(self._node.log.latest(stream, topic), ROWS_MAX))))

    async def _history(self, request: web.Request) -> web.Response:
        topic = check_topic(request.match_info["topic"])
        since, until = (number_of(request, name, None, INT64_MIN) for name in ("since_at_ms", "until_at_ms"))
        limit = min(number_of(request, "limit", ROWS_MAX), ROWS_MAX)
        log, principal = self._node.log, principal_of(request)

        def text() -> str:
            return _text(table_lines(log, log.history(topic, since, until, self._readable(principal)).rows, limit))

        return _lines_answer(await READERS.run(text))


def _check_floors(principal: Principal, append: Append) -> None:
    """Raise NotAllowed where `principal` reports what another process never read: only `user:PROCESS` and operators report that."""
    topics = append.records.column(TOPIC).unique().to_pylist() if append.stream == EXCEPTIONS else ()
    for process in filter(None, map(process_of, topics)):
        if principal.name != f"user:{process}" and not may(principal, "admin", EXCEPTIONS):
            what = f"{principal.name} may not write {floor_topic(process)} of {EXCEPTIONS}: it is what {process} itself reports"
            raise NotAllowed(what, hint=f"name the credential of this process user:{process}", code="topic_not_own")


def _text(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _lines_answer(text: str) -> web.Response:
    return web.Response(text=text, content_type="application/x-ndjson")


def _appended(answer: Appended) -> dict[str, Any]:
    return {
        "stream": answer.stream,
        "origin": str(answer.origin),
        "first": answer.first,
        "count": answer.count,
        "repeated": answer.repeated,
    }
