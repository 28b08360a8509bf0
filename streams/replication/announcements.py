"""Small messages that go ahead of data: names of tracks, what is newly held, claimed, wanted again or gone, acknowledgements, pings."""

from __future__ import annotations

from collections import deque

from streams.model.errors import Corrupt
from streams.model.ranges import RangeSet
from streams.replication.ledger_summaries import chunked
from streams.replication.link_terms import Key
from streams.replication.sync_messages import Ack, Have, Message, Pong, Track

CONTROL_MAX = 20_000
"""Small messages waiting for one peer, above which it is refused: it asks more than it listens."""
ACKS_MAX = 1_024


class Announcer:
    """The queue of small messages to one peer. Newly held offsets are gathered until there is room to say so; a Pong only for the last
    Ping.
    """

    def __init__(self) -> None:
        self._queue: deque[Message] = deque()
        self._numbers: dict[Key, int] = {}
        self._named: list[Key] = []
        self._have: dict[Key, RangeSet] = {}
        self._acks: list[int] = []
        self._pong: Pong | None = None

    def number(self, key: Key) -> int:
        """The number of this track; names it to the peer first when it is new."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._named)
            self._named.append(key)
            stream, origin = key
            self.say(Track(number, stream, origin.node, origin.generation))
        return number

    def named(self, number: int) -> Key:
        """The track that has this number. Raises IndexError when none has."""
        return self._named[number]

    def say(self, *messages: Message) -> None:
        """Put these in the queue."""
        for message in messages:
            if isinstance(message, Ack):
                self._acks += message.transfers
            elif isinstance(message, Pong):
                self._pong = message
            else:
                self._queue.append(message)

    def check(self) -> None:
        """Raises Corrupt when the peer lets more than CONTROL_MAX messages wait. Apart from `say`: another session's news is no fault of
        its own.
        """
        if len(self._queue) + len(self._acks) > CONTROL_MAX:
            raise Corrupt(f"more than {CONTROL_MAX} small messages wait for a peer that does not listen")

    def have(self, key: Key, ranges: RangeSet) -> None:
        """These are newly held."""
        self._have.setdefault(key, RangeSet()).update(ranges)

    def next(self) -> Message | None:
        """The next small message, in the order: pong, queued ones, acknowledgements, what is newly held."""
        if self._pong:
            pong, self._pong = self._pong, None
            return pong
        if self._queue:
            return self._queue.popleft()
        if self._acks:
            acks, self._acks = self._acks[:ACKS_MAX], self._acks[ACKS_MAX:]
            return Ack(acks)
        if self._have:
            key, ranges = self._have.popitem()
            number = self.number(key)
            for chunk in chunked(ranges):
                self.say(Have(number, chunk))
            return self._queue.popleft()
        return None

    def waiting(self) -> bool:
        """Whether something is to be said."""
        return bool(self._pong or self._queue or self._acks or self._have)
