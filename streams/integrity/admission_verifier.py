"""Check of records from other nodes that this node acts upon: they are verified against what their origin signed before admission, not
afterwards."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from streams.config.companion_streams import HEADS
from streams.integrity.copy_reader import Copy, UnreadRows
from streams.integrity.hash_chain import entries
from streams.integrity.key_trust import Trust
from streams.integrity.merkle_tree import Entry, Tree
from streams.integrity.record_authorization import Entitled
from streams.integrity.signer import signed_at_once
from streams.integrity.statements import newest_statements, statements_in
from streams.log import NotProven
from streams.model.block import Block, Codec
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import OFFSET

OVERLAPS_MAX = 8
"""Maximum number of statements over one offset that are tried. A commit is signed once, or twice where it could not be signed at first."""

Key = tuple[str, Origin]
Signed = tuple[int, int, bytes]
"""First offset, end and root of rows that were signed together."""


class Belief(Enum):
    """Result of checking a block from elsewhere."""

    PROVEN = "its origin signed it"
    FORGED = "its origin signed something else for these offsets"
    OPEN = "nothing that its origin signed covers it"


@dataclass(slots=True)
class Doubted:
    """A block that waits for its verdict. `rows`: the rows as the tree of their commit has them; none where the encoding is not known
    here."""

    block: Block
    rows: list[Entry] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """(stream, origin) of the block."""
        return self.block.stream, self.block.origin

    def between(self, first: int, end: int) -> list[Entry]:
        """Return the rows at offsets `first .. end - 1`, as far as the block has them."""
        return self.rows[max(0, first - self.block.first) : max(0, end - self.block.first)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Consecutive rows, the first at offset `first`."""

    first: int
    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class RefusedBlock:
    """A block that its origin may not write, or a block of statements of which some or all are signed by no known key of their origin.
    `believed` are the accepted statements, cut out of it."""

    problem: NotProven
    believed: list[Block] = field(default_factory=list)


