"""Check of a copy against what its origins signed: rows are proven, unproven with a reason, or broken at a known place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from streams.integrity.altered_records import located
from streams.integrity.copy_reader import DAMAGED, Copy, UnreadRows
from streams.integrity.hash_chain import RUN, UNKNOWN, entries, first_head, next_head
from streams.integrity.key_trust import Trust
from streams.integrity.merkle_tree import Entry, Tree
from streams.integrity.signer import is_signed
from streams.integrity.statements import Said, Statement, statements
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import RECEIVED_AT

UNSIGNED = "not signed yet, or what was signed is not here"
NEVER = "of a stream that is never signed"
PARTLY_HELD = "not all of its run is held here"
ALTERED = "not what the origin signed"
FORKED = "its origin signed two different contents for these offsets"
UNHEARD = "acted upon, its origin's key is known, and nothing that it signed of it is here"
UNREAD_BY_ORIGIN = "the origin itself could no longer read this run when it came to sign it"
MARKS_MAX = 256
"""Maximum number of statements within one run against which its rows are checked. Of more, that many are used, evenly spread, and the
last."""

Mark = tuple[int, bytes]
"""Statement within a run: its end, and the root of the run's rows before that end."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Offsets `first .. end - 1`, and what is wrong with them. `offsets`: the offsets among them that are known to differ, ascending."""

    first: int
    end: int
    why: str
    offsets: tuple[int, ...] = ()


@dataclass(slots=True)
class Verdict:
    """Result of the check of one copy of (stream, origin). `proven`: rows that are, to the byte, what the origin signed.

    `broken`: the rows that are not. The first offset that differs is the first of the doubt's `offsets`. Where more records differ than the
    sums of the origin can locate, the first differing offset lies in the range. `problems`: why statements are not accepted; `unbelieved`:
    their offsets in `<stream>.heads`, each with the bytes that distinguish it from others. `signed_end`, `signed_at_ms`: the last accepted
    statement. `trust`: the source of the origin's key. `lacking`: the part of `unproven` that must be proven: bytes of this copy that do
    not verify, and what is demanded (`demand`).
    """

    stream: str
    origin: Origin
    trust: str
    proven: RangeSet = field(default_factory=RangeSet)
    unproven: list[Doubt] = field(default_factory=list)
    lacking: list[Doubt] = field(default_factory=list)
    broken: list[Doubt] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unbelieved: dict[int, bytes] = field(default_factory=dict)
    keys: frozenset[bytes] = frozenset()
    signed_end: int = 0
    signed_at_ms: int | None = None

    @property
    def holds(self) -> bool:
        """Whether nothing here contradicts what was signed, and nothing lacks a demanded proof. Other unproven rows do not matter."""
        return not self.broken and not self.problems and not self.lacking


@dataclass(slots=True)
class SignedHeads:
    """All accepted statements of one (stream, origin): roots of closed runs, heads by number of runs, roots of open runs by end, and sums
    by the end and root with which they were signed."""

    roots: dict[int, bytes] = field(default_factory=dict)
    heads: dict[int, bytes] = field(default_factory=dict)
    tails: dict[int, list[Mark]] = field(default_factory=dict)
    sums: dict[Mark, bytes] = field(default_factory=dict)
    forks: list[Doubt] = field(default_factory=list)

    def add(self, one: Statement) -> None:
        """Add one statement; call it in the order signed."""
        head = self.heads.get(one.since_run)
        for run, root in enumerate(one.roots, one.since_run):
            self._agree(self.roots.setdefault(run, root) == root, run * RUN, (run + 1) * RUN)
            head = None if head is None else next_head(head, root, run)
        self._agree(head in (None, one.head) and self.heads.setdefault(one.runs, one.head) == one.head, one.since_run * RUN, one.end)
        if one.tail is not None:
            tails = self.tails.setdefault(one.runs, [])
            same = [root for end, root in tails if end == one.end]
            before = max((end for end, _ in tails if end < one.end), default=one.runs * RUN)
            self._agree(same in ([], [one.tail]), before, one.end)
            if not same:
                tails.append((one.end, one.tail))
        closed = [((run + 1) * RUN, root) for run, root in enumerate(one.roots, one.since_run)]
        marks = closed if one.tail is None else [*closed, (one.end, one.tail)]
        self.sums.update(zip(marks, one.sums, strict=bool(one.sums)))

    def root(self, run: int, tree: bytes) -> bytes | None:
        """Return the root that the origin signed for the closed `run`, directly or through the heads around it (`tree` is then tried); None
        when unknown."""
        if run in self.roots:
            return self.roots[run]
        before, after = self.heads.get(run), self.heads.get(run + 1)
        return tree if before and after and next_head(before, tree, run) == after else None

    def forget(self, run: int) -> None:
        """Remove what is known of the runs before `run`, which is not needed again."""
        for said in (self.roots, self.heads, self.tails):
            for number in [number for number in said if number < run]:
                del said[number]
        self.sums = {mark: sums for mark, sums in self.sums.items() if mark[0] > run * RUN}

    def _agree(self, same: bool, first: int, end: int) -> None:
        if not same:
            self.forks.append(Doubt(first, end, FORKED))


