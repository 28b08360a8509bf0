"""Comparison of two nodes' ledgers: a digest per stream first, and the ranges where digests differ.

The ranges of streams that the peer was bringing when the two last met are sent with the digests. The peer goes on with these streams
without waiting for the answer to its own digests.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.model.errors import Corrupt
from streams.model.ranges import RangeSet
from streams.replication.exchange import Exchange
from streams.replication.ledger_summaries import digest_of, summaries
from streams.replication.link_terms import Key, Terms
from streams.replication.sync_messages import DIGESTS_MAX, Digests, Summary

STREAMS_MAX = 100_000
"""Maximum number of streams that a peer can make this node remember."""
AHEAD_MAX = 2
"""Maximum number of summaries of a stream that is sent before the peer's digests have come.

A stream with more summaries waits for the digests: most often the two are equal, and the summaries would be sent for nothing.
"""


class Meeting:
    """Comparison of ledgers in one session. It knows which streams are compared (`known`), and what the peer had settled where digests
    agreed.

    A stream is compared once the peer's digests have come and, where they differ, its summary too. Changes in the meantime are announced
    separately. `ahead`: the summaries that are sent with the digests.
    """

    def __init__(self, exchange: Exchange, terms: Terms) -> None:
        self._exchange = exchange
        self._mine: dict[str, tuple[bytes, dict[Key, RangeSet]]] = {}
        self._theirs: dict[str, bytes] = {}
        self._awaited: set[str] = set()
        self._due: set[str] = set()
        self.compared = False
        for stream in exchange.streams():
            settled = {key: exchange.settled(key) for key in exchange.keys(stream) if terms.shared(key)}
            if any(settled.values()):
                settled_and_gone = {origin: (ranges, exchange.gone((stream, origin))) for (_, origin), ranges in settled.items()}
                self._mine[stream] = (digest_of(settled_and_gone), settled)
        self.ahead = [summary for stream in exchange.came_from(terms.other.node) for summary in self._ahead(stream, terms)]

    def _ahead(self, stream: str, terms: Terms) -> list[Summary]:
        ledger = self._exchange.ledger(stream, terms.shared) if stream in self._mine else {}
        messages = summaries(stream, ledger) if ledger else []
        return messages if len(messages) <= AHEAD_MAX else []

    def known(self, stream: str) -> bool:
        """Return whether it is known what the peer has of this stream."""
        return self.compared and stream not in self._awaited

    def digests(self) -> Iterator[Digests]:
        """Yield the first messages of the session; at least one."""
        listed = [(stream, digest) for stream, (digest, _) in self._mine.items()]
        chunks = [listed[at : at + DIGESTS_MAX] for at in range(0, len(listed), DIGESTS_MAX)] or [[]]
        for chunk in chunks:
            yield Digests(chunk, last=chunk is chunks[-1])

    def heard(self, digests: Digests) -> None:
        """Store some or all of the peer's digests. Raises Corrupt for too many."""
        self._theirs.update(digests.digests)
        if len(self._theirs) > STREAMS_MAX:
            raise Corrupt(f"a peer may report at most {STREAMS_MAX} streams", code="peer_limit_passed")

    def compare(self, terms: Terms) -> tuple[dict[Key, RangeSet], list[Summary]]:
        """Return what the peer is known to have settled, and the summaries to send where digests differ. Call it after all digests."""
        self.compared = True
        self._due = set(self._theirs)
        sent_streams = {summary.stream for summary in self.ahead}
        agreed: dict[Key, RangeSet] = {}
        answers: list[Summary] = []
        for stream, (digest, settled) in self._mine.items():
            theirs = self._theirs.pop(stream, None)
            if theirs == digest:
                agreed.update({key: ranges for key, ranges in settled.items() if terms.shared(key)})
                continue
            ledger = self._exchange.ledger(stream, terms.shared)
            # Who has nothing of it yet may have it from another soon, and is not to send it here.
            may_come = any(terms.incoming((stream, origin)) for origin in ledger)
            if stream not in sent_streams and (
                theirs is not None or may_come or any(any(origin_ledger.gone.values()) for origin_ledger in ledger.values())
            ):
                answers += summaries(stream, ledger)
            if theirs is not None:
                self._awaited.add(stream)
        self._theirs.clear()
        return agreed, answers

    def summary(self, stream: str, last: bool) -> None:
        """Note a peer's summary of this stream; `last`: the stream is complete. Raises Corrupt for one not asked for, or sent again."""
        if stream not in self._due:
            raise Corrupt(f"a summary of '{stream}', which is not asked for", code="message_unexpected")
        if last:
            self._due.discard(stream)
            self._awaited.discard(stream)
