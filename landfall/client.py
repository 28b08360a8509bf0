"""Reading streams from wherever a node answers: one that dies is left for the next, and the Position goes along.

fleet = landfall.connect([landfall.NodeDoor("http://tokyo:8770", "…"), landfall.NodeDoor("http://hq:8770", "…")])
for record in fleet.follow("alerts", consumer="pager"): ...
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from landfall.system.struct_types import build_struct_types
from landfall.transport.http_client import AppendDoor, Followed, ReadDoor
from landfall.transport.tls import trusting
from streams.consumers import CONSUMERS, Consumed, client_topic, skip_reports, standing_append
from streams.gap_skipping_reader import ReaderStanding, newly_skipped
from streams.log import Append
from streams.model.errors import Corrupt, LandfallError, Misuse, RetryLater, Trimmed
from streams.model.identifiers import Origin, Position, check_stream
from streams.model.ranges import RangeSet
from streams.model.records import Record, to_batch
from streams.skipped_records import EXCEPTIONS

TIMEOUT_S = 10.0
PATIENCE_S = 30.0
WAIT_MS = 1_000
"""Maximum time for which a node holds a request back while it waits for records, ms."""
SILENT_S = 1.5
"""Silence after which a follower asks all nodes, beyond the time for which a request may be held back, seconds.

