"""Checker of a proof file that needs only the origins' public keys: what the file shows, what it does not, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.config.companion_streams import KEPT, kept_of, parent_of
from streams.integrity.base64_text import from_text
from streams.integrity.canonical_bytes import row_digest
from streams.integrity.completeness import Completeness, completeness, learned_interval_ms
from streams.integrity.hash_chain import RUN, UNKNOWN, first_head, next_head
from streams.integrity.key_trust import Trust
from streams.integrity.merkle_tree import Leaf, digest_of_rows, entry_bytes, topic_key
from streams.integrity.proof_file import Absent, NotShown, Present, ProofFile, Section, ShownRow, from_cells
from streams.integrity.report_intervals import Row, reported
from streams.integrity.signer import signed_at_once
from streams.integrity.statements import Statement
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from streams.model.records import OFFSET, ORDER_AT, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, TOPIC, Value, body_text

MAY_COME = ("wanted", "unreadable")
"""Reasons of runs that are not shown but whose records may still be there. The records that thinning kept of such a run do not replace
it."""


@dataclass(slots=True)
class SectionFinding:
    """Result of one section. `rows`: the records shown, as columns; `absent`: runs without the topic; `not_shown`: runs without an
    answer."""

    stream: str
    origin: str
    rows: list[Row] = field(default_factory=list)
    withheld: int = 0
    absent: int = 0
    not_shown: list[NotShown] = field(default_factory=list)
    start: Statement | None = None
    end: Statement | None = None

    @property
    def node(self) -> str:
        """Node that recorded the section's records."""
        return self.origin.partition("@")[0]

    def kept_of_runs(self) -> Iterator[tuple[str, str, int]]:
        """Yield the stream, origin and run of the source of each shown record that its own node kept when it thinned."""
        for row in self.rows if self.stream.endswith(KEPT) else ():
            match [row.get(name) for name in (SOURCE_STREAM, SOURCE_ORIGIN, SOURCE_OFFSET)]:
                case str(stream), str(origin), int(offset) if kept_of(stream) == self.stream and origin.partition("@")[0] == self.node:
                    yield stream, origin, offset // RUN


@dataclass(slots=True)
class ProofFinding:
    """Result of a proof file. It holds when `problems` is empty, and then only for what its sections and `completeness` show."""

    problems: list[str] = field(default_factory=list)
    proof: ProofFile | None = None
    sections: list[SectionFinding] = field(default_factory=list)
    completeness: Completeness | None = None
    learned_ms: int | None = None
    """Reporting interval in ms learned from the records shown, whatever the file claims."""

    @property
    def holds(self) -> bool:
        """Whether everything that the file claims is shown by it."""
        return not self.problems

    @property
    def shows_all(self) -> bool:
        """Whether no reading can be in a run that is not shown, except where shown records, signed by its node, were kept of the run.

        That a run was thinned is only the claim of the file's maker; a kept record in it is its node's own.
        """
        of_readings = [section for section in self.sections if not signed_at_once(parent_of(section.stream))]
        kept = {source for section in of_readings for source in section.kept_of_runs()}
        not_shown = ((section.stream, section.origin, run) for section in of_readings for run in section.not_shown)
        return all(run.why == "thinned" and (stream, origin, run.run) in kept for stream, origin, run in not_shown)


def check(data: bytes, trust: Trust) -> ProofFinding:
    """Check the bytes of a proof file against the keys in `trust`. It trusts nothing in them, and raises nothing whatever they are."""
    finding = ProofFinding()
    try:
        proof = finding.proof = ProofFile.from_bytes(data)
    except Corrupt as problem:
        finding.problems.append(str(problem))
        return finding
    for section in proof.sections:
        checked = _Checker(proof, section, trust, finding.problems)
        checked.run()
        finding.sections.append(checked.found)
    if not proof.sections:
        finding.problems.append("it shows nothing of any origin")
    if twice := len(proof.sections) - len({(section.stream, section.origin) for section in proof.sections}):
        finding.problems.append(f"{twice} of its sections are there twice")
    finding.problems += _check_completeness(proof, finding)
    if not proof.intact():
        finding.problems.append("the file was altered after it was made: its own digest is of other bytes")
    return finding


