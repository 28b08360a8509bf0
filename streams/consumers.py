"""Named consumers: a Position kept in the log, committed together with the effects of what was read."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from streams.gap_skipping_reader import (
    POLL_ROWS_MAX,
    Patience,
    PatientReader,
    Polled,
    ReaderStanding,
    Skipped,
    newly_skipped,
)
from streams.log import Append, Appended, Log
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import TOPIC_CHARS_MAX, Position, check_stream, check_topic
from streams.model.records import BODY, Record, to_batch
from streams.skipped_records import EXCEPTIONS, NODE, SKIPPED, floor_append

CONSUMERS = "consumers"
"""Stream that holds the Positions of all consumers of a node; the topic is the consumer's name, the latest record counts."""
Times = Mapping[str, int]
NO_TIMES: Times = MappingProxyType({})
logger = logging.getLogger(__name__)
CLIENT = "client/"
"""Prefix of the names of programs' consumers. No consumer of a node has it."""


class Consumed(msgspec.Struct, frozen=True):
    """Body of a consumer's record, which may have other fields too.

    Position and skipped ranges are as `streams.gap_skipping_reader.ReaderStanding` writes them.
    """

    stream: str
    position: dict[str, int]
    skipped: dict[str, list[tuple[int, int]]] = {}

    @classmethod
    def read(cls, body: object) -> Consumed:
        """Return the parsed body of a consumer's record. Raises ValueError for a body of any other record."""
        try:
            consumed = msgspec.convert(body, cls)
        except msgspec.ValidationError as problem:
            raise ValueError(str(problem)) from None
        check_stream(consumed.stream)
        consumed.standing()
        return consumed

    def standing(self) -> ReaderStanding:
        """Return the standing of the consumer."""
        return ReaderStanding.from_json({"position": self.position, "skipped": self.skipped})


