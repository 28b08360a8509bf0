"""Builder of a proof file from a copy: a topic's records of a span of time, and every run that could hold them, up to a signed head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from streams.config.companion_streams import HEADS, kept_of
from streams.integrity.base64_text import to_text
from streams.integrity.completeness import completeness
from streams.integrity.copy_reader import Copy, UnreadRows
from streams.integrity.copy_verifier import UNREAD_BY_ORIGIN
from streams.integrity.hash_chain import RUN, UNKNOWN, entries
from streams.integrity.key_trust import Trust
from streams.integrity.merkle_tree import Tree, entries_of
from streams.integrity.missing_ranges import lacks
from streams.integrity.proof_checker import readings_shown
from streams.integrity.proof_file import (
    FORMAT,
    Absent,
    LeafForm,
    NotShown,
    PathForm,
    Present,
    ProofFile,
    Section,
    ShownRow,
    WithheldRow,
    to_cells,
)
from streams.integrity.proof_reach import Unsigned, reach
from streams.integrity.report_intervals import reported
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin
from streams.model.ledger import OriginLedger
from streams.model.records import SOURCE_ORIGIN, SOURCE_STREAM, TOPIC, Value


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """Claim to prove: the records of `topic` with since <= order time < until (UTC ms). `interval_ms`: how often the topic should
    report."""

    topic: str
    since_at_ms: int
    until_at_ms: int
    interval_ms: int | None = None

    def __post_init__(self) -> None:
        if self.until_at_ms <= self.since_at_ms:
            raise Misuse("a span of time ends after it begins", hint="give --since before --until", code="span_invalid")


def make(copy: Copy, claim: ProofRequest, of: Sequence[tuple[str, Origin]], trust: Trust) -> ProofFile:
    """Return the proof of `claim` over these (stream, origin). Its holder needs the origins' public keys and nothing else.

    If other origins signed something, the proof names an origin that never did, and does not show its records. Raises Corrupt when the copy
    is not what was signed, Misuse when too little of it is signed, or what was signed is not here.
    """
    sections, unsigned = list[Section](), list[tuple[str, Unsigned]]()
    for stream, origin in of:
        try:
            sections.append(_Maker(copy, claim, stream, origin, trust).section())
        except Unsigned as problem:
            unsigned.append((f"{stream} of {origin}", problem))
    if not sections:
        raise unsigned[0][1]
    readings, thinned = reported(readings_shown(sections))
    try:
        held = completeness(readings, claim.since_at_ms, claim.until_at_ms, claim.interval_ms, thinned)
    except ValueError as problem:
        raise Misuse(
            str(problem), hint="say with --interval-min how often it should report, or ask for a shorter span", code="interval_invalid"
        ) from problem
    span = (claim.since_at_ms, claim.until_at_ms)
    return ProofFile(FORMAT, claim.topic, *span, claim.interval_ms, sections, held.to_json(), [name for name, _ in unsigned]).sealed()


class _Maker:
    """Builder of one section of one proof."""

    def __init__(self, copy: Copy, claim: ProofRequest, stream: str, origin: Origin, trust: Trust) -> None:
        self._copy, self._claim, self._stream, self._origin = copy, claim, stream, origin
        found = reach(copy, stream, origin, (claim.since_at_ms, claim.until_at_ms), trust)
        self._start, self._end, self._signed = found.start, found.end, found.signed

    def section(self) -> Section:
        """Return the section with every run from the start to the end."""
        first = self._start.runs if self._start else 0
        runs = [self._run(number, rows) for number, rows in self._whole_runs(first * RUN)]
        start = self._start.body() if self._start else None
        return Section(self._stream, str(self._origin), start, self._end.body(), runs)

    def _whole_runs(self, first: int) -> Iterator[tuple[int, list[pa.RecordBatch] | None]]:
        """Yield each run's number and rows, the open one's up to the end; None where not all of its rows can be read."""
        parts: list[pa.RecordBatch] = []
        whole, at = True, first
        for part in self._copy.rows(self._stream, self._origin, first, self._end.end):
            part_end = part.end if isinstance(part, UnreadRows) else at + part.num_rows
            start = at
            while at < part_end:
                upto = min(part_end, (at // RUN + 1) * RUN)
                if isinstance(part, UnreadRows):
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
                code="records_altered",
            )
        index, there = tree.place(self._claim.topic)
        if not there:
            return _absent(number, root, tree, index)
        values = [row for part in rows for row in part.filter(pc.equal(part.column(TOPIC), self._claim.topic)).to_pylist()]
        shown = [self._row(row, *entry) for row, entry in zip(values, entries_of(tree.entries[self._claim.topic]), strict=True)]
        return Present(number, to_text(root), len(tree.leaves), PathForm.of(tree.path(index, index + 1)), shown)

    def _root(self, number: int, tree: Tree | None) -> bytes | None:
        if number == self._end.runs:
            return self._end.tail
        root = self._signed.root(number, tree.root() if tree else UNKNOWN)
        if root is None:
            raise Misuse(
                f"what was signed of run {number} of {self._stream}:{self._origin} is not in this copy",
                hint=f"{self._stream}.heads is trimmed too far here: make the proof at a copy that goes further back",
                code="statements_trimmed",
            )
        return root

    def _row(self, row: dict[str, Value | None], order_at_ms: int, digest: bytes) -> ShownRow | WithheldRow:
        if self._claim.since_at_ms <= order_at_ms < self._claim.until_at_ms:
            return ShownRow(to_cells(row))
        return WithheldRow(order_at_ms, to_text(digest))

    def _not_shown(self, number: int, root: bytes | None) -> NotShown:
        first, end = number * RUN, min((number + 1) * RUN, self._end.end)
        ledger = self._copy.log.ledger(self._stream).get(self._origin, OriginLedger())
        unheard = "unreadable" if ledger.held.covers(first, end) else "wanted"
        why = next((gap.why for gap in lacks(self._origin, ledger) if gap.first < end and first < gap.end), unheard)
        return NotShown(number, to_text(root or UNKNOWN), UNREAD_BY_ORIGIN if root in (None, UNKNOWN) else why)


def _absent(number: int, root: bytes, tree: Tree, index: int) -> Absent:
    """Return the proof that a topic whose leaf would have this number has none."""
    count = len(tree.leaves)
    left = LeafForm.of(tree.leaves[index - 1]) if index else None
    right = LeafForm.of(tree.leaves[index]) if index < count else None
    path = tree.path(index - 1 if left else index, index + 1 if right else index)
    return Absent(number, to_text(root), count, PathForm.of(path), left, right)


def signed_by_origins(copy: Copy, topic: str, streams: Sequence[str], since_at_ms: int, until_at_ms: int) -> list[tuple[str, Origin]]:
    """Return the (stream, origin) of `streams` in which this copy holds records of the topic in the span. Where they were thinned, return
    also the streams from which thinning took records and in which it kept some. The topic may have no records left in the one, nor any in
    the other, and the proof must show that too."""
    rows = copy.log.history(topic, since_at_ms, until_at_ms, [stream for stream in streams if stream in copy.log.streams()]).rows
    pairs = _pairs(rows, "stream", "origin")
    thinned = {(stream, origin) for stream, origin in _pairs(rows, SOURCE_STREAM, SOURCE_ORIGIN) if stream in streams}
    pairs |= {(stream, origin) for stream, origin in thinned if origin in copy.log.ledger(stream + HEADS)}
    return sorted(pairs.union(*(_kept_origins(copy, stream, origin) for stream, origin in pairs)))


def _kept_origins(copy: Copy, stream: str, origin: Origin) -> set[tuple[str, Origin]]:
    """Return where the node of `origin` kept records of the stream when it thinned it, if it did."""
    ledger = copy.log.ledger(stream).get(origin, OriginLedger())
    kept = kept_of(stream)
    return (
        {(kept, kept_origin) for kept_origin in copy.log.ledger(kept + HEADS) if kept_origin.node == origin.node}
        if ledger.gone.get("thinned")
        else set()
    )


def _pairs(rows: pa.Table, *names: str) -> set[tuple[str, Origin]]:
    """Return the (stream, origin) that these columns name, where there are such columns."""
    if not set(names) <= set(rows.schema.names):
        return set()
    pairs = set()
    for stream, origin in set(zip(*(rows.column(name).to_pylist() for name in names), strict=True)):
        if stream is not None and origin is not None:
            with suppress(ValueError):  # what names no origin was kept of nothing
                pairs.add((stream, Origin.parse(origin)))
    return pairs
