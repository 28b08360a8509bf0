"""Making a proof file from a copy: a topic's records of a span of time, and every run they could stand in, up to a signed head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from streams.errors import Corrupt, Misuse
from streams.proof.chain import RUN, UNKNOWN, entries
from streams.proof.checking import reported
from streams.proof.completeness import completeness
from streams.proof.form import (
    FORMAT,
    Absent,
    NeighbourForm,
    NotShown,
    PathForm,
    Present,
    ProofFile,
    Section,
    ShownRow,
    WithheldRow,
    to_cells,
)
from streams.proof.gaps import lacks
from streams.proof.reading import Copy, Unread
from streams.proof.statements import statements
from streams.proof.text import to_text
from streams.proof.tree import Tree, entries_of
from streams.proof.trust import Trust
from streams.proof.verifying import UNREAD_BY_ORIGIN, Signed, Verdict, gather
from streams.records import TOPIC, Value
from streams.words import Origin

SETTLE_MS = 7 * 86_400_000
"""Records that come this much later than the span's end (fleet time) are still looked for, where the copy goes that far."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be shown: the records of `topic` with since <= order time < until (UTC ms). `interval_ms`: how often it should report."""

    topic: str
    since_at_ms: int
    until_at_ms: int
    interval_ms: int | None = None

    def __post_init__(self) -> None:
        if self.until_at_ms <= self.since_at_ms:
            raise Misuse("a span of time ends after it begins", hint="give --since before --until")


def make(copy: Copy, claim: Claim, of: Sequence[tuple[str, Origin]], trust: Trust) -> ProofFile:
    """The proof of `claim` over these (stream, origin). Whoever holds it needs the origins' public keys and nothing else.

    Raises Corrupt when the copy is not what was signed, Misuse when too little of it is signed, or what was signed is not here.
    """
    sections = [_Maker(copy, claim, stream, origin, trust).section() for stream, origin in of]
    readings, thinned = reported(sections)
    try:
        held = completeness(readings, claim.since_at_ms, claim.until_at_ms, claim.interval_ms, thinned)
    except ValueError as problem:
        raise Misuse(str(problem), hint="say with --interval-min how often it should report, or ask for a shorter span") from problem
    span = (claim.since_at_ms, claim.until_at_ms)
    return ProofFile(FORMAT, claim.topic, *span, claim.interval_ms, sections, held.to_json()).sealed()