class Consumer:
    """Reader of `stream` on behalf of `name`: each record is once in what it commits. Two consumers of one name at a time would undo
    each other.

    Its Position is the furthest that this node's own consumer of that name ever committed, under any generation of the node's log.
    `successor_of` names another node whose consumer it continues. At a hole it waits no longer than `patience`: then it records the hole
    in `consumers` and `exceptions`, and skips it. Records that arrive for the hole later are delivered late, once.
    """

    def __init__(self, log: Log, name: str, stream: str, successor_of: str | None = None, patience: Patience | None = None) -> None:
        """Continue from the recorded standing. Raises Misuse when `name` is known as a consumer of another stream."""
        self._log, self.name, self.stream = log, name, stream
        self._nodes = {log.node, successor_of}
        self._patience = patience
        self._reader = PatientReader(log, stream, patience)
        self._standing = self._recorded()
        self._polled: Polled | None = None

    def position(self) -> Position:
        """Return the Position last committed."""
        return self._standing.position

    def skipped(self) -> Skipped:
        """Return the ranges that were skipped and have not arrived, as last committed."""
        return self._standing.skipped

    def poll_from_floor(self, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """Return what `poll` returns, but continue from this copy's floor when the Position is below it, instead of raising Trimmed.

        The commit that advances past the dropped records reports them to `exceptions`.
        """
        self._polled = self._reader.poll_from_floor(self._standing, rows_max)
        return self._polled

    def poll(self, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """Return at most `rows_max` rows that follow the Position, or none when the copy is not further (or is behind). Commits nothing.

        Raises Trimmed when the Position is below this copy's floor.
        """
        self._polled = self._reader.poll(self._standing, rows_max)
        return self._polled

    def commit(self, position: Position, effects: Sequence[Append] = ()) -> list[Appended]:
        """Commit `effects` and the Position, both or neither; return the answers to the effects. Durable when it returns.

        Raises RetryLater when the disk is full, Misuse for a Position that goes back.
        """
        answers = self._log.append(self.with_position(position, effects))
        self.committed(position)
        return answers[: len(effects)]

    def with_position(self, position: Position, effects: Sequence[Append] = (), times: Times = NO_TIMES) -> list[Append]:
        """Return the appends of a commit, for a caller that commits through a GroupCommitter and then calls `committed`.

        The same commit reports what is newly skipped or passed over to `exceptions`; a consumer that starts from nothing only logs where
        it begins. `times` (by name, UTC ms) are stored next to the Position: for effects that depend on facts no record holds.
        Raises Misuse as `commit`.
        """
        if not position.reaches(self._standing.position):
            raise Misuse(
                f"consumer {self.name!r} stands at {self._standing.position} and does not go back to {position}", code="consumer_backwards"
            )
        skipped = self._skipped_at(position)
        polled = self._polled
        passed = polled.passed if polled is not None and polled.position == position else {}
        stands = standing_append(self.name, self.stream, ReaderStanding(position, skipped), times)
        return [*effects, stands, *self._report_appends(skipped, passed)]

    def committed(self, position: Position) -> None:
        """Continue `poll` from `position`. Called once the appends that `with_position` returned for it are durable."""
        self._standing = ReaderStanding(position, self._skipped_at(position))

    def _skipped_at(self, position: Position) -> Skipped:
        """Return what is skipped once `position` is committed.

        That is what was polled, when `position` is the polled one. Otherwise nothing is newly skipped or newly arrived.
        """
        if self._polled is not None and self._polled.position == position:
            return self._polled.skipped
        return self._standing.skipped

    def _report_appends(self, skipped: Skipped, passed: Skipped) -> list[Append]:
        clock, process = (self._patience.clock, self._patience.process) if self._patience else (None, "consumer")
        at_ms = clock.now_ms() if clock else None
        bodies = skip_reports(self.name, self.stream, newly_skipped(self._standing.skipped, skipped))
        appends = [Append(EXCEPTIONS, to_batch([Record(process, device=self._log.node, body=body | {"at_ms": at_ms})])) for body in bodies]
        dropped = _named(self.stream, passed)
        if dropped and not self._standing.position:
            logger.info("consumer %s begins above %s, which this log has dropped", self.name, ", ".join(dropped))
            return appends
        outcome = f"consumer {self.name} goes on from the floor; what is below is not read here"
        return [*appends, *(floor_append(NODE, f"{of} was dropped here before it was read", outcome, at_ms) for of in dropped)]

    def _recorded(self) -> ReaderStanding:
        standing = ReaderStanding()
        for batch in self._log.latest(CONSUMERS, self.name, self._nodes):
            consumed = Consumed.read(json.loads(batch.records.column(BODY)[0].as_py()))
            if consumed.stream != self.stream:
                raise Misuse(
                    f"{self.name!r} is a consumer of {consumed.stream!r}, not of {self.stream!r}",
                    hint="give the new consumer another name",
                    code="consumer_of_another",
                )
            standing = standing.merged(consumed.standing())
        return standing


def standing_append(name: str, stream: str, standing: ReaderStanding, times: Times = NO_TIMES) -> Append:
    """Return the record that stores the standing of consumer `name` of `stream`, and the times (UTC ms) next to it."""
    return Append(CONSUMERS, to_batch([Record(topic=name, body={"stream": stream, **standing.to_json(), **times})]))


def client_topic(consumer: str) -> str:
    """Return the topic of the program's consumer of this name. Raises Misuse for an invalid name."""
    try:
        return check_topic(CLIENT + consumer) if consumer else check_topic("")
    except ValueError:
        raise Misuse(
            f"a consumer's name is 1 to {TOPIC_CHARS_MAX - len(CLIENT)} printable characters, not {consumer[:TOPIC_CHARS_MAX]!r}",
            code="consumer_name_invalid",
        ) from None


def check_client(topic: str, body: object, known: Collection[str]) -> None:
    """Check that a program may store `body` as the standing of its consumer, at a node that knows the streams `known`.

    Raises Misuse for what no program's consumer is. Raises RetryLater where the consumer has read a stream of which nothing is here
    (yet): another node may have some.
    """
    name = topic.removeprefix(CLIENT) if topic.startswith(CLIENT) else ""
    client_topic(name)
    try:
        consumed = Consumed.read(body)
    except ValueError as problem:
        raise Misuse(f"consumer {name!r} can not stand there: {problem}", code="consumer_invalid") from problem
    if (consumed.position or consumed.skipped) and consumed.stream not in known:
        raise RetryLater(f"nothing of {consumed.stream!r} is here: no consumer of it can stand anywhere", code="stream_unknown")


def skip_reports(name: str, stream: str, newly: Skipped) -> list[dict[str, Any]]:
    """Return a report to `exceptions` for each hole that the consumer `name` newly skipped: reason and outcome."""
    outcome = f"consumer {name} went on without; what comes of it is delivered late"
    return [{"reason": f"{of} did not come in time", "outcome": outcome, "code": SKIPPED} for of in _named(stream, newly)]


def _named(stream: str, found: Skipped) -> list[str]:
    return [f"{stream}:{origin} {first}..{end - 1}" for origin, ranges in sorted(found.items()) for first, end in ranges]
