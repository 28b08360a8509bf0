"""Takes a carried file in. What is whole, and signed by a node that is known and allowed to it, goes into the log. All else is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from landfall.offline.bundle_frames import Damaged, SignedMessage
from landfall.offline.bundle_messages import BundleEntry, BundleGone, Carried, Contents, End
from landfall.offline.bundle_plan import believed
from streams.model.block import Block
from streams.model.errors import Corrupt, Misuse
from streams.model.ledger import GoneReason
from streams.model.ranges import RangeSet
from streams.replication.ledger_summaries import checked_ranges, checked_reason
from streams.replication.link_terms import Key, Terms

BATCH_BLOCKS_MAX, BATCH_BYTES_MAX = 256, 8 << 20
PROBLEMS_MAX = 100


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets of one (stream, origin) that will never come, and why."""

    key: Key
    reason: GoneReason
    ranges: RangeSet


class AdmittingLog(Protocol):
    """Log of the node, into which files are read."""

    def admit(self, blocks: list[bytes], bringer: str) -> int:
        """Admit all of the blocks, durably, or none; return how many records were new. The node `bringer` wrote the file.

        Raises Misuse for a block the log does not take.
        """
        ...

    def declare_gone(self, lost: Lost) -> None:
        """Record these offsets as gone, durably."""
        ...

    def held_end(self, key: Key) -> int:
        """Return one past the last record that is held of `key`; 0 when none is."""
        ...


@dataclass(slots=True)
class Taken:
    """Outcome of reading a file.

    `problems`: sentences on what was damaged or not believed, each once, the first PROBLEMS_MAX. `problems_unreported`: the number of
    problems after those. `missing`: the offsets that the file was to carry and did not bring.
    """

    blocks: int = 0
    new_records: int = 0
    problems: list[str] = field(default_factory=list)
    problems_unreported: int = 0
    missing: dict[Key, RangeSet] = field(default_factory=dict)


class BundleReader:
    """Reader that takes all frames of a file. `signers`: per public key, its node and what may come from that node."""

    def __init__(self, log: AdmittingLog, signers: Mapping[bytes, Terms], key_text: Callable[[bytes], str]) -> None:
        self._log, self._signers, self._key_text = log, signers, key_text
        self._batch: list[Block] = []
        self._bringer = ""
        self._planned: dict[Key, RangeSet] = {}
        self._brought: dict[Key, RangeSet] = {}
        self._unconfirmed: list[tuple[str, Lost]] = []
        self._whole_list = self._ended = False
        self._taken = Taken()

    def take(self, frames: Iterable[SignedMessage | Damaged]) -> Taken:
        """Take all frames that can be believed, durably, and return the outcome. A repeat changes nothing.

        Raises RetryLater when the node is away or its disk full: frames taken until then stay, and the file can be taken again.
        """
        for frame in frames:
            if isinstance(frame, Damaged):
                self._problem(f"bytes {frame.first:,} to {frame.end - 1:,}: {frame.why}")
            elif (terms := self._signers.get(frame.key)) is None:
                self._problem(f"signed with {self._key_text(frame.key)}, the key of no node that is known here")
            else:
                try:
                    self._heard(frame, terms)
                except Corrupt as problem:
                    self._problem(f"from '{terms.other.node}': {problem}")
        self._flush()
        for node, lost in self._unconfirmed:
            self._declare_below_held(node, lost)
        return self._outcome()

    def _heard(self, frame: SignedMessage, terms: Terms) -> None:
        match frame.message:
            case Contents() as contents:
                self._whole_list |= contents.last
                for entry in contents.entries:
                    if terms.incoming(key := entry.key()):
                        self._planned.setdefault(key, RangeSet()).update(_ranges(entry))
            case Carried(data):
                block = Block.from_bytes(data)
                if believed(terms, (block.stream, block.origin), self._problem):
                    if terms.other.node != self._bringer:
                        self._flush()
                        self._bringer = terms.other.node
                    self._batch.append(block)
                    if len(self._batch) >= BATCH_BLOCKS_MAX or sum(len(block.payload) for block in self._batch) >= BATCH_BYTES_MAX:
                        self._flush()
            case BundleGone(entry, reason):
                lost = Lost(entry.key(), checked_reason(reason), _ranges(entry))
                if lost.key[1].node != terms.me.node and believed(terms, lost.key, self._problem):
                    if terms.other.node == lost.key[1].node or terms.other.role == "hq":
                        self._log.declare_gone(lost)
                    else:
                        self._unconfirmed.append((terms.other.node, lost))
            case End():
                self._ended = True

    def _declare_below_held(self, node: str, lost: Lost) -> None:
        """Declare gone what a relay claims, as a session does (`streams/replication/deletion_claims.py`), below the end of the held
        records.

        Offsets that nobody has shown to have been written are not declared gone.
        """
        end = self._log.held_end(lost.key)
        if below := lost.ranges.within(0, end):
            self._log.declare_gone(Lost(lost.key, lost.reason, below))
        if beyond := lost.ranges.without([(0, end)]):
            what = f"{lost.key[0]}:{lost.key[1]} {beyond.first():,} to {beyond.end() - 1:,}"
            self._problem(f"'{node}' says that {what} is gone: it is not believed of what comes after the last record here")

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        try:
            self._admit(batch)
        except Misuse:
            for block in batch:  # one of them spoils the commit for all: find out which
                try:
                    self._admit([block])
                except Misuse as problem:
                    self._problem(f"{block.stream}:{block.origin} {block.first:,} to {block.end - 1:,} is not taken: {problem}")

    def _admit(self, batch: list[Block]) -> None:
        if batch:
            self._taken.new_records += self._log.admit([block.to_bytes() for block in batch], self._bringer)
            self._taken.blocks += len(batch)
            for block in batch:
                self._brought.setdefault((block.stream, block.origin), RangeSet()).add(block.first, block.end)

    def _problem(self, sentence: str) -> None:
        if sentence in self._taken.problems:
            return
        if len(self._taken.problems) < PROBLEMS_MAX:
            self._taken.problems.append(sentence)
        else:
            self._taken.problems_unreported += 1

    def _outcome(self) -> Taken:
        if not self._whole_list:
            self._problem("the list of what it carries is not whole: not all that is missing can be reported")
        if not self._ended:
            self._problem("its end is missing")
        for key, planned in self._planned.items():
            if missing := planned.without(self._brought.get(key, RangeSet())):
                self._taken.missing[key] = missing
        return self._taken


def _ranges(entry: BundleEntry) -> RangeSet:
    return checked_ranges(entry.ranges)
