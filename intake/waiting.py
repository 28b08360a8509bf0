"""Messages that wait for their turn: every account has the same share of what is done next, and in it each of its senders.

So whoever sends more than is done waits for itself alone: its own messages, and then its connection, which is read from no further.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from intake.arrivals import Publish, Sender
from intake.settings import PipelineSettings

SLICE_MESSAGES, SLICE_BYTES = 256, 64 << 10
"""What a sender has done in one turn, at most; or one message."""
BATCH_BYTES = 1 << 20
"""What is done at once is no more than this, however few messages it is: the event loop stands still while it is decoded."""
SHARE_MESSAGES_MIN = 64
Parcel = tuple[Sender, list[Publish], float]
"""Who hears of them, the messages, and when they were offered (monotone s)."""


@dataclass(slots=True)
class _Queue:
    """What waits of one sender: parcels with their bytes, in order."""

    parcels: deque[tuple[Parcel, int]] = field(default_factory=deque)
    messages: int = 0
    bytes: int = 0


class Waiting:
    """For the event loop alone. Of the bounds of `settings` those who wait may hold half, in equal parts: who has more is held."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._accounts: OrderedDict[str, OrderedDict[Sender, _Queue]] = OrderedDict()
        self._senders = 0
        self._held: set[Sender] = set()
        self.messages = self.bytes = 0
        """Of all that wait."""

    def put(self, sender: Sender, messages: list[Publish], offered_s: float) -> None:
        """Behind what this sender has waiting already; it is held from now on when that is more than its share."""
        queues = self._accounts.setdefault(sender.account, OrderedDict())
        queue = queues.get(sender)
        if queue is None:
            queue = queues[sender] = _Queue()
            self._senders += 1
        for some, count in _slices(messages, min(SLICE_MESSAGES, self._settings.batch_readings_max)):
            queue.parcels.append(((sender, some, offered_s), count))
            queue.messages += len(some)
            queue.bytes += count
            self.messages += len(some)
            self.bytes += count
        if sender not in self._held and not self._within(queue, 1):
            self._held.add(sender)
            sender.hold(True)

    def take(self) -> list[Parcel]:
        """The next batch: one slice of a sender of each account by turns, until there are `batch_readings_max` messages or BATCH_BYTES; a
        slice at least. Raises KeyError when nothing waits."""
        taken: list[Parcel] = []
        messages = bytes_ = 0
        while self._accounts:
            account, queues = next(iter(self._accounts.items()))
            sender, queue = next(iter(queues.items()))
            parcel, count = queue.parcels[0]
            if taken and (messages + len(parcel[1]) > self._settings.batch_readings_max or bytes_ + count > BATCH_BYTES):
                break
            queue.parcels.popleft()
            queue.messages -= len(parcel[1])
            queue.bytes -= count
            messages, bytes_ = messages + len(parcel[1]), bytes_ + count
            taken.append(parcel)
            self._next_turn(account, queues, sender, queue)
        if not taken:
            raise KeyError("nothing waits")
        self.messages -= messages
        self.bytes -= bytes_
        return taken

    def _next_turn(self, account: str, queues: OrderedDict[Sender, _Queue], sender: Sender, queue: _Queue) -> None:
        if queue.parcels:
            queues.move_to_end(sender)
        else:
            del queues[sender]
            self._senders -= 1
        if queues:
            self._accounts.move_to_end(account)
        else:
            del self._accounts[account]
        if sender in self._held and self._within(queue, 2):
            self._held.remove(sender)
            sender.hold(False)

    def _within(self, queue: _Queue, part: int) -> bool:
        """Whether it holds no more than its share, divided by `part`."""
        senders = 2 * max(1, self._senders) * part
        messages = max(SHARE_MESSAGES_MIN // part, self._settings.pending_readings_max // senders)
        return queue.messages <= messages and queue.bytes <= max(SLICE_BYTES // part, self._settings.pending_bytes_max // senders)


def _slices(messages: list[Publish], most: int) -> Iterator[tuple[list[Publish], int]]:
    """Of at most so many messages and SLICE_BYTES, or one message, with their bytes."""
    sizes = bytes_of(messages)
    whole = sum(sizes)
    if len(messages) <= most and whole <= SLICE_BYTES:
        yield messages, whole
        return
    first = count = 0
    for at, size in enumerate(sizes):
        if at > first and (at - first == most or count + size > SLICE_BYTES):
            yield messages[first:at], count
            first, count = at, 0
        count += size
    yield messages[first:], count


def bytes_of(messages: Sequence[Publish]) -> list[int]:
    """What each holds in memory, about."""
    return [len(message.topic) + len(message.payload) for message in messages]