def gather(verdict: Verdict, said: Iterable[Said], trust: Trust, signed: SignedHeads | None = None) -> SignedHeads:
    """Return the accepted statements in addition to those in `signed`.

    Other statements go to the verdict's `problems`, contradictions to its `broken`.
    """
    signed = signed or SignedHeads(heads={0: first_head(verdict.stream, verdict.origin)})
    known = len(signed.forks)
    for at, one in said:
        problem = str(one) if isinstance(one, Corrupt) else trust.problem(one)
        if isinstance(one, Corrupt) or problem:
            verdict.problems.append(str(problem))
            verdict.unbelieved[at] = b"" if isinstance(one, Corrupt) else one.signature
            continue
        signed.add(one)
        verdict.keys |= {one.key}
        if one.end >= verdict.signed_end:
            verdict.signed_end, verdict.signed_at_ms = one.end, one.at_ms
    verdict.broken += signed.forks[known:]
    return signed


def verify(copy: Copy, stream: str, origin: Origin, trust: Trust) -> Verdict:
    """Check every row of (stream, origin) in this copy against what the origin signed, by the statements that this copy has.

    Runs that are gone or below the floor do not matter: each run is checked against its own root. Raises what reading the log raises.
    """
    verdict = Verdict(stream, origin, trust.of(origin.node))
    ledger = copy.log.ledger(stream).get(origin)
    held = RangeSet() if ledger is None else ledger.held
    if not is_signed(stream):
        verdict.unproven += [Doubt(first, end, NEVER) for first, end in held]
        return verdict
    judge(copy, verdict, gather(verdict, statements(copy, stream, origin), trust), held)
    verdict.lacking += [doubt for doubt in verdict.unproven if doubt.why.startswith(DAMAGED)]
    return verdict


def demand(copy: Copy, verdict: Verdict, until_at_ms: int | None = None) -> None:
    """Require a proof for every record held here that its origin received before `until_at_ms` (None: every record). The verdict then holds
    only if all are proven. It does not concern records that are not held. Rows whose received time can not be read are demanded too."""
    for doubt in (one for one in verdict.unproven if one not in verdict.lacking):  # its first row was received first
        first = None if until_at_ms is None else next(copy.rows(verdict.stream, verdict.origin, doubt.first, doubt.first + 1))
        if until_at_ms is None or first is None or isinstance(first, UnreadRows) or first.column(RECEIVED_AT)[0].as_py() < until_at_ms:
            verdict.lacking.append(doubt)


def judge(copy: Copy, verdict: Verdict, signed: SignedHeads, held: RangeSet, begun: HeldRun | None = None) -> HeldRun | None:
    """Check these offsets against what was signed. A run is judged by its rows among them.

    Returns the last run if it has no hole. When it is passed as `begun` the next time, its rows are not read again. They must be among
    `held` and unchanged.
    """
    run = begun
    for run in _runs(copy, verdict.stream, verdict.origin, held, begun):
        _judge(verdict, signed, run)
    return run if run is not None and not run.beyond else None


