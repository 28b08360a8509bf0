"""Messages that wait for their turn: every account has the same share of the next batch, and in it each of its senders.

So a client that sends more than is processed delays only itself: its own messages wait, and then its connection is not read any further.
While others come that send less, it fills no batch: they would wait for all of it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from intake.message_types import MessageSender, Publish
from intake.payload_compression import unpack_all
from intake.settings import PipelineSettings

SLICE_MESSAGES, SLICE_BYTES = 256, 64 << 10
"""Maximum messages and bytes of a sender in one turn; or one message."""
BATCH_BYTES = 1 << 20
"""Maximum size of a batch, bytes, however few messages it has: the event loop stands still while it is decoded."""
SHARE_MESSAGES_MIN = 64
BATCH_SHARE = 16
"""Part of a batch, one in so many, that one account may fill, by messages and by bytes, while others come that have no more than that.

Those wait for a commit that took little longer than their own. Otherwise an account may fill the batch: a commit costs about the same for
few messages as for many."""
NOT_ALONE_S = 60.0
"""Time for which it is remembered that others came, seconds."""
Parcel = tuple[MessageSender, list[Publish], float]
"""Sender, messages, and when they were offered (monotonic s)."""


@dataclass(slots=True)
class _Queue:
    """Waiting messages of one sender: parcels with their bytes, in order."""

    parcels: deque[tuple[Parcel, int]] = field(default_factory=deque)
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Account:
    """Waiting messages of one account, and of each of its senders, the next one first."""

    queues: OrderedDict[MessageSender, _Queue] = field(default_factory=OrderedDict)
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Batch:
    """Slices of the next batch, and what each account has of it: messages, bytes."""

    messages_max: int
    shared: bool
    parcels: list[Parcel] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    accounts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def has_room(self, messages: int, bytes_: int) -> bool:
        """Return whether there is room for a slice of any account; the first always finds it."""
        return not self.parcels or (self.messages + messages <= self.messages_max and self.bytes + bytes_ <= BATCH_BYTES)

    def has_share_left(self, account: str, messages: int, bytes_: int) -> bool:
        """Return whether a slice of this account is within its share; its first always is."""
        had_messages, had_bytes = self.accounts.get(account, (0, 0))
        within = had_messages + messages <= self.messages_max // BATCH_SHARE and had_bytes + bytes_ <= BATCH_BYTES // BATCH_SHARE
        return not self.shared or not had_messages or within

    def add(self, account: str, parcel: Parcel, bytes_: int) -> None:
        """Add a parcel, room or not."""
        messages, (had_messages, had_bytes) = len(parcel[1]), self.accounts.get(account, (0, 0))
        self.accounts[account] = had_messages + messages, had_bytes + bytes_
        self.messages, self.bytes = self.messages + messages, self.bytes + bytes_
        self.parcels.append(parcel)


class FairQueue:
    """Queue for the event loop alone.

    Waiting messages may use half of the limits of `settings`, each account and each sender in equal parts. A sender with more is held."""

    def __init__(self, settings: PipelineSettings, account_held: Callable[[str, bool], None] = lambda account, held: None) -> None:
        """`account_held` receives an account whose senders must not be read from (True), and when they may be again (False).

        It applies also to senders without waiting messages: each of many might bring as much as one read before it is held itself."""
        self._settings, self._account_held = settings, account_held
        self.held_accounts: set[str] = set()
        self._share = max(1, settings.batch_readings_max // BATCH_SHARE)
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._senders = 0
        self._held: set[MessageSender] = set()
        self._offered_s = 0.0
        self._light: list[tuple[str, float]] = []
        """The two accounts that brought little last, with nothing of theirs waiting, and when."""
        self.messages = self.bytes = 0
        """Totals of all waiting messages."""

    def put(self, sender: MessageSender, messages: list[Publish], offered_s: float) -> None:
        """Queue messages behind those of this sender that wait already; hold the sender if that is more than its share.

        Packed payloads wait unpacked, so that their bytes count."""
        unpack_all(messages)
        self._offered_s = offered_s
        if sender.account not in self._accounts and len(messages) <= self._share:
            self._light = [(sender.account, offered_s), *(one for one in self._light if one[0] != sender.account)][:2]
        account = self._accounts.setdefault(sender.account, _Account())
        queue = account.queues.get(sender)
        if queue is None:
            queue = account.queues[sender] = _Queue()
            self._senders += 1
        for some, count in _slices(messages, min(SLICE_MESSAGES, self._share)):
            queue.parcels.append(((sender, some, offered_s), count))
            for one in (queue, account, self):
                one.messages += len(some)
                one.bytes += count
        if sender not in self._held and not self._within(queue, 1):
            self._held.add(sender)
            sender.hold(True)
        if sender.account not in self.held_accounts and not self._account_within(account, 1):
            self.held_accounts.add(sender.account)
            self._account_held(sender.account, True)

    def fills_a_batch(self) -> bool:
        """Return whether more messages would not go into the next batch."""
        return self.messages >= self._settings.batch_readings_max or self.bytes >= BATCH_BYTES

    def gives(self, messages: int) -> bool:
        """Return whether the next batch would have at least this many messages."""
        if self.messages < messages or not self.is_shared():
            return self.messages >= messages
        return sum(min(account.messages, self._share) for account in self._accounts.values()) >= messages

    def take(self) -> list[Parcel]:
        """Return the next batch: one slice of a sender of each account by turns; a slice at least. Raises KeyError when nothing waits.

        It ends at `batch_readings_max` messages or BATCH_BYTES, or when each account that waits has had its share of it."""
        batch = _Batch(self._settings.batch_readings_max, self.is_shared())
        served: OrderedDict[str, _Account] = OrderedDict()
        while self._accounts:
            name, account = next(iter(self._accounts.items()))
            sender, queue = next(iter(account.queues.items()))
            parcel, count = queue.parcels[0]
            if not batch.has_room(len(parcel[1]), count):
                break
            if not batch.has_share_left(name, len(parcel[1]), count):
                served[name] = self._accounts.pop(name)
                continue
            queue.parcels.popleft()
            for one in (queue, account, self):
                one.messages -= len(parcel[1])
                one.bytes -= count
            batch.add(name, parcel, count)
            self._next_turn(name, account, sender, queue)
        if not batch.parcels:
            raise KeyError("nothing waits")
        self._accounts.update(served)
        for name in [name for name in self.held_accounts if self._account_within(self._accounts.get(name), 2)]:
            self.held_accounts.remove(name)
            self._account_held(name, False)
        return batch.parcels

    def is_shared(self) -> bool:
        """Return whether an account brings more than a share while others come that bring less."""
        others = [name for name, at_s in self._light if self._offered_s - at_s < NOT_ALONE_S]
        return any(self._is_heavy(account) and others not in ([], [name]) for name, account in self._accounts.items())

    def _is_heavy(self, account: _Account) -> bool:
        return account.messages > self._share or account.bytes > BATCH_BYTES // BATCH_SHARE

    def _next_turn(self, name: str, account: _Account, sender: MessageSender, queue: _Queue) -> None:
        if queue.parcels:
            account.queues.move_to_end(sender)
        else:
            del account.queues[sender]
            self._senders -= 1
        if account.queues:
            self._accounts.move_to_end(name)
        else:
            del self._accounts[name]
        if sender in self._held and self._within(queue, 2):
            self._held.remove(sender)
            sender.hold(False)

    def _within(self, queue: _Queue, part: int) -> bool:
        """Return whether the queue holds no more than its share, divided by `part`."""
        senders = 2 * max(1, self._senders) * part
        messages = max(SHARE_MESSAGES_MIN // part, self._settings.pending_readings_max // senders)
        return queue.messages <= messages and queue.bytes <= max(SLICE_BYTES // part, self._settings.pending_bytes_max // senders)

    def _account_within(self, account: _Account | None, part: int) -> bool:
        """Return whether all senders of the account together hold no more than its share, divided by `part`."""
        accounts = 2 * max(1, len(self._accounts)) * part
        messages = max(SLICE_MESSAGES // part, self._settings.pending_readings_max // accounts)
        bytes_ = max(SLICE_BYTES // part, self._settings.pending_bytes_max // accounts)
        return account is None or (account.messages <= messages and account.bytes <= bytes_)


def _slices(messages: list[Publish], most: int) -> Iterator[tuple[list[Publish], int]]:
    """Yield slices of at most `most` messages and SLICE_BYTES, or one message, with their bytes."""
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
    """Return the approximate size of each message in memory."""
    return [len(message.topic) + len(message.payload) for message in messages]
