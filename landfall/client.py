"""Reading streams from wherever a node answers: one that dies is left for the next, and the Position goes along.

fleet = landfall.connect([landfall.NodeDoor("http://tokyo:8770", "…"), landfall.NodeDoor("http://hq:8770", "…")])
for record in fleet.follow("alerts", consumer="pager"): ...
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from streams.consumers import CONSUMERS
from streams.errors import Misuse, RetryLater, Trimmed
from streams.link.door import AppendDoor, ReadDoor
from streams.link.tls import trusting
from streams.log import Append
from streams.records import Record, to_batch
from streams.words import Position, check_stream

TIMEOUT_S = 10.0
PATIENCE_S = 30.0
WAIT_MS = 1_000
"""How long a node holds a question back for records to come."""
ROWS_MAX = 5_000
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 0.5
TOPIC = "client/"
"""What the names of a client's consumers begin with in the stream `consumers`: they are nobody's of the nodes' own."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class NodeDoor:
    """A node's door: `http://host:port`, or `https://host:port` with its host in its certificate, and the token of its settings."""

    url: str
    token: str


def connect(
    nodes: Sequence[NodeDoor], authority: Path | None = None, timeout_s: float = TIMEOUT_S, patience_s: float = PATIENCE_S
) -> Client:
    """A client of whichever of these nodes answers, the first ones first. Asks nothing yet.

    `authority`: who signed the certificates of `https://` doors (PEM). `timeout_s`: a node that does not answer for so long is left for the
    next; `patience_s`: how long `read`, `history` and `commit` try to find one that answers. Raises Misuse when there is no node, or no
    authority for one.
    """
    if not nodes:
        raise Misuse("there is no node to connect to", hint="name at least one")
    if authority is None and (secured := [node.url for node in nodes if node.url.startswith("https:")]):
        raise Misuse(f"nobody vouches for {', '.join(secured)}", hint="give `authority`, the authority's .pem file")
    context = None if authority is None else trusting(authority)
    doors = [
        _Doors(node.url, ReadDoor(node.url, node.token, timeout_s, context), AppendDoor(node.url, node.token, timeout_s, context))
        for node in nodes
    ]
    return Client(_Nodes(doors, patience_s))


class Client:
    """Reads through one node after the other. Safe from any thread; each Follower is for one."""

    def __init__(self, nodes: _Nodes) -> None:
        self._nodes = nodes

    def read(self, stream: str, position: Position | None = None) -> Iterator[dict[str, Any]]:
        """Every record of `stream` from `position` on that a node has now, each once, in order of each origin.

        A record is a dict: `stream`, `origin`, `offset`, `topic`, `device`, `device_at_ms`, `received_at_ms`, `order_at_ms` (UTC ms),
        `signals`, `body`. Raises RetryLater when no node answers in time, Trimmed when `position` is below what any copy keeps,
        NotAllowed for a wrong token.
        """
        place = _Place(position or Position())
        while rows := self._nodes.asked(lambda doors: list(doors.read.read(stream, place.position(), ROWS_MAX))):
            yield from filter(place.passes, rows)

    def history(self, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None) -> list[dict[str, Any]]:
        """Every record of one container or ship with since <= order time < until (UTC ms), merged over all streams. Raises as `read`."""
        return self._nodes.asked(lambda doors: list(doors.read.history(topic, since_at_ms, until_at_ms)))

    def follow(self, stream: str, consumer: str | None = None, position: Position | None = None) -> Follower:
        """All of `stream` that is there and all that comes: from `position`, or from where `consumer` last committed, or from the start.

        A consumer's Position is looked up at every node that answers, and the furthest counts. Raises RetryLater when none does, Misuse
        when the name is known as a consumer of another stream, or both are given.
        """
        check_stream(stream)
        if consumer is None:
            return Follower(self._nodes, stream, None, position or Position())
        if position is not None:
            raise Misuse("a named consumer stands where it last committed", hint="give either a consumer or a position")
        rows = self._nodes.asked_all(lambda doors: list(doors.read.latest(CONSUMERS, TOPIC + consumer)))
        found = Position()
        for body in (row["body"] for row in rows):
            if body["stream"] != stream:
                raise Misuse(f"{consumer!r} is a consumer of {body['stream']!r}, not of {stream!r}", hint="give the new one another name")
            found = found.merged(Position.from_json(body["position"]))
        return Follower(self._nodes, stream, consumer, found)


