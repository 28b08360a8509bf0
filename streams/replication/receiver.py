"""The receiving half of a session: it joins fragments into blocks, and checks each block before it is made durable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams.config.companion_streams import HEADS
from streams.config.roles import Lane
from streams.log import NotProven, PeerKnowsMore, UnknownWriter
from streams.model.block import BLOCK_BYTES_MAX, BLOCK_RECORDS_MAX, Block, digest
from streams.model.errors import Corrupt, LandfallError, NotAllowed, RetryLater
from streams.replication.effects import Admit, Report, too_many_begun, too_many_bytes, too_scattered
from streams.replication.exchange import Exchange, Member
from streams.replication.link_terms import Key, Terms
from streams.replication.partial_blocks import Partial
from streams.replication.sync_messages import Ack, Begin, Fragment, Reject, RejectCode

OPEN_MAX = 16
"""Maximum number of transfers that a peer may have begun and not finished."""
UNDURABLE_BYTES_MAX = 48 << 20
"""Maximum bytes that a peer can make this node hold before they are durable: its window, and a largest block in each slot."""
UNDURABLE_MAX = 16_384
"""Maximum number of blocks that are not durable yet, however small: more than an honest peer's windows hold of the smallest blocks."""
FRAME_BYTES_MAX = BLOCK_BYTES_MAX + 4096
"""Maximum size of a block as it is sent, header included, bytes."""
ENDED_MAX = 4096
CORRUPT_MAX = 8
"""Number of blocks that do not verify after which a peer is refused."""
PUT_OFF_MAX = 300
"""Number of transfers refused in a session after which a peer is reported as bringing what the settings here forbid.

An honest peer tries again every 2 s until both sides have the same settings.
"""
FORGED = "records from a peer are not what their origin signed"
UNKNOWN_WRITER = "records are by a node that is not known here"
UNCOVERED = "what a peer brought is covered by nothing that is known here to be signed by its origin"
"""Reason that accuses nobody: the signed statement may be on a disk that does not return it."""
_PASSED_ON = "not believed; the peer may have passed it on unknowing"
"""Outcome for a peer that is not the origin. A node that does not know the writer's key, or the roles of the nodes, takes what comes and
brings it to others."""


@dataclass(slots=True)
class _Incoming:
    begin: Begin
    key: Key
    data: bytearray
    lane: Lane