class _Maker:
    """One section of one proof."""

    def __init__(self, copy: Copy, claim: Claim, stream: str, origin: Origin, trust: Trust) -> None:
        self._copy, self._claim, self._stream, self._origin = copy, claim, stream, origin
        believed = [
            (at, one) for at, one in statements(copy, stream, origin) if not isinstance(one, Corrupt) and trust.problem(one) is None
        ]
        if not believed:
            raise Misuse(
                f"of {stream}:{origin} nothing is here that its origin signed",
                hint="a node signs once a minute, and heads come with the next sync",
            )
        self._said = said = [one for _, one in believed]
        self._signed: Signed = gather(Verdict(stream, origin, ""), believed, trust)
        settled = claim.until_at_ms + SETTLE_MS
        self._end = next((one for one in said if one.at_ms >= settled), said[-1])
        before = [one for one in said if one.newest_at_ms < claim.since_at_ms and one.end <= self._end.end]
        self._start = before[-1] if before else None

    def section(self) -> Section:
        """Every run from the start to the end."""
        first = self._start.runs if self._start else 0
        runs = [self._run(number, rows) for number, rows in self._whole_runs(first * RUN)]
        start = self._start.body() if self._start else None
        return Section(self._stream, str(self._origin), start, self._end.body(), runs)

    def _whole_runs(self, first: int) -> Iterator[tuple[int, list[pa.RecordBatch] | None]]:
        """Each run's number and rows, the open one's up to the end; None where they are not all to be had."""
        parts: list[pa.RecordBatch] = []
        whole, at = True, first
        for part in self._copy.rows(self._stream, self._origin, first, self._end.end):
            part_end = part.end if isinstance(part, Unread) else at + part.num_rows
            start = at
            while at < part_end:
                upto = min(part_end, (at // RUN + 1) * RUN)
                if isinstance(part, Unread):
                    whole = False
                else:
                    parts.append(part.slice(at - start, upto - at))
                at = upto
                if at % RUN == 0 or at == self._end.end:
                    yield (at - 1) // RUN, parts if whole else None
                    parts, whole = [], True

    def _run(self, number: int, rows: list[pa.RecordBatch] | None) -> Present | Absent | NotShown:
        tree = None if rows is None else Tree(entry for part in rows for entry in entries(part))
        root = self._root(number, tree)
        if tree is None or rows is None or root in (None, UNKNOWN):
            return self._not_shown(number, root)
        if tree.root() != root:
            raise Corrupt(
                f"run {number} of {self._stream}:{self._origin} is not what its origin signed",
                hint=f"`landfall log verify --stream {self._stream}` says where; another copy may have it right",
            )
        index, there = tree.place(self._claim.topic)
        if not there:
            return Absent(number, to_text(root), len(tree.leaves), _neighbour(tree, index - 1), _neighbour(tree, index))
        values = [row for part in rows for row in part.filter(pc.equal(part.column(TOPIC), self._claim.topic)).to_pylist()]
        shown = [self._row(row, *entry) for row, entry in zip(values, entries_of(tree.entries[self._claim.topic]), strict=True)]
        return Present(number, to_text(root), len(tree.leaves), PathForm.of(tree.path(index)), shown)

    def _root(self, number: int, tree: Tree | None) -> bytes | None:
        if number == self._end.runs:
            return self._end.tail
        root = self._signed.root(number, tree.root() if tree else UNKNOWN)
        if root is None:
            raise Misuse(
                f"what was signed of run {number} of {self._stream}:{self._origin} is not in this copy",
                hint=f"{self._stream}.heads is trimmed too far here: make the proof at a copy that goes further back",
            )
        return root

    def _row(self, row: dict[str, Value | None], order_at_ms: int, digest: bytes) -> ShownRow | WithheldRow:
        if self._claim.since_at_ms <= order_at_ms < self._claim.until_at_ms:
            return ShownRow(to_cells(row))
        return WithheldRow(order_at_ms, to_text(digest))

    def _not_shown(self, number: int, root: bytes | None) -> NotShown:
        first, end = number * RUN, (number + 1) * RUN
        ledger = self._copy.log.ledger(self._stream)[self._origin]
        why = next((gap.why for gap in lacks(self._origin, ledger) if gap.first < end and first < gap.end), "unreadable")
        since = [one.at_ms for one in self._said if one.end <= first]
        until = [one.at_ms for one in self._said if one.end >= end]
        return NotShown(
            number,
            to_text(root or UNKNOWN),
            UNREAD_BY_ORIGIN if root in (None, UNKNOWN) else why,
            since[-1] if since else 0,
            until[0] if until else self._end.at_ms,
        )


def _neighbour(tree: Tree, index: int) -> NeighbourForm | None:
    if not 0 <= index < len(tree.leaves):
        return None
    leaf = tree.leaves[index]
    return NeighbourForm(to_text(leaf.key), to_text(leaf.rows), PathForm.of(tree.path(index)))


def signed_by_origins(copy: Copy, topic: str, streams: Sequence[str], since_at_ms: int, until_at_ms: int) -> list[tuple[str, Origin]]:
    """The (stream, origin) of `streams` in which this copy holds records of the topic in the span."""
    rows = copy.log.history(topic, since_at_ms, until_at_ms, [stream for stream in streams if stream in copy.log.streams()]).rows
    pairs = {(stream, origin) for stream, origin in zip(rows.column("stream").to_pylist(), rows.column("origin").to_pylist(), strict=True)}
    return sorted((stream, Origin.parse(origin)) for stream, origin in pairs)