A host that lost its power ends no connection. Each node is then given its whole timeout.
"""
ROWS_MAX = 5_000
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 0.5
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class NodeDoor:
    """Door of a node: `http://host:port`, or `https://host:port` with its host in its certificate, and the token of its settings."""

    url: str
    token: str


def connect(
    nodes: Sequence[NodeDoor], authority: Path | None = None, timeout_s: float = TIMEOUT_S, patience_s: float = PATIENCE_S
) -> Client:
    """Return a client of whichever of these nodes answers, the first ones first. Sends no request yet.

    `authority`: the authority that signed the certificates of `https://` doors (PEM). `timeout_s`: a node that does not answer for this
    long is left for the next; `follow` asks all of them after SILENT_S. `patience_s`: how long `read`, `history` and `commit` try to find
    one that answers. Raises Misuse when there is no node, or no authority for one.
    """
    build_struct_types()
    if not nodes:
        raise Misuse("there is no node to connect to", hint="name at least one", code="nodes_missing")
    if authority is None and (secured := [node.url for node in nodes if node.url.startswith("https:")]):
        raise Misuse(
            f"nobody vouches for {', '.join(secured)}", hint="give `authority`, the authority's .pem file", code="authority_missing"
        )
    context = None if authority is None else trusting(authority)
    doors = [
        _Doors(
            node.url,
            ReadDoor(node.url, node.token, timeout_s, context),
            ReadDoor(node.url, node.token, min(timeout_s, SILENT_S), context),
            AppendDoor(node.url, node.token, timeout_s, context),
        )
        for node in nodes
    ]
    return Client(_Nodes(doors, patience_s))


class Client:
    """Client that reads through one node after the other. Safe from any thread; each StreamFollower is for one."""

    def __init__(self, nodes: _Nodes) -> None:
        self._nodes = nodes

    def read(self, stream: str, position: Position | None = None) -> Iterator[dict[str, Any]]:
        """Yield every record of `stream` that a node has now, from `position` on, else from its `start`, each once, in order of each
        origin.

        A record is a dict: `stream`, `origin`, `offset`, `topic`, `device`, `device_at_ms`, `received_at_ms`, `order_at_ms` (UTC ms),
        `signals`, `body`. Raises RetryLater when no node answers in time, Trimmed when `position` is below what any copy keeps,
        NotAllowed for a wrong token.
        """
        reached = (position or Position()).to_json()
        try:
            rows = self._rows(stream, reached)
        except Trimmed:
            if reached:
                raise
            reached = self.start(stream).position.to_json()
            rows = self._rows(stream, reached)
        while rows:
            for row in rows:
                reached[row["origin"]] = row["offset"] + 1
                yield row
            rows = self._rows(stream, reached)

    def _rows(self, stream: str, reached: Mapping[str, int]) -> list[dict[str, Any]]:
        return self._nodes.asked(lambda doors: list(doors.read.read(stream, Position.from_json(reached), ROWS_MAX)))

    def start(self, stream: str) -> ReaderStanding:
        """Return the start of `stream` at the node that has dropped least of it, of the nodes that answer. None of them keeps what is
        below.

        Call it after Trimmed was raised, to go on: `follow(stream, standing=fleet.start(stream).merged(standing))`. Records dropped
        between are then never given. Raises RetryLater when no node answers in time, NotAllowed for a wrong token.
        """
        return ReaderStanding(self._nodes.start(stream) or Position())

    def history(self, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None) -> list[dict[str, Any]]:
        """Return every record of one container or ship with since <= order time < until (UTC ms), merged over all streams. Raises as
        `read`."""
        return self._nodes.asked(lambda doors: list(doors.read.history(topic, since_at_ms, until_at_ms)))

    def follow(self, stream: str, consumer: str | None = None, standing: ReaderStanding | None = None) -> StreamFollower:
        """Return a follower of all present and future records of `stream`.

        It begins at `standing`, or where `consumer` last committed, or at the stream's `start`. The client looks up the consumer's
        standing at every node that answers, and merges them. Raises RetryLater when none does, Misuse when the name is known as a
        consumer of another stream, or both are given.
        """
        check_stream(stream)
        if consumer is None:
            return StreamFollower(self._nodes, stream, None, standing or ReaderStanding())
        if standing is not None:
            raise Misuse(
                "a named consumer stands where it last committed", hint="give either a consumer or a standing", code="standing_ambiguous"
            )
        topic, reached = client_topic(consumer), ReaderStanding()
        for row in self._nodes.asked_all(lambda doors: list(doors.read.latest(CONSUMERS, topic))):
            try:
                committed = Consumed.read(row["body"])
            except ValueError as problem:
                raise Corrupt(
                    f"where {consumer!r} stands by {row['origin']} does not read: {problem}",
                    hint="give it another name",
                    code="consumer_unreadable",
                ) from None
            if committed.stream != stream:
                raise Misuse(
                    f"{consumer!r} is a consumer of {committed.stream!r}, not of {stream!r}",
                    hint="give the new one another name",
                    code="consumer_of_another",
                )
            reached = reached.merged(committed.standing())
        return StreamFollower(self._nodes, stream, topic, reached)


class StreamFollower:
    """Iterator over records that waits for more until `close`, which any thread may call. Leave it with `with`, or close it.

    At a hole it waits as long as the stream's patience. Records that come later for the hole are given late, once.
    """

    def __init__(self, nodes: _Nodes, stream: str, consumer: str | None, standing: ReaderStanding) -> None:
        self._nodes, self._stream, self._consumer = nodes, stream, consumer
        self._fetched = self._committed = standing
        self._from_start = standing == ReaderStanding()
        self._given = _Place(standing)
        self._rows: deque[dict[str, Any]] = deque()
        self._closed = threading.Event()

    @property
    def standing(self) -> ReaderStanding:
        """Standing after the last record given, with the ranges that were skipped.

        Store it together with the result of that record, and nothing is done twice.
        """
        return self._given.standing()

    @property
    def node(self) -> str:
        """URL of the node from which it reads at the moment."""
        return self._nodes.at_hand

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        """Return the next record, once.

        Raises Trimmed when all nodes have dropped the records after the last one read, NotAllowed for a wrong token.
        """
        while not self._rows:
            if self._closed.is_set():
                raise StopIteration
            with suppress(RetryLater):  # closed meanwhile
                self._fetch()
        row = self._rows.popleft()
        self._given.pass_by(row, last=not self._rows)
        return row

    def _fetch(self) -> None:
        try:
            followed = self._nodes.followed(self._following_soon, self._following, self._closed)
        except Trimmed:
            begins = self._nodes.start(self._stream) if self._from_start else None
            if begins is None or begins == self._fetched.position:
                raise
            followed = Followed([], ReaderStanding(begins))
        self._rows.extend(followed.rows)
        self._given.next(followed.standing, bool(followed.rows))
        self._fetched = followed.standing
        self._from_start &= not followed.rows

    def _following(self, doors: _Doors) -> Followed:
        return doors.read.follow(self._stream, self._fetched, ROWS_MAX, WAIT_MS)

    def _following_soon(self, doors: _Doors) -> Followed:
        return doors.soon.follow(self._stream, self._fetched, ROWS_MAX, WAIT_MS)

    def commit(self) -> None:
        """Commit the given records as handled: a later follower of this name begins after them. Reports skipped ranges to `exceptions`.

        The commit is durable at the node at hand, and wherever `consumers` goes from there. Until it has arrived, a follower that finds
        none of these nodes begins further back. Raises Misuse without a consumer's name, RetryLater when no node answers.
        """
        if self._consumer is None:
            raise Misuse(
                "a follower without a consumer's name has nothing to commit", hint="follow(stream, consumer=…)", code="consumer_missing"
            )
        name, standing = self._consumer, self.standing
        reports = skip_reports(name, self._stream, newly_skipped(self._committed.skipped, standing.skipped))
        exceptions = [Append(EXCEPTIONS, to_batch([Record(name, body=body)])) for body in reports]
        appends = [standing_append(name, self._stream, standing), *exceptions]
        self._nodes.asked(lambda doors: doors.append.append(appends))
        self._committed = standing

    def close(self) -> None:
        """End the iteration, at the latest when the request under way has its answer."""
        self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Doors:
    url: str
    read: ReadDoor
    soon: ReadDoor
    append: AppendDoor


class _Place:
    """ReaderStanding that follows rows, whatever copies they come from."""

    def __init__(self, standing: ReaderStanding) -> None:
        self.next(standing, more=False)

    def _take(self, standing: ReaderStanding) -> None:
        self._next = standing.position.to_json()
        self._skipped = {str(origin): ranges.copy() for origin, ranges in standing.skipped.items()}

    def standing(self) -> ReaderStanding:
        return ReaderStanding.from_json(
            {"position": self._next, "skipped": {origin: list(ranges) for origin, ranges in self._skipped.items()}}
        )

    def next(self, then: ReaderStanding, more: bool) -> None:
        """Expect rows that lead to `then`, if there are any `more`."""
        self._then = then
        self._skipped_then = then.skipped
        if not more:
            self._take(then)

    def pass_by(self, row: dict[str, Any], last: bool) -> None:
        """Advance past `row`, and over the holes before it. After the `last` row, advance to the standing that the rows lead to."""
        if last:
            return self._take(self._then)
        origin, offset, at = row["origin"], row["offset"], self._next.get(row["origin"], 0)
        skipped = self._skipped.setdefault(origin, RangeSet())
        if offset < at:
            return skipped.remove(offset, offset + 1)
        if offset > at and (then := self._skipped_then.get(Origin.parse(origin))):
            skipped.update(then.within(at, offset))
        self._next[origin] = offset + 1


class _Nodes:
    """Nodes in the order in which they are tried. The one that answered last is asked first."""

    def __init__(self, doors: Sequence[_Doors], patience_s: float) -> None:
        self._doors, self._patience_s = deque(doors), patience_s
        self._lock = threading.Lock()

    @property
    def at_hand(self) -> str:
        return self._doors[0].url

    def asked(self, question: Callable[[_Doors], Answer]) -> Answer:
        """Return the answer of the first node that has one. Raises RetryLater when none has one within the patience."""
        began_s, backoff_s = time.monotonic(), BACKOFF_FIRST_S
        while True:
            problems: list[LandfallError] = []
            for doors in self._in_turn():
                try:
                    answer = question(doors)
                except (RetryLater, Trimmed) as problem:
                    problems.append(problem)
                else:
                    self._prefer(doors)
                    return answer
            if all(isinstance(problem, Trimmed) for problem in problems):
                raise problems[0]
            if time.monotonic() - began_s >= self._patience_s:
                raise _nobody(problems)
            time.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    def followed(self, soon: Callable[[_Doors], Answer], question: Callable[[_Doors], Answer], closed: threading.Event) -> Answer:
        """Return the answer of the node at hand if it comes `soon`, otherwise the first answer of any node.

        All nodes are asked at once, though some do not answer, and again as long as none has an answer. Raises RetryLater once it is
        `closed`.
        """
        at_hand, *others = self._in_turn()
        try:
            return (soon if others else question)(at_hand)
        except (RetryLater, Trimmed) as problem:
            problems: dict[str, LandfallError] = {at_hand.url: problem}
        race = _Race([*others, at_hand], question)
        try:
            while not closed.is_set():
                for doors, answer in race.outcome():
                    if not isinstance(answer, LandfallError):
                        self._prefer(doors)
                        return answer
                    if not isinstance(answer, RetryLater | Trimmed):
                        raise answer
                    problems[doors.url] = answer
                    if len(problems) > len(others) and all(isinstance(one, Trimmed) for one in problems.values()):
                        raise answer
            raise _nobody(problems.values())
        finally:
            race.over.set()

    def start(self, stream: str) -> Position | None:
        """Return the start of `stream` at the answering node that has dropped least of it; None where none has any of it."""
        starts = [start for start in self.asked_all(lambda doors: [doors.read.start(stream)]) if start is not None]
        return min(starts, key=lambda start: sum(start.values()), default=None)

    def asked_all(self, question: Callable[[_Doors], list[Answer]]) -> list[Answer]:
        """Return the rows of all nodes that answer. Raises RetryLater when none does in time."""
        rows = self.asked(question)
        for doors in self._in_turn()[1:]:
            with suppress(RetryLater):
                rows += question(doors)
        return rows

    def _in_turn(self) -> list[_Doors]:
        with self._lock:
            return list(self._doors)

    def _prefer(self, doors: _Doors) -> None:
        with self._lock:
            self._doors.rotate(-self._doors.index(doors))


class _Race(Generic[Answer]):
    """One request sent to several nodes at once, each in a thread of its own, and repeated with a delay after a failure, until `over` is
    set.

    Outcomes that arrive after that are dropped.
    """

    def __init__(self, nodes: Sequence[_Doors], question: Callable[[_Doors], Answer]) -> None:
        self.over = threading.Event()
        self._outcomes: SimpleQueue[tuple[_Doors, Answer | LandfallError]] = SimpleQueue()
        for doors in nodes:
            threading.Thread(target=self._ask, args=(doors, question), daemon=True).start()

    def outcome(self) -> Iterator[tuple[_Doors, Answer | LandfallError]]:
        """Yield the next outcome: an answer, or the error raised instead; nothing when none comes within BACKOFF_MAX_S."""
        with suppress(Empty):
            yield self._outcomes.get(timeout=BACKOFF_MAX_S)

    def _ask(self, doors: _Doors, question: Callable[[_Doors], Answer]) -> None:
        backoff_s = BACKOFF_FIRST_S
        while not self.over.is_set():
            try:
                return self._outcomes.put((doors, question(doors)))
            except LandfallError as problem:
                self._outcomes.put((doors, problem))
            self.over.wait(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)


def _nobody(problems: Iterable[LandfallError]) -> RetryLater:
    reasons = "; ".join(map(str, problems))
    return RetryLater(f"no node answers: {reasons}", hint="name more nodes, or ask again later", code="no_node_answers")