def readings_shown(sections: Sequence[Section]) -> Iterator[tuple[str, Row]]:
    """Yield the stream and columns of each reading that the sections show. A reading that thinning kept appears once, and not when its own
    run is shown or may still be there. Raises ValueError."""
    there = {
        (section.stream, section.origin, run.run)
        for section in sections
        for run in section.runs
        if not isinstance(run, NotShown) or run.why in MAY_COME
    }
    seen: set[tuple[Value | None, ...]] = set()
    for section in sections:
        for values in _readings(section):
            stream, origin, offset = source = tuple(values.get(name) for name in (SOURCE_STREAM, SOURCE_ORIGIN, SOURCE_OFFSET))
            if not section.stream.endswith(KEPT) or not isinstance(offset, int):
                yield section.stream, values
            elif source not in seen and (stream, origin, offset // RUN) not in there:
                seen.add(source)
                yield section.stream, values


def _readings(section: Section) -> Iterator[Row]:
    for run in () if signed_at_once(parent_of(section.stream)) else section.runs:
        for row in run.rows if isinstance(run, Present) else ():
            if isinstance(row, ShownRow):
                yield from_cells(row.row)


def _check_completeness(proof: ProofFile, finding: ProofFinding) -> Iterator[str]:
    """Count the completeness again, and yield where the file's claim differs."""
    try:
        readings, thinned = reported(readings_shown(proof.sections))
        counted = completeness(readings, proof.since_at_ms, proof.until_at_ms, proof.interval_ms, thinned)
    except ValueError as problem:
        yield f"its completeness can not be counted: {problem}"
        return
    finding.completeness, finding.learned_ms = counted, learned_interval_ms(readings, thinned)
    if body_text(counted.to_json()) != body_text(proof.completeness):
        yield f"it says of completeness {body_text(proof.completeness)}, its records say {body_text(counted.to_json())}"


class _Checker:
    """Check of one section, from its start to its end."""

    def __init__(self, proof: ProofFile, section: Section, trust: Trust, problems: list[str]) -> None:
        self._proof, self._section, self._trust, self._problems = proof, section, trust, problems
        self._last_offset = -1
        self.found = SectionFinding(section.stream, section.origin)

    def run(self) -> None:
        """Check the section, and add everything that is wrong to the problems."""
        try:
            origin = Origin.parse(self._section.origin)
            self.found.end = end = self._statement(self._section.end, origin)
            self.found.start = start = None if self._section.start is None else self._statement(self._section.start, origin)
        except (Corrupt, ValueError) as problem:
            self._say(str(problem))
            return
        if start is not None and start.newest_at_ms >= self._proof.since_at_ms:
            self._say("it starts where records of its span may already have been")
        head, number = (start.head, start.runs) if start else (first_head(end.stream, origin), 0)
        for run in self._section.runs:
            if run.run != number:
                self._say(f"run {number} is left out, or out of its order")
                return
            root = self._root(run)
            if number < end.runs:
                head = next_head(head, root, number)
            elif number > end.runs or root != (end.tail or UNKNOWN):
                self._say(f"run {number} is not what its origin signed last")
            number += 1
        if number != -(-end.end // RUN):
            self._say(f"it ends before run {number}, its origin signed up to offset {end.end - 1}")
        elif head != end.head:
            self._say("its runs do not lead to the head that its origin signed")

    def _say(self, problem: str) -> None:
        sentence = f"{self._section.stream} of {self._section.origin}: {problem}"
        if sentence not in self._problems:
            self._problems.append(sentence)

    def _statement(self, body: dict[str, Any], origin: Origin) -> Statement:
        statement = Statement.from_body(self._section.stream, origin, body_text(body))
        if body_text(statement.body()) != body_text(body):
            raise ValueError("a statement is not in its one form")
        if origin.node not in self._trust.keys:
            self._say(f"no key of {origin.node} was given")
        elif problem := self._trust.problem(statement):
            self._say(problem)
        return statement

    def _root(self, run: Present | Absent | NotShown) -> bytes:
        """Return the run's root as the file has it, after checking everything that the file claims of the run against it."""
        try:
            root = from_text(run.root, "its root")
            match run:
                case Present():
                    self._present(run, root)
                case Absent():
                    self._absent(run, root)
                case NotShown():
                    self.found.not_shown.append(run)
            return root
        except ValueError as problem:
            self._say(f"run {run.run}: {problem}")
            return UNKNOWN

    def _present(self, run: Present, root: bytes) -> None:
        rows = b"".join(self._entry(run, row) for row in run.rows)
        if not run.rows or run.path.path(run.leaves).root(Leaf(topic_key(self._proof.topic), digest_of_rows(rows))) != root:
            raise ValueError(f"its records are not those its root {run.root} stands for")

    def _entry(self, run: Present, row: Any) -> bytes:
        if not isinstance(row, ShownRow):
            self.found.withheld += 1
            if self._in_span(row.order_at_ms):
                raise ValueError(f"a record of {row.order_at_ms} ms, inside the span, is withheld")
            return entry_bytes(row.order_at_ms, from_text(row.digest, f"the digest of a record of {row.order_at_ms} ms"))
        values = from_cells(row.row)
        at_ms, offset = values.get(ORDER_AT), values.get(OFFSET)
        if not isinstance(at_ms, int) or not isinstance(offset, int) or values.get(TOPIC) != self._proof.topic:
            raise ValueError("a record is not of the topic, or lacks its place")
        if not self._in_span(at_ms):
            raise ValueError(f"the record at offset {offset} is outside the span")
        if offset // RUN != run.run or offset <= self._last_offset:
            raise ValueError(f"the record at offset {offset} is out of its place")
        self._last_offset = offset
        self.found.rows.append(values)
        return entry_bytes(at_ms, row_digest(values))

    def _absent(self, run: Absent, root: bytes) -> None:
        sides = [one.leaf() for one in (run.left, run.right) if one is not None]
        if not sides:
            raise ValueError("nothing shows that the topic is not in it")
        if run.path.path(run.leaves).root(*sides) != root:
            raise ValueError(f"the topics next to it are not under its root {run.root}")
        key = topic_key(self._proof.topic)
        after_left = run.path.index == 0 if run.left is None else run.left.leaf().key < key
        before_right = run.path.index + 1 == run.leaves if run.right is None else key < run.right.leaf().key
        if not (after_left and before_right):
            raise ValueError("the topics next to it do not show that this one is not in it")
        self.found.absent += 1

    def _in_span(self, at_ms: int) -> bool:
        return self._proof.since_at_ms <= at_ms < self._proof.until_at_ms