class Believing:
    """Verifier of blocks from nodes whose key is known: statements, and blocks of streams that are acted upon. It keeps no state between
    two calls."""

    def __init__(
        self,
        copy: Copy,
        trust: Callable[[str], Trust],
        entitled: Entitled | None = None,
        vouches: Callable[[str | None, str], bool] = lambda bringer, node: True,
    ) -> None:
        """Set the sources of the verdict. `trust`: returns the known keys of a node, if any. `entitled`: decides which records an origin
        may write, with any key. `vouches`: whether a node (None: this machine) may bring records of a node without a known key."""
        self._copy, self._trust, self._entitled, self._vouches = copy, trust, entitled or Entitled(), vouches

    def looked_at(self, block: Block, bringer: str | None = None) -> Doubted | RefusedBlock | None:
        """Return None for a block that is accepted as it is; a RefusedBlock for what is not accepted; otherwise the block, ready for
        `judge`. Blocks of statements may be refused in part. Raises Corrupt when the block does not decode."""
        if (problem := self._entitled.problem(block)) is not None:
            return RefusedBlock(problem)
        trust = self._trust(block.origin.node)
        if block.origin.node not in trust.keys:
            return self._of_unknown_key(block, bringer)
        if block.stream.endswith(HEADS):
            return self._statements(block, trust)
        return Doubted(block, self._rows(block)) if signed_at_once(block.stream) else None

    def foreign(self, block: Block) -> str | None:
        """Return the same as `Entitled.foreign`."""
        return self._entitled.foreign(block, self._copy.codec)

    def _of_unknown_key(self, block: Block, bringer: str | None) -> RefusedBlock | None:
        node = block.origin.node
        if not signed_at_once(block.stream) or self._vouches(bringer, node):
            return None
        why = f"no key of {node} is known here, and {bringer} is neither it nor headquarters"
        what = f"{block.stream}:{block.origin} {block.first} to {block.end - 1} is acted upon, and not believed: {why}"
        return RefusedBlock(NotProven(f"{what}; give its key, pin it, or let it come itself once", forged=False, code="key_unknown"))

    def _rows(self, block: Block) -> list[Entry]:
        codec: Codec = self._copy.codec
        return entries(codec.decode(block)) if codec.knows(block.codec) else []

    def _statements(self, block: Block, trust: Trust) -> RefusedBlock | None:
        """Return what is not accepted of a block of statements, or None. Of a block in an unknown encoding, only statements on records that
        are acted upon are refused."""
        codec, stream = self._copy.codec, block.stream.removesuffix(HEADS)
        if not codec.knows(block.codec):
            unread = NotProven(
                f"{block.stream}:{block.origin} is of encoding {block.codec}, which is not known here", forged=False, code="codec_unknown"
            )
            return RefusedBlock(unread) if signed_at_once(stream) else None
        believed, why = RangeSet(), list[NotProven]()
        for offset, one in statements_in(codec.decode(block), stream, block.origin):
            problem = str(one) if isinstance(one, Corrupt) else trust.problem(one)
            if problem is None:
                believed.add(offset, offset + 1)
            else:
                forged = isinstance(one, Corrupt) or not one.signed()
                why.append(
                    NotProven(
                        f"offset {offset} of {block.stream}:{block.origin} is not believed: {problem}", forged, "statement_not_believed"
                    )
                )
        return RefusedBlock(why[0], [codec.cut(block, first, end) for first, end in believed]) if why else None

    def judge(self, doubted: Sequence[Doubted]) -> list[Belief]:
        """Return the verdict on each block by the statements that are held here now. Raises what reading the log raises."""
        by_key: dict[Key, list[Doubted]] = {}
        for one in doubted:
            by_key.setdefault(one.key, []).append(one)
        signed = {key: self._signed(key, of_key) for key, of_key in by_key.items()}
        return [self._judged(one, signed[one.key], by_key[one.key]) for one in doubted]

    def _judged(self, one: Doubted, signed: list[Signed], all_of_key: Sequence[Doubted]) -> Belief:
        at, end = one.block.first, one.block.end
        while at < end:
            covering = _covering(signed, at)
            kept = next((piece for piece in covering if self._keeps(one, piece, all_of_key)), None)
            if kept is None:
                inside = any(one.block.first <= first and piece_end <= end for first, piece_end, _ in covering)
                return Belief.FORGED if inside and one.rows else Belief.OPEN
            at = kept[1]
        return Belief.PROVEN

    def _keeps(self, one: Doubted, piece: Signed, all_of_key: Sequence[Doubted]) -> bool:
        """Return whether the rows of a piece are what was signed. Rows that this block lacks come from elsewhere."""
        first, end, root = piece
        block = one.block
        own = one.between(first, end)
        if first >= block.first and end <= block.end:
            return bool(own) and Tree(own).root() == root
        heads = self._sides(one, first, min(end, block.first), all_of_key)
        tails = self._sides(one, max(first, block.end), end, all_of_key)
        return any(Tree(head + own + tail).root() == root for head in heads for tail in tails)

    def _sides(self, one: Doubted, first: int, end: int, all_of_key: Sequence[Doubted]) -> list[list[Entry]]:
        """Return the possible rows of the part of a piece outside of the block, each complete. They are the held rows, completed from other
        blocks, or the other blocks' rows, completed from held ones. Where blocks contradict each other, each of OVERLAPS_MAX goes first
        once."""
        if first >= end:
            return [[]]
        held = self._held(one.key, first, end)
        others = [_Rows(other.block.first, other.rows) for other in all_of_key if other is not one and other.between(first, end)]
        turns = [others[at:] + others[:at] for at in range(min(len(others), OVERLAPS_MAX))] or [[]]
        found: list[list[Entry]] = []
        for parts in [*([*held, *turn] for turn in turns), *([*turn, *held] for turn in turns)]:
            rows = _laid(first, end, parts)
            if rows and rows not in found:
                found.append(rows)
        return found

    def _held(self, key: Key, first: int, end: int) -> list[_Rows]:
        parts = self._copy.rows(*key, first, end)
        return [_Rows(part.column(OFFSET)[0].as_py(), entries(part)) for part in parts if not isinstance(part, UnreadRows)]

    def _signed(self, key: Key, doubted: Sequence[Doubted]) -> list[Signed]:
        """Return what was signed of the doubted rows, by first offset. The search goes from the newest statement back. Rows beyond the end
        of an accepted statement are in no older one, and are not searched there."""
        wanted, found = RangeSet((one.block.first, one.block.end) for one in doubted), set[Signed]()
        trust, lacking = self._trust(key[1].node), wanted
        for statement in newest_statements(self._copy, *key):
            if trust.problem(statement) is not None:
                continue
            pieces = [piece for piece in statement.pieces() if wanted.within(piece[0], piece[1])]
            found.update(pieces)
            if not (lacking := lacking.within(0, statement.end).without((first, end) for first, end, _ in pieces)):
                break
        return sorted(found)


def _laid(first: int, end: int, parts: Sequence[_Rows]) -> list[Entry] | None:
    """Return the rows at offsets `first .. end - 1`, each from the first of the parts that has it; None when some row is in no part."""
    rows: list[Entry] = []
    while (at := first + len(rows)) < end:
        part = next((part for part in parts if part.first <= at < part.first + len(part.entries)), None)
        if part is None:
            return None
        rows += part.entries[at - part.first : end - part.first]
    return rows


def _covering(signed: list[Signed], at: int) -> list[Signed]:
    behind = bisect_right(signed, at, key=lambda piece: piece[0])
    return [piece for piece in signed[max(0, behind - OVERLAPS_MAX) : behind] if piece[1] > at]