@dataclass(slots=True)
class HeldRun:
    """Held rows of one run: those from its first offset on without a hole, and what comes behind the first hole. `kept`: the statements
    that its rows were found to match."""

    number: int
    rows: list[Entry] = field(default_factory=list)
    beyond: list[Doubt] = field(default_factory=list)
    kept: set[Mark] = field(default_factory=set)

    @property
    def first(self) -> int:
        return self.number * RUN

    @property
    def end(self) -> int:
        return self.first + len(self.rows)


def _runs(copy: Copy, stream: str, origin: Origin, held: RangeSet, begun: HeldRun | None) -> Iterator[HeldRun]:
    """Yield every run of which anything is held, read once. The first one continues `begun`."""
    run = begun
    for first, end in held if begun is None else held.within(begun.end, held.end()):
        at = first
        for part in copy.rows(stream, origin, first, end):
            part_end = part.end if isinstance(part, UnreadRows) else at + part.num_rows
            start = at
            while at < part_end:
                if run is None or run.number != at // RUN:
                    if run is not None:
                        yield run
                    run = HeldRun(at // RUN)
                upto = min(part_end, (at // RUN + 1) * RUN)
                if isinstance(part, UnreadRows):
                    run.beyond.append(Doubt(at, upto, part.why))
                elif run.end == at and not run.beyond:
                    run.rows += entries(part.slice(at - start, upto - at))  # a run at a time spares memory
                else:
                    run.beyond.append(Doubt(at, upto, PARTLY_HELD))
                at = upto
    if run is not None:
        yield run


def _judge(verdict: Verdict, signed: SignedHeads, run: HeldRun) -> None:
    marks = [mark for mark in sorted(signed.tails.get(run.number, [])) if mark[0] <= run.end]
    why = UNSIGNED if not run.beyond else PARTLY_HELD
    if len(run.rows) == RUN:
        root = signed.root(run.number, Tree(run.rows).root())
        if root == UNKNOWN:
            why = UNREAD_BY_ORIGIN
        elif root is not None:
            marks.append((run.end, root))
    proven, mark, why_broken = _held_to(run, marks)
    verdict.unproven += run.beyond
    if mark:
        offsets = _differing(run, proven, mark, signed.sums.get(mark))
        if offsets and offsets[0] < proven:  # it signed these rows, and others in their place
            proven, why_broken = offsets[0], FORKED
        verdict.broken.append(Doubt(proven, mark[0], why_broken, offsets))
    verdict.proven.add(run.first, proven)
    judged = max(proven, mark[0] if mark else 0)
    if judged < run.end:
        verdict.unproven.append(Doubt(judged, run.end, why))


def _differing(run: HeldRun, proven: int, mark: Mark, sums: bytes | None) -> tuple[int, ...]:
    """Return the offsets that differ from what was signed up to `mark`; none when the sums can not locate them."""
    places = located(run.rows[: mark[0] - run.first], sums) if sums is not None else []
    return tuple(run.first + place for place in places) or ((proven,) if mark[0] - proven == 1 and sums is None else ())


def _held_to(run: HeldRun, marks: Sequence[Mark]) -> tuple[int, Mark | None, str]:
    """Return the end of the rows that match what was signed. Unless all match, return also the first mark that they do not match, and
    why."""
    few = marks[::-1][:: len(marks) // MARKS_MAX + 1][::-1]
    kept = [_kept(run, mark) for mark in few]
    if all(kept):
        return (few[-1][0] if few else run.first), None, ""
    false = kept.index(False)
    after = few[false - 1][0] if false else run.first
    for mark in marks:
        if after < mark[0] <= few[false][0]:
            if not _kept(run, mark):
                return after, mark, FORKED if any(kept[false:]) else ALTERED
            after = mark[0]
    raise AssertionError(f"a mark of run {run.number} is kept at one time and not at another")


def _kept(run: HeldRun, mark: Mark) -> bool:
    end, root = mark
    if mark not in run.kept and Tree(run.rows[: end - run.first]).root() == root:
        run.kept.add(mark)
    return mark in run.kept
