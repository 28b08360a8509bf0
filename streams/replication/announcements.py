"""Small messages that precede data: names of tracks; offsets newly held, claimed, wanted again or gone; acknowledgements and pings."""

from __future__ import annotations

from collections import deque

from streams.model.errors import Corrupt
from streams.model.ranges import RangeSet
from streams.replication.ledger_summaries import chunked
from streams.replication.link_terms import Key
from streams.replication.sync_messages import Ack, Have, Message, Pong, Track

CONTROL_MAX = 20_000
"""Maximum number of small messages waiting for one peer. Above it the peer is refused: it asks for more than it receives."""
ACKS_MAX = 1_024


class Announcer:
    """Queue of small messages to one peer. Newly held offsets are collected until there is room to announce them. Only the last Ping gets a
    Pong."""

    def __init__(self) -> None:
        self._queue: deque[Message] = deque()
        self._numbers: dict[Key, int] = {}
        self._named: list[Key] = []
        self._have: dict[Key, RangeSet] = {}
        self._acks: list[int] = []
        self._pong: Pong | None = None

    def number(self, key: Key) -> int:
        """Return the number of this track. A new track is first named to the peer."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._named)
            self._named.append(key)
            stream, origin = key
            self.say(Track(number, stream, origin.node, origin.generation))
        return number

    def named(self, number: int) -> Key:
        """Return the track with this number. Raises IndexError when there is none."""
        return self._named[number]

    def say(self, *messages: Message) -> None:
        """Add these messages to the queue."""
        for message in messages:
            if isinstance(message, Ack):
                self._acks += message.transfers
            elif isinstance(message, Pong):
                self._pong = message
            else:
                self._queue.append(message)

    def check(self) -> None:
        """Raise Corrupt when the peer lets more than CONTROL_MAX messages wait. This is separate from `say`, which other sessions cause
        too: their calls must not fail for this peer."""
        if len(self._queue) + len(self._acks) > CONTROL_MAX:
            raise Corrupt(f"more than {CONTROL_MAX} small messages wait for a peer that does not listen", code="peer_limit_passed")

    def have(self, key: Key, ranges: RangeSet) -> None:
        """Add these offsets to those newly held."""
        self._have.setdefault(key, RangeSet()).update(ranges)

    def next(self) -> Message | None:
        """Return the next small message, in the order: pong, queued messages, acknowledgements, newly held offsets."""
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
        """Return whether a message is waiting."""
        return bool(self._pong or self._queue or self._acks or self._have)
