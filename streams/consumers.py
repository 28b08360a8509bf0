"""Named consumers: a Position kept in the log, committed together with the effects of what was read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streams.errors import Misuse
from streams.log import Append, Appended, Log
from streams.records import BODY, Batch, Record, to_batch
from streams.words import Position

CONSUMERS = "consumers"
"""The stream that holds the Positions of all consumers of a node; the topic is the consumer's name, the latest record counts."""
POLL_ROWS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Polled:
    """What there was to read, and the Position to commit once it is dealt with. Rows that will never come are passed over."""

    batches: tuple[Batch, ...]
    position: Position

    @property
    def rows(self) -> int:
        """How many rows the batches have."""
        return sum(batch.records.num_rows for batch in self.batches)


class Consumer:
    """Reads `stream` on behalf of `name`, each record once in what it commits. One at a time: two of one name would undo each other.

    Its Position is the furthest that this node's own consumer of that name ever committed, under any generation of the node's log;
    `successor_of` names another node whose consumer it goes on for.
    """

    def __init__(self, log: Log, name: str, stream: str, successor_of: str | None = None) -> None:
        """Raises Misuse when `name` is known as a consumer of another stream."""
        self._log, self.name, self.stream = log, name, stream
        self._nodes = {log.node, successor_of}
        self._position = self._recorded()

    def position(self) -> Position:
        """Where it stands: the Position last committed."""
        return self._position

    def poll(self, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """What follows the Position: at most `rows_max` rows, or nothing when the copy is not further (or is behind). Commits nothing.

        Raises Trimmed when the Position is below this copy's floor.
        """
        reached = self._log.position(self.stream)
        batches: list[Batch] = []
        rows = 0
        for batch in self._log.read(self.stream, self._position):
            batches.append(replace(batch, records=batch.records.slice(0, rows_max - rows)))
            rows += batch.records.num_rows
            if rows >= rows_max:
                return Polled(tuple(batches), _after(self._position, batches))
        return Polled(tuple(batches), _after(self._position.merged(reached), batches))

    def commit(self, position: Position, effects: Sequence[Append] = ()) -> list[Appended]:
        """`effects` and the Position are durable, both or neither, when it returns; the answers are those to the effects.

        Raises RetryLater when the disk is full, Misuse for a Position that goes back.
        """
        answers = self._log.append(self.with_position(position, effects))
        self.committed(position)
        return answers[: len(effects)]

    def with_position(self, position: Position, effects: Sequence[Append] = ()) -> list[Append]:
        """The appends of a commit, for who commits through a GroupCommitter and then says `committed`. Raises Misuse as `commit`."""
        if not position.reaches(self._position):
            raise Misuse(f"consumer {self.name!r} stands at {self._position} and does not go back to {position}")
        body = {"stream": self.stream, "position": position.to_json()}
        return [*effects, Append(CONSUMERS, to_batch([Record(topic=self.name, body=body)]))]

    def committed(self, position: Position) -> None:
        """The appends that `with_position` gave for `position` are durable: poll goes on from there."""
        self._position = position

    def _recorded(self) -> Position:
        position = Position()
        for batch in self._log.latest(CONSUMERS, self.name):
            if batch.origin.node in self._nodes:
                body = json.loads(batch.records.column(BODY)[0].as_py())
                if body["stream"] != self.stream:
                    raise Misuse(
                        f"{self.name!r} is a consumer of {body['stream']!r}, not of {self.stream!r}",
                        hint="give the new consumer another name",
                    )
                position = position.merged(Position.from_json(body["position"]))
        return position


def _after(position: Position, batches: Sequence[Batch]) -> Position:
    for batch in batches:
        offsets = batch.records.column("offset")
        position = position.advanced(batch.origin, offsets[len(offsets) - 1].as_py() + 1)
    return position