class Follower:
    """Iterate over it: it waits for records until `close`, which any thread may call. Leave it with `with`, or close it."""

    def __init__(self, nodes: _Nodes, stream: str, consumer: str | None, position: Position) -> None:
        self._nodes, self._stream, self._consumer = nodes, stream, consumer
        self._fetched, self._given = _Place(position), _Place(position)
        self._rows: deque[dict[str, Any]] = deque()
        self._closed = threading.Event()

    @property
    def position(self) -> Position:
        """Behind the last record given: keep it beside what became of that record, and nothing is done twice."""
        return self._given.position()

    @property
    def node(self) -> str:
        """The URL of the node it reads from at the moment."""
        return self._nodes.at_hand

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next record, once. Raises Trimmed when all nodes have dropped what follows, NotAllowed for a wrong token."""
        while not self._rows:
            if self._closed.is_set():
                raise StopIteration
            with suppress(RetryLater):  # closed meanwhile
                self._rows.extend(filter(self._fetched.passes, self._nodes.asked(self._following, until=self._closed)))
        row = self._rows.popleft()
        self._given.passes(row)
        return row

    def _following(self, doors: _Doors) -> list[dict[str, Any]]:
        return list(doors.read.read(self._stream, self._fetched.position(), ROWS_MAX, WAIT_MS))

    def commit(self) -> None:
        """What was given is dealt with: after this, a follower of this name begins behind it.

        Durable at the node at hand, and wherever `consumers` goes from there; until it has, a follower that finds none of these nodes
        begins further back. Raises Misuse without a consumer's name, RetryLater when no node answers.
        """
        if self._consumer is None:
            raise Misuse("a follower without a consumer's name has nothing to commit", hint="follow(stream, consumer=…)")
        body = {"stream": self._stream, "position": self.position.to_json()}
        append = Append(CONSUMERS, to_batch([Record(TOPIC + self._consumer, body=body)]))
        self._nodes.asked(lambda doors: doors.append.append([append]))

    def close(self) -> None:
        """The iteration ends, at the latest when the question that is asked has its answer."""
        self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Doors:
    url: str
    read: ReadDoor
    append: AppendDoor


class _Place:
    """A Position that follows rows, whatever copies they come from."""

    def __init__(self, position: Position) -> None:
        self._next = position.to_json()

    def position(self) -> Position:
        return Position.from_json(self._next)

    def passes(self, row: dict[str, Any]) -> bool:
        """Go behind `row`; False when it is behind already."""
        if row["offset"] < self._next.get(row["origin"], 0):
            return False
        self._next[row["origin"]] = row["offset"] + 1
        return True


class _Nodes:
    """The nodes in the order in which they are tried. The one that answered last is asked first."""

    def __init__(self, doors: Sequence[_Doors], patience_s: float) -> None:
        self._doors, self._patience_s = deque(doors), patience_s
        self._lock = threading.Lock()

    @property
    def at_hand(self) -> str:
        return self._doors[0].url

    def asked(self, question: Callable[[_Doors], Answer], until: threading.Event | None = None) -> Answer:
        """The answer of the first node that has one. Raises RetryLater when none has in time: before it is tired, or `until` is set."""
        closed = until or threading.Event()
        began_s, backoff_s = time.monotonic(), BACKOFF_FIRST_S
        while True:
            problems: list[RetryLater | Trimmed] = []
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
            tired = until is None and time.monotonic() - began_s >= self._patience_s
            if tired or closed.wait(backoff_s):
                told = "; ".join(str(problem) for problem in problems)
                raise RetryLater(f"no node answers: {told}", hint="name more nodes, or ask again later")
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    def asked_all(self, question: Callable[[_Doors], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """The rows of all nodes that answer. Raises RetryLater when none does in time."""
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
