"""Questions to ships, as headquarters' log has them now: written by the API, answered by the ships."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow.compute as pc

from cargo.shore_rules.ship_queries import TOPIC, Answer, Ask, Spend, read_answer, read_ask
from landfall.transport.http_client import AppendDoor
from streams.body_reader import Bodies
from streams.log import Append, LogReader
from streams.model.clock import Clock
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from streams.model.records import BODY, Record, read_body, to_batch
from streams.model.records import TOPIC as TOPIC_COLUMN
from streams.row_subset import CARRIER, place_of

ABOARD = "aboard/"
ID_BYTES = 6
_ANSWER_FIELDS = ("at_ms", "wall_at_ms", "told", "records", "sent_before", "bytes", "link", "cost", "free_bytes", "granted_bytes")


@dataclass(slots=True)
class _Asked:
    """One question, what a node said to it, which that is, and which offsets it brought with that."""

    ask: Ask
    node: str | None = None
    answer: Answer | None = None
    brought: dict[tuple[str, Origin], RangeSet] = field(default_factory=dict)


@dataclass(slots=True)
class AskDesk:
    """The questions of the log that `reader` reads and `door` appends to. Safe from any thread."""

    reader: LogReader
    door: AppendDoor
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _positions: dict[str, Position] = field(default_factory=dict)
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _answers: dict[str, Bodies] = field(default_factory=dict)

    def ask(self, ship: str, container: str, span: tuple[int, int], takes: tuple[Spend, float | None], by: str) -> Ask:
        """Append the question to `aboard/<ship>`; it is durable on return. `span`: from and until (UTC ms, the end not included). `takes`:
        the most it may take of a budget, and the price agreed to, if any. Raises ValueError for an invalid question; RetryLater when the
        node is away: `asks` shows whether it was asked."""
        spend, at_most = takes
        asked = Ask(secrets.token_hex(ID_BYTES), ship, container, *span, spend, self.clock.now_ms(), by, at_most)
        body = msgspec.to_builtins(asked)
        read_ask(body)
        self.door.append([Append(ABOARD + ship, to_batch([Record(asked.topic, device_at_ms=asked.at_ms, body=body)]))])
        return asked

    def asks(self) -> list[dict[str, Any]]:
        """Return every question as it stands, the last asked first. Raises RetryLater when the log can not be read now."""
        with self._lock:
            self._catch_up()
            newest = sorted(self._asked.values(), key=lambda asked: (asked.ask.at_ms, asked.ask.ask_id), reverse=True)
            return [self._ask_fields(asked) for asked in newest]

    def one(self, ask_id: str) -> dict[str, Any] | None:
        """Return one question as it stands, or None. Raises as `asks`."""
        with self._lock:
            self._catch_up()
            return self._ask_fields(self._asked[ask_id]) if ask_id in self._asked else None

    def _catch_up(self) -> None:
        for stream in (name for name in self.reader.streams() if name.startswith(ABOARD) and "." not in name):
            end = self.reader.position(stream)
            for batch in self.reader.read(stream, self._positions.get(stream, Position())):
                records = batch.records
                for text in records.filter(pc.starts_with(records.column(TOPIC_COLUMN), TOPIC)).column(BODY).to_pylist():
                    self._learn(stream, text)
            self._positions[stream] = self._positions.get(stream, Position()).merged(end)
        for node in sorted({origin.node for origin in self.reader.ledger(CARRIER)}):
            bodies = self._answers.setdefault(node, Bodies(self.reader, CARRIER, own={node}))
            for topic, body in bodies.news():
                self._hear(node, topic.removeprefix(TOPIC), body)

    def _learn(self, stream: str, text: str | None) -> None:
        try:
            ask = read_ask(read_body(text))
        except ValueError:
            return  # of another version of this program: it stands in nobody's way
        if stream == ABOARD + ask.ship and ask.ask_id not in self._asked:
            self._asked[ask.ask_id] = _Asked(ask)

    def _hear(self, node: str, ask_id: str, body: dict[str, Any]) -> None:
        """Take one part of an answer; ignore answers to questions that were not asked. Of two answering nodes, the first counts and is
        named."""
        asked = self._asked.get(ask_id)
        if asked is None or asked.node not in (None, node):
            return
        try:
            if "block" in body:
                stream, origin, offsets = place_of(body)
                asked.brought.setdefault((stream, origin), RangeSet()).update((offset, offset + 1) for offset in offsets)
            else:
                asked.answer = read_answer(body)
            asked.node = node
        except ValueError:
            return  # as above

    def _ask_fields(self, asked: _Asked) -> dict[str, Any]:
        ask, answer = asked.ask, asked.answer
        return {
            "ask_id": ask.ask_id,
            "ship": ask.ship,
            "container": ask.container,
            "since_at_ms": ask.since_at_ms,
            "until_at_ms": ask.until_at_ms,
            "spend": ask.spend,
            "at_most": ask.at_most,
            "asked_at_ms": ask.at_ms,
            "asked_by": ask.by,
            "state": answer.state if answer else "asked",
            "arrived": answer is not None and answer.state == "answered" and self._arrived(asked),
            "answer": {"node": asked.node, **{name: getattr(answer, name) for name in _ANSWER_FIELDS}} if answer else None,
        }

    def _arrived(self, one: _Asked) -> bool:
        """Return whether the log has every record that came with the answer, each in its final place."""
        for (stream, origin), offsets in one.brought.items():
            ledger = self.reader.ledger(stream).get(origin)
            if ledger is None or offsets.without(ledger.settled()):
                return False
        return True
