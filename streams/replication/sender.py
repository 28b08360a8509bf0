"""The sending half of a session: what the peer lacks, cut into transfers, lane by lane, newest next to backlog, one fragment at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from streams.config.companion_streams import HEADS
from streams.config.roles import Lane
from streams.integrity.signer import signed_at_once
from streams.model.block import BLOCK_RECORDS_MAX
from streams.model.errors import Corrupt
from streams.model.ranges import Range, RangeSet
from streams.replication.effects import Load, Loaded, Unread
from streams.replication.link_terms import Key
from streams.replication.peer_track import APART_RECORDS, PeerTrack
from streams.replication.send_scheduler import Asleep, Turns
from streams.replication.sync_messages import FRAGMENT_BYTES_MAX, Begin, Cancel, Fragment, PartialBlock, RejectCode

WINDOW_BYTES = 8 << 20
"""Unacknowledged bytes above which no further transfer begins, except alerts."""
ALERT_WINDOW_BYTES = 1 << 20
HEADS_WINDOW_BYTES = 1 << 20
"""The same limit for statements that prove streams signed at once. The records they cover are acknowledged only after them, however full
the other windows are."""
TRANSFERS_MAX = 1_024
"""Maximum number of transfers sent and not yet acknowledged, without alerts and statements."""
LIVE_RECORDS = 8_192
"""Maximum newest records of one (stream, origin) at the opening of the session that are sent concurrently with the backlog.