class Receiver:
    """Incoming transfers from one peer. Answers go out through `answer`, requests to the driver through `effect`. A violation raises
    Corrupt or NotAllowed."""

    def __init__(
        self,
        member: Member,
        exchange: Exchange,
        terms: Terms,
        answer: Callable[[Ack | Reject], None],
        effect: Callable[[Admit | Report], None],
    ) -> None:
        self._member = member
        self._exchange = exchange
        self.terms = terms
        self._answer = answer
        self._effect = effect
        self._open: dict[int, _Incoming] = {}
        self._admitting: dict[int, _Incoming] = {}
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._newest = 0
        self._undurable_bytes = 0
        self._corrupt = 0
        self._doubts_reported: set[tuple[Key, bool]] = set()
        self._too_many_reported: set[str] = set()
        self._put_off = 0
        self.received_bytes = 0
        self.received_records = 0

    def begin(self, begin: Begin, key: Key, now_s: float) -> None:
        """Begin to receive a block, unless it is here already or another peer is bringing it."""
        if not self.terms.incoming(key) and not self.terms.disputed(key):
            raise NotAllowed(self.terms.why_not(key), code="link_terms_broken")
        bytes_fit = begin.start <= begin.size_bytes <= FRAME_BYTES_MAX
        if begin.transfer <= self._newest or not bytes_fit or not 0 < begin.end - begin.first <= BLOCK_RECORDS_MAX:
            raise Corrupt(f"transfer {begin.transfer} of {begin.size_bytes} bytes can not begin like this", code="transfer_invalid")
        self._newest = begin.transfer
        if not self.terms.incoming(key):
            return self._not_yet(begin, key)
        if not self._exchange.takes(key, begin.first, begin.end):
            return self._end(begin.transfer, Ack([begin.transfer]))
        if self._exchange.refuses(self._member, key, (begin.first, begin.end), now_s):
            return self._reject(begin.transfer, "elsewhere")
        if not self._exchange.may_begin(self._member.peer.node, key):
            return self._too_many(begin, too_many_begun(self._member.peer.node, *key))
        if self._exchange.scatters(self._member, key, begin.first, begin.end):
            return self._too_many(begin, too_scattered(self._member.peer.node, *key))
        lane, per_day = self.terms.lane(key[0]), self.terms.bytes_per_day
        if self._exchange.allowances.left(self._member.peer.node, lane, per_day, now_s) <= 0:
            return self._too_many(begin, too_many_bytes(self._member.peer.node, *key, per_day))
        if len(self._open) >= OPEN_MAX or self._undurable_bytes + begin.size_bytes > UNDURABLE_BYTES_MAX:
            raise Corrupt(
                f"a peer may have {OPEN_MAX} transfers and {UNDURABLE_BYTES_MAX} bytes under way, not more", code="peer_limit_passed"
            )
        if len(self._open) + len(self._admitting) >= UNDURABLE_MAX:
            raise Corrupt(f"a peer may have {UNDURABLE_MAX} blocks that are not durable yet, not more", code="peer_limit_passed")
        kept = self._exchange.partials.take(begin.digest)
        if begin.start and (kept is None or len(kept.data) < begin.start):
            return self._reject(begin.transfer, "restart")
        alone = self._exchange.arriving(self._member, key, (begin.first, begin.end), begin.size_bytes - begin.start, now_s)
        if not alone and lane != Lane.ALERTS:
            return self._reject(begin.transfer, "elsewhere")
        head = kept.data[: begin.start] if kept and begin.start else b""
        incoming = self._open[begin.transfer] = _Incoming(begin, key, bytearray(head), lane)
        self._undurable_bytes += begin.size_bytes
        self._exchange.allowances.spend(self._member.peer.node, lane, begin.size_bytes)
        self._exchange.moved(self._member, key, begin.first, len(begin.piece), now_s)
        self._grow(incoming, begin.piece)

    def fragment(self, fragment: Fragment, now_s: float) -> None:
        """Add more bytes to a transfer. Bytes of a transfer that ended here are ignored: they were on their way."""
        incoming = self._open.get(fragment.transfer)
        if incoming:
            self._exchange.moved(self._member, incoming.key, incoming.begin.first, len(fragment.piece), now_s)
            self._grow(incoming, fragment.piece)
        elif fragment.transfer not in self._ended:
            raise Corrupt(f"a fragment of transfer {fragment.transfer}, which never began", code="message_unexpected")

    def cancel(self, number: int) -> None:
        """End a transfer of which the peer sends no more."""
        if incoming := self._open.pop(number, None):
            self._drop(incoming)
            self._remember(number)

    def admitted(self, number: int, problem: LandfallError | None) -> None:
        """Handle the log's answer to an Admit: the block is durable, or the `problem` is why it is not."""
        incoming = self._admitting.pop(number, None)
        if incoming is None:
            return
        stream, _ = incoming.key
        if problem is None:
            self._exchange.changed([stream])
            self.received_records += incoming.begin.end - incoming.begin.first
            self._undurable_bytes -= incoming.begin.size_bytes
            self._exchange.arrived(self._member, incoming.key, incoming.begin.first, incoming.begin.end, durable=True)
            self._report_refuted(incoming)
            return self._end(number, Ack([number]))
        self._drop(incoming)
        if isinstance(problem, RetryLater | PeerKnowsMore):  # no room now, or a new generation is being opened
            return self._reject(number, "later")
        if isinstance(problem, NotProven):
            return self._not_believed(incoming, problem)
        self._found_corrupt(incoming, problem)

    def keep_halves(self) -> None:
        """Keep the received part of each open block, so that another session with the peer can continue it. This session goes on too."""
        for incoming in self._open.values():
            if incoming.data:
                begin = incoming.begin
                self._exchange.partials.keep(Partial(incoming.key, begin.first, begin.end, begin.digest, bytes(incoming.data)))

    def close(self) -> None:
        """End the session: partial blocks are kept, and what was coming may come from other peers."""
        self.keep_halves()
        for incoming in self._open.values():
            self._not_kept(incoming)
        self._open.clear()

    def _grow(self, incoming: _Incoming, piece: bytes) -> None:
        begin = incoming.begin
        incoming.data += piece
        self.received_bytes += len(piece)
        if len(incoming.data) > begin.size_bytes or not piece:
            raise Corrupt(f"transfer {begin.transfer} has other bytes than the {begin.size_bytes} it announced", code="transfer_invalid")
        if len(incoming.data) == begin.size_bytes:
            del self._open[begin.transfer]
            self._complete(incoming)

    def _complete(self, incoming: _Incoming) -> None:
        begin, data = incoming.begin, bytes(incoming.data)
        try:
            if digest(data) != begin.digest:
                raise Corrupt("a block arrived with other bytes than announced", code="block_corrupt")
            block = Block.from_bytes(data)
            if (block.stream, block.origin) != incoming.key or (block.first, block.end) != (begin.first, begin.end):
                raise Corrupt("a block is of another stream, origin or range than announced", code="block_misplaced")
        except Corrupt as problem:
            self._drop(incoming)
            return self._found_corrupt(incoming, problem)
        incoming.data = bytearray()
        self._admitting[begin.transfer] = incoming
        self._effect(Admit(begin.transfer, block, self._member.peer.node))

    def _not_yet(self, begin: Begin, key: Key) -> None:
        """Put off a transfer that the terms forbid: the peer may have received settings of the stream that this node has yet to receive, or
        the reverse."""
        self._put_off += 1
        if self._put_off == PUT_OFF_MAX:
            details = {"peer": self._member.peer.node, "stream": key[0], "origin": str(key[1]), "problem": self.terms.why_not(key)}
            self._effect(
                Report("a peer goes on bringing what it may not, or has not heard so", "not taken", details, code="link_terms_broken")
            )
        self._reject(begin.transfer, "later")

    def _too_many(self, begin: Begin, report: Report) -> None:
        if report.reason not in self._too_many_reported:
            self._too_many_reported.add(report.reason)
            self._effect(report)
        self._reject(begin.transfer, "elsewhere")

    def _not_believed(self, incoming: _Incoming, problem: NotProven) -> None:
        begin = incoming.begin
        self._exchange.doubt(self._member, incoming.key, begin.first, begin.end, problem.forged)
        if (incoming.key, problem.forged) not in self._doubts_reported:
            self._doubts_reported.add((incoming.key, problem.forged))
            passed_on = self._member.peer.node != incoming.key[1].node
            reason, outcome = FORGED, _PASSED_ON if passed_on else "not believed"
            if isinstance(problem, UnknownWriter):
                reason = UNKNOWN_WRITER
            elif not problem.forged and not incoming.key[0].endswith(HEADS):
                reason, outcome = UNCOVERED, "not believed until it is"
            self._effect(Report(reason, outcome, {**self._details(incoming, problem), "passed_on": passed_on}, code=problem.code))
        self._reject(begin.transfer, "elsewhere")

    def _details(self, incoming: _Incoming, problem: LandfallError) -> dict[str, Any]:
        begin, (stream, origin) = incoming.begin, incoming.key
        return {
            "stream": stream,
            "origin": str(origin),
            "first": begin.first,
            "end": begin.end,
            "peer": self._member.peer.node,
            "problem": str(problem),
        }

    def _found_corrupt(self, incoming: _Incoming, problem: LandfallError) -> None:
        begin = incoming.begin
        self._corrupt += 1
        details = self._details(incoming, problem)
        self._effect(Report("a block from a peer does not verify", "not taken; asked for again", details, code=problem.code))
        if self._corrupt >= CORRUPT_MAX:
            raise Corrupt(f"{self._corrupt} blocks did not verify", code="blocks_damaged")
        self._reject(begin.transfer, "damaged")

    def _report_refuted(self, incoming: _Incoming) -> None:
        begin, (stream, origin) = incoming.begin, incoming.key
        for node in self._exchange.refuted(self._member, incoming.key, begin.first, begin.end):
            details = {"peer": node, "stream": stream, "origin": str(origin), "first": begin.first, "end": begin.end}
            outcome = "taken from their origin; the peer may have passed on another's word"
            reason = "a peer said that records are gone, and their origin has brought them"
            self._effect(Report(reason, outcome, details, code="gone_refuted"))

    def _not_kept(self, incoming: _Incoming) -> None:
        """Give the bytes of a block that is not kept back to the peer's allowance. Blocks on their way to the disk when the session ends
        are excluded: they may still be kept."""
        self._exchange.allowances.spend(self._member.peer.node, incoming.lane, -incoming.begin.size_bytes)

    def _drop(self, incoming: _Incoming) -> None:
        self._undurable_bytes -= incoming.begin.size_bytes
        self._not_kept(incoming)
        self._exchange.arrived(self._member, incoming.key, incoming.begin.first, incoming.begin.end, durable=False)

    def _reject(self, number: int, code: RejectCode) -> None:
        self._end(number, Reject(number, code))

    def _end(self, number: int, answer: Ack | Reject) -> None:
        self._remember(number)
        self._answer(answer)

    def _remember(self, number: int) -> None:
        self._ended[number] = None
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