For streams that are signed at once, these are only records after the opening: the parts of a commit are accepted together, and would wait
for each other.
"""
LOAD_RECORDS_MAX = BLOCK_RECORDS_MAX
"""Maximum number of records of one read. A block goes as it is stored: a shorter one would have to be decoded and encoded again."""
LINGER_S = 0.05
"""Time that a few new readings wait for more of their kind, so that a block is more than its header, seconds. More urgent records never
wait."""
LINGER_APART_S = 0.25
"""Minimum time between two blocks of few readings where readings come all the time, seconds. A block costs each node on its way as much as
hundreds of rows."""
LINGER_RECORDS = 1_000
CLAIM_S = 30.0
CLAIMS_MAX = 10_000
"""Maximum number of claims of a peer that are valid at a time."""
SETTLED_RANGES_MAX = 200_000
"""Maximum number of separate ranges that a peer can make this node remember in a session: as settled, and likewise as gone."""
LATER_S = 2.0
FRAGMENT_BYTES_MIN = 2048
FRAGMENT_S = 0.005
"""Target time of a fragment on the link, seconds. Where the link takes more than FRAGMENT_BYTES_MIN in this time, a fragment is larger. An
urgent message waits for one fragment at most."""
MEASURED_BYTES = 64 << 10
"""Number of bytes after which the measured rate of the link is used: more than the operating system takes unsent."""
_LANES_OF_HEADS = (Lane.ALERTS, Lane.EVENTS)
"""Lanes of statements: the first for statements on streams of that lane, the second for those on all other streams that are signed at
once."""
DAMAGED_MAX = 8
"""Number of transfers that a peer may find damaged before the session is ended."""

Window = Literal["alerts", "heads", "others"]


@dataclass(slots=True)
class Transfer:
    """One block to send. `number` is set once it has begun; the bytes before `at` are sent."""

    key: Key
    first: int
    end: int
    loaded: Loaded
    window: Window
    number: int = 0
    start: int = 0
    at: int = -1

    def done(self) -> bool:
        """Return whether the last byte is sent."""
        return self.at >= len(self.loaded.data)


@dataclass(slots=True, eq=False)
class _Slot:
    """One transfer at a time, and the next one read ahead.

    `heads`: for statements on streams that are signed at once. These are read and sent concurrently with the records they cover.
    """

    lane: Lane
    live: bool
    heads: bool = False
    todo: Turns = field(default_factory=Turns)
    loading: Load | None = None
    ready: Transfer | None = None
    current: Transfer | None = None

    @property
    def window(self) -> Window:
        """Window that the transfers of this slot fill."""
        return "heads" if self.heads else "alerts" if self.lane is Lane.ALERTS else "others"


class Sender:
    """Outgoing data for one peer. It gives one message at a time, when the link has room for it, the most urgent first."""

    def __init__(
        self, node: str, held: Callable[[Key], RangeSet], track_number: Callable[[Key], int], lane_of: Callable[[str], Lane]
    ) -> None:
        """Start with nothing to send. `node`: the node that sends."""
        self._node, self._held = node, held
        self._lane_of = lane_of
        self._track_number = track_number
        self._tracks: dict[Key, PeerTrack] = {}
        self._asleep = Asleep()
        self._turns = {lane: [_Slot(lane, live) for live in (True, False)] for lane in Lane}
        for lane in _LANES_OF_HEADS:
            self._turns[lane] = [*(_Slot(lane, live, heads=True) for live in (True, False)), *self._turns[lane]]
        self._slots = [slot for slots in self._turns.values() for slot in slots]
        self._unacknowledged: dict[int, Transfer] = {}
        self._in_flight_bytes: dict[Window, int] = {"alerts": 0, "heads": 0, "others": 0}
        self._resumable: dict[Key, list[PartialBlock]] = {}
        self._cancels: deque[Cancel] = deque()
        self._claims_end_s: deque[float] = deque()
        self._settled_ranges = self._gone_ranges = 0
        self._numbers = 0
        self._fragment_bytes = FRAGMENT_BYTES_MIN
        self._measured = (0, 0.0)  # bytes, seconds
        self.damaged = 0
        self.sent_records = 0
        self._sent_up_to: dict[Key, int] = {}
        self.resumed_bytes = 0

    def track(self, key: Key) -> PeerTrack:
        """Return what the peer has of `key`. It is made on the first call; its live part is then the newest LIVE_RECORDS held here (none
        for streams that are signed at once)."""
        known = self._tracks.get(key)
        if known is None:
            live = 0 if signed_at_once(key[0]) else LIVE_RECORDS
            known = self._tracks[key] = PeerTrack(live_from=max(0, self._held(key).end() - live))
        return known

    def settled_by_peer(self) -> dict[Key, RangeSet]:
        """Return the offsets that the peer reported to need no more, per (stream, origin) that it named. The caller must not change
        them."""
        return {key: track.settled for key, track in self._tracks.items()}

    def resumable(self, key: Key, partial: PartialBlock) -> None:
        """Note that the peer holds the first part of this block."""
        self._resumable.setdefault(key, []).append(partial)

    def work(self, key: Key) -> None:
        """Give `key` its turn: there may be something of it to send."""
        self.track(key)
        for slot in self._slots_of(key[0]):
            slot.todo.add(key)

    def settle(self, key: Key, ranges: RangeSet) -> None:
        """Record that the peer has these offsets. A transfer of them that is on its way is cancelled."""
        track = self.track(key)
        before = len(track.settled)
        track.settle(ranges)
        self._settled_ranges += len(track.settled) - before
        if self._settled_ranges > SETTLED_RANGES_MAX:
            raise Corrupt(f"a peer may settle at most {SETTLED_RANGES_MAX} separate ranges in a session", code="peer_limit_passed")
        for slot in self._slots:
            transfer = slot.current
            if transfer and transfer.key == key and track.settled.covers(transfer.first, transfer.end):
                self._cancels.append(Cancel(transfer.number))
                self._end(transfer)

    def give_up(self, key: Key, ranges: RangeSet) -> None:
        """Record that the peer considers these offsets gone. Above SETTLED_RANGES_MAX they are not remembered: the peer gets them in the
        next session."""
        if self._gone_ranges + len(ranges) <= SETTLED_RANGES_MAX:
            track = self.track(key)
            before = len(track.gone)
            track.give_up(ranges)
            self._gone_ranges += len(track.gone) - before

    def claimed(self, key: Key, first: int, end: int, now_s: float) -> None:
        """Hold back for CLAIM_S the offsets that the peer reports as coming to it from elsewhere. Claims above CLAIMS_MAX are ignored. What
        this node signed at once it always brings itself: another peer may bring a part that was never signed."""
        if key[1].node == self._node and signed_at_once(key[0]):
            return
        while self._claims_end_s and self._claims_end_s[0] <= now_s:
            self._claims_end_s.popleft()
        if len(self._claims_end_s) < CLAIMS_MAX:
            self._claims_end_s.append(now_s + CLAIM_S)
            self.track(key).claims.claim(first, end, now_s + CLAIM_S)

    def loads(self, now_s: float) -> list[Load]:
        """Return the reads to request now: at most one for each lane's newest records and one for its backlog, each one block ahead of the
        link."""
        for key in self._asleep.woken(now_s):
            self.work(key)
        asked = []
        for slot in self._slots:
            if slot.todo.waiting and slot.loading is None and slot.ready is None and (load := self._next_load(slot, now_s)):
                slot.loading = load
                self.track((load.stream, load.origin)).busy.add(load.first, load.end)
                asked.append(load)
        return asked

    def loaded(self, number: int, loaded: Loaded | Unread | None, now_s: float) -> Load | None:
        """Handle the answer to a Load (None: nothing is readable there). Return the load when the log could not return all it promised.
        Offsets that are only Unread for now are held back for a while; what is behind them goes on."""
        slot = next((s for s in self._slots if s.loading and s.loading.number == number), None)
        if slot is None or slot.loading is None:
            return None
        load, slot.loading = slot.loading, None
        key = (load.stream, load.origin)
        track = self.track(key)
        track.busy.remove(load.first, load.end)
        if isinstance(loaded, Unread):
            track.wait(loaded.first, loaded.end, now_s + loaded.again_s)
            return None
        unread = RangeSet([(load.first, loaded.first if loaded else load.end)] if loaded is None or loaded.first > load.first else [])
        track.unreadable.update(unread.common(self._held(key)))
        if loaded and not track.settled.covers(loaded.first, loaded.end):
            track.busy.add(loaded.first, loaded.end)
            if not slot.live:
                track.backlog_at = loaded.end
            slot.ready = Transfer(key, loaded.first, loaded.end, loaded, slot.window)
        return load if unread else None

    def next(self, now_s: float) -> Begin | Fragment | Cancel | None:
        """Return the next message of data; None when there is nothing to send, or the window is full."""
        if self._cancels:
            return self._cancels.popleft()
        for turns in self._turns.values():
            for slot in turns:
                if (slot.current or slot.ready) and (message := self._fragment(slot, now_s)):
                    turns.remove(slot)
                    turns.append(slot)  # the others go first next time
                    return message
        return None

    def acknowledged(self, number: int) -> None:
        """Note that the peer has made this transfer durable, or had it before."""
        transfer = self._unacknowledged.get(number)
        if transfer:
            self.track(transfer.key).settle(RangeSet([(transfer.first, transfer.end)]))
            self.sent_records += transfer.end - transfer.first
            self._sent_up_to[transfer.key] = max(transfer.end, self._sent_up_to.get(transfer.key, 0))
            self._end(transfer)

    def rejected(self, number: int, code: RejectCode, now_s: float) -> None:
        """Note that the peer did not take this transfer: it is offered again, at once or after a while."""
        transfer = self._unacknowledged.get(number)
        if not transfer:
            return
        self._end(transfer)
        if code == "damaged":
            self.damaged += 1
        elif code == "later":
            self.track(transfer.key).wait(transfer.first, transfer.end, now_s + LATER_S)
        elif code == "elsewhere":
            self.track(transfer.key).claims.claim(transfer.first, transfer.end, now_s + CLAIM_S)

    def carried(self, bytes_: int, took_s: float) -> None:
        """Note that the link took a message of `bytes_` bytes in `took_s` seconds, and size the next fragments by it.

        Without any such report the fragments stay small. A slower measurement counts at once."""
        if bytes_ < FRAGMENT_BYTES_MIN:
            return
        now = _fitting(bytes_, took_s)
        self._measured = (self._measured[0] + bytes_, self._measured[1] + took_s)
        if now < self._fragment_bytes or self._measured[0] >= MEASURED_BYTES:
            self._fragment_bytes = min(now, _fitting(*self._measured))
            self._measured = (0, 0.0)

    def wake_s(self) -> float | None:
        """Return when to call `loads` again, because something held back may go then; None when nothing is held back."""
        return self._asleep.wake_s()

    def sent_up_to(self) -> str:
        """Return for people, per stream that went out, the largest offset that the peer has made durable: `containers:tokyo@1a2b:1204`."""
        return ", ".join(f"{stream}:{origin}:{end - 1}" for (stream, origin), end in sorted(self._sent_up_to.items())[:8])

    def unacknowledged_records(self) -> int:
        """Return how many records are read or sent, and not yet known to be durable at the peer."""
        return sum(track.busy.count() for track in self._tracks.values() if track.busy)

    def backlog_records(self, now_s: float) -> int:
        """Return how many records the peer still lacks, as far as known here; for metrics."""
        return sum(self._tracks[key].wanted(self._held(key), now_s).count() for key in self._todo())

    def _slots_of(self, stream: str) -> list[_Slot]:
        lane = self._lane_of(stream)
        heads = stream.endswith(HEADS) and signed_at_once(stream.removesuffix(HEADS))
        return [slot for slot in self._turns[min(lane, _LANES_OF_HEADS[-1]) if heads else lane] if slot.heads == heads]

    def _todo(self) -> set[Key]:
        return {*self._asleep, *(key for slot in self._slots for key in slot.todo)}

    def _next_load(self, slot: _Slot, now_s: float) -> Load | None:
        while slot.todo.waiting:
            key = slot.todo.pop()
            track = self._tracks[key]
            held = self._held(key)
            if slot.live and track.lingers(now_s) and held.end() - track.under_way() < LINGER_RECORDS:
                self._sleep(key, now_s)
                continue
            wanted = track.wanted(held, now_s)
            split = min(track.live_from, held.end())  # the newest may have been dropped since
            mine = wanted.within(split, held.end()) if slot.live else wanted.within(0, split)
            if mine:
                slot.todo.add(key)  # at the end: each takes its turn
                if slot.live:
                    track.depart(now_s)
                chosen = next(iter(mine)) if slot.live else track.next_of(mine, whole=self._goes_whole(key))
                return self._load(key, mine, track.bridged(mine, held, chosen))
            if track.held_back():
                self._sleep(key, now_s)
        return None

    def _sleep(self, key: Key, now_s: float) -> None:
        """Let `key` sleep, because nothing of it may go now. Its turn comes when one of its waits is over, or when `work` is called for
        it."""
        if (until_s := self._tracks[key].next_wait_s(now_s)) is not None:
            self._asleep.add(key, until_s)

    def _goes_whole(self, key: Key) -> bool:
        """Return whether this is not shared among the peers that could bring it: its writer brings it whole, and a commit is never
        split."""
        return key[1].node == self._node or signed_at_once(key[0])

    def _load(self, key: Key, wanted: RangeSet, offsets: Range) -> Load:
        for partial in self._resumable.get(key, []):
            if wanted.covers(partial.first, partial.end):
                return Load(self._next_number(), *key, partial.first, partial.end, exact=True)
        first, end = offsets
        return Load(self._next_number(), *key, first, min(end, first + LOAD_RECORDS_MAX))

    def _fragment(self, slot: _Slot, now_s: float) -> Begin | Fragment | None:
        transfer = slot.current
        if transfer is None:
            transfer = self._begin(slot, now_s)
            return self._begin_message(transfer, slot) if transfer else None
        piece = transfer.loaded.data[transfer.at : transfer.at + self._fragment_bytes]
        transfer.at += len(piece)
        if transfer.done():
            slot.current = None
        return Fragment(transfer.number, piece)

    def _begin(self, slot: _Slot, now_s: float) -> Transfer | None:
        transfer = slot.ready
        if transfer is None or not self._window_open(slot.window):
            return None
        slot.ready = None
        if self._superseded(slot, transfer, now_s):
            self.track(transfer.key).busy.remove(transfer.first, transfer.end)
            self.work(transfer.key)
            return None
        slot.current = transfer
        transfer.number = self._next_number()
        self._unacknowledged[transfer.number] = transfer
        self._in_flight_bytes[transfer.window] += len(transfer.loaded.data)
        return transfer

    def _superseded(self, slot: _Slot, transfer: Transfer, now_s: float) -> bool:
        """Return whether the peer does not need this transfer now, or gets it better from elsewhere, by its messages since this was
        read."""
        track = self.track(transfer.key)
        if track.settled.covers(transfer.first, transfer.end) or track.waited(transfer.first, transfer.end):
            return True
        if slot.live or self._goes_whole(transfer.key) or transfer.end - transfer.first < 2 * APART_RECORDS:
            return False
        follows = track.follows_another_peer(track.wanted(self._held(transfer.key), now_s), transfer.first, 0)
        if follows:
            track.backlog_at = 0  # not on from behind it
        return follows

    def _begin_message(self, transfer: Transfer, slot: _Slot) -> Begin:
        loaded = transfer.loaded
        transfer.start = self._resume_at(transfer)
        self.resumed_bytes += transfer.start
        piece = loaded.data[transfer.start : transfer.start + self._fragment_bytes]
        transfer.at = transfer.start + len(piece)
        if transfer.done():
            slot.current = None
        number = self._track_number(transfer.key)
        return Begin(transfer.number, number, transfer.first, transfer.end, len(loaded.data), loaded.digest, transfer.start, piece)

    def _resume_at(self, transfer: Transfer) -> int:
        """Return how many bytes of this very block the peer holds. Forget what it holds of other cuts of these offsets: that is of no use
        any more."""
        partials = self._resumable.pop(transfer.key, [])
        overlapping = [p for p in partials if p.first < transfer.end and transfer.first < p.end]
        self._resumable[transfer.key] = [p for p in partials if p not in overlapping]
        size = len(transfer.loaded.data)
        return next((p.held_bytes for p in overlapping if p.digest == transfer.loaded.digest and p.held_bytes <= size), 0)

    def _window_open(self, window: Window) -> bool:
        most = {"alerts": ALERT_WINDOW_BYTES, "heads": HEADS_WINDOW_BYTES, "others": WINDOW_BYTES}[window]
        return self._in_flight_bytes[window] < most and (window != "others" or len(self._unacknowledged) < TRANSFERS_MAX)

    def _end(self, transfer: Transfer) -> None:
        if self._unacknowledged.pop(transfer.number, None):
            self._in_flight_bytes[transfer.window] -= len(transfer.loaded.data)
        self.track(transfer.key).busy.remove(transfer.first, transfer.end)
        for slot in self._slots:
            if slot.current is transfer:
                slot.current = None
        self.work(transfer.key)

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers


def _fitting(bytes_: int, took_s: float) -> int:
    """Return the size of a fragment for a link that took `bytes_` bytes in `took_s` seconds."""
    return max(FRAGMENT_BYTES_MIN, int(min(bytes_ * FRAGMENT_S / max(took_s, 1e-6), FRAGMENT_BYTES_MAX)))
