"""Check of new records in a copy against what their origins sign, as the records come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from streams.config.companion_streams import HEADS
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import UNHEARD, Doubt, HeldRun, SignedHeads, Verdict, gather, judge
from streams.integrity.hash_chain import RUN, first_head
from streams.integrity.key_trust import NOBODY, Trust, pinned_in, registry_trust
from streams.integrity.signer import signed_at_once
from streams.integrity.statements import Said, Statement, statements
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet

ROWS_A_STEP_MAX = 50_000
"""Maximum number of records checked against their signatures in one step: ingest takes precedence on the machine."""
OPEN_RUNS_MAX = 64
"""Maximum number of open runs in memory (up to some 0.5 MB each), those that grew last: only their new rows must be read."""
UNHEARD_STEPS = 3
"""Number of steps without any statement from an origin on records that are acted upon, after which the audit reports it."""
DOUBTED_MAX = 1_024
"""Maximum number of unbelieved statements of one (stream, origin) that are requested again; the audit reports further ones and leaves
them."""


@dataclass(slots=True)
class _Watched:
    """State of one (stream, origin): what was signed, which offsets of the heads were read, and the first run without a final verdict.

    `doubted`: what was requested again, as named by the verdict's `unbelieved`.
    """

    signed: SignedHeads
    heads_read: RangeSet = field(default_factory=RangeSet)
    run: int = 0
    seen: tuple[int, int] = (0, 0)
    reported: set[tuple[int, int, str]] = field(default_factory=set)
    problems: set[str] = field(default_factory=set)
    doubted: set[tuple[int, bytes]] = field(default_factory=set)


class Watch:
    """Audit that judges each run once, as soon as it is here and signed, and the open run further as it grows. Call one step at a time.

    It keeps nothing on disk: after a restart it begins at each floor again, a step at a time.
    """

    def __init__(
        self,
        copy: Copy,
        own: Callable[[], Origin | None] = lambda: None,
        given: Trust = NOBODY,
        introduced: Callable[[], Trust] = lambda: NOBODY,
    ) -> None:
        """`own`: the origin under which this process appends. It signs those rows as it writes them, so the audit skips them.

        `given`: keys that take precedence over the keys in the copy itself; `introduced`: keys that rank below those.
        """
        self._copy, self._own, self._given, self._introduced = copy, own, given, introduced
        self._watched: dict[tuple[str, Origin], _Watched] = {}
        self._open: dict[tuple[str, Origin], HeldRun] = {}
        self._brought_again: deque[tuple[str, Origin, int]] = deque()
        self._unheard: dict[tuple[str, Origin], int] = {}
        self._trust = Trust()
        self._trusted_at: tuple[list[Position], int, Trust] | None = None

    def step(self) -> list[Verdict]:
        """Judge what is new, at most ROWS_A_STEP_MAX records; return the verdicts with broken or unbelieved parts not reported before.

        Raises what reading the log raises.
        """
        while self._brought_again:
            self.again(*self._brought_again.popleft())
        verdicts: list[Verdict] = []
        trust, rows = self._known_keys(), 0
        for stream, origin, seen in self._changed():
            if rows >= ROWS_A_STEP_MAX:
                break
            verdict, judged = self._judged(stream, origin, trust, seen, ROWS_A_STEP_MAX - rows)
            rows += judged
            if verdict.broken or verdict.problems or verdict.unbelieved:
                verdicts.append(verdict)
        return [*verdicts, *self._unheard_of(trust)]

    def lost(self, stream: str, origin: Origin, first: int) -> None:
        """Note that offset `first`, which was held, is not held any more and will be brought again. May be called from any thread at any
        time."""
        self._brought_again.append((stream, origin, first))

    def again(self, stream: str, origin: Origin, first: int) -> None:
        """Judge and report again what is held from offset `first` on, because it has changed."""
        self._open.pop((stream, origin), None)
        old = self._watched.get((stream, origin))
        if old is not None:
            reported = {doubt for doubt in old.reported if doubt[1] <= first}
            signed = SignedHeads(heads={0: first_head(stream, origin)})
            run = min(old.run, first // RUN)
            self._watched[stream, origin] = _Watched(signed, run=run, reported=reported, problems=old.problems, doubted=old.doubted)

    def heads_again(self, stream: str, origin: Origin, offset: int, asked: bytes | None) -> None:
        """Read this offset of its heads again when it is brought. `asked`: what was there and was requested again, if it could be. If
        exactly the same comes once more, the origin wrote it: it stays, and is not accepted."""
        watched = self._watched[stream, origin]
        watched.heads_read.remove(offset, offset + 1)
        if asked is not None:
            watched.doubted.add((offset, asked))

    def _known_keys(self) -> Trust:
        """Return the known keys, looked up again when the registry, the number of nodes or the introduced nodes change."""
        positions = self._copy.log.positions()
        pinned = [positions[stream] for stream in pinned_in(positions)]
        introduced = self._introduced()
        at = (pinned, len({origin.node for position in positions.values() for origin in position}), introduced)
        if self._trusted_at != at:
            self._trust, self._trusted_at = self._given.before(registry_trust(self._copy.log)).before(introduced), at
        return self._trust

    def _unheard_of(self, trust: Trust) -> Iterator[Verdict]:
        """Yield, once each, what was admitted before the origin's key was known and what the origin never signed."""
        positions = self._copy.log.positions()
        for stream in filter(signed_at_once, positions):
            for origin, end in positions[stream].items():
                if end and origin != self._own() and origin.node in trust.keys and origin not in positions.get(stream + HEADS, ()):
                    steps = self._unheard[stream, origin] = self._unheard.get((stream, origin), 0) + 1
                    if steps == UNHEARD_STEPS:
                        yield Verdict(stream, origin, trust.of(origin.node), broken=[Doubt(0, end, UNHEARD)])

    def _changed(self) -> Iterator[tuple[str, Origin, tuple[int, int]]]:
        positions = self._copy.log.positions()
        doubted = [key for key, watched in self._watched.items() if watched.doubted]
        for heads, ends in sorted(positions.items(), key=lambda item: not signed_at_once(item[0].removesuffix(HEADS))):
            if heads.endswith(HEADS):
                stream = heads.removesuffix(HEADS)
                holed = {origin: self._copy.log.ledger(heads)[origin].held.count() for of, origin in doubted if of == stream}
                for origin, end in {**ends, **holed}.items():  # what comes behind a hole counts
                    watched = self._watched.get((stream, origin))
                    seen = (positions[stream][origin] if stream in positions else 0, end)
                    if watched is None or watched.seen != seen:
                        yield stream, origin, seen

    def _judged(self, stream: str, origin: Origin, trust: Trust, seen: tuple[int, int], rows_max: int) -> tuple[Verdict, int]:
        watched = self._watched.setdefault((stream, origin), _Watched(SignedHeads(heads={0: first_head(stream, origin)})))
        verdict = Verdict(stream, origin, trust.of(origin.node))
        gather(verdict, _read(watched, statements(self._copy, stream, origin, watched.heads_read.copy()), trust), trust, watched.signed)
        unbelieved = verdict.unbelieved.items() if len(watched.doubted) < DOUBTED_MAX else ()
        verdict.unbelieved = {at: signature for at, signature in unbelieved if (at, signature) not in watched.doubted}
        first, end = watched.run * RUN, max(watched.run + 1, watched.run + rows_max // RUN) * RUN
        ledger = self._copy.log.ledger(stream).get(origin)
        held = ledger.held.within(first, end) if ledger and origin != self._own() else None
        if held:
            self._judge_on(verdict, watched, held)
        if end >= seen[0]:
            watched.seen = seen
        while watched.run < min(end, seen[0]) // RUN and any(run > watched.run for run in watched.signed.heads):
            watched.run += 1  # it is here, and whatever is signed from now on is of later ones
        watched.signed.forget(watched.run)
        verdict.problems = [problem for problem in verdict.problems if problem not in watched.problems]
        watched.problems.update(verdict.problems)
        doubts, verdict.broken = verdict.broken, []
        for doubt in doubts:
            key = (doubt.first, doubt.end, doubt.why)
            if key not in watched.reported:
                watched.reported.add(key)
                verdict.broken.append(doubt)
        return verdict, held.count() if held else 0

    def _judge_on(self, verdict: Verdict, watched: _Watched, held: RangeSet) -> None:
        key = (verdict.stream, verdict.origin)
        begun = self._open.pop(key, None)
        if begun is not None and (begun.number != watched.run or held.within(begun.first, begun.end).count() != len(begun.rows)):
            begun = None
        if (run := judge(self._copy, verdict, watched.signed, held, begun)) is not None:
            self._open[key] = run
        if len(self._open) > OPEN_RUNS_MAX:
            del self._open[next(iter(self._open))]


def _read(watched: _Watched, said: Iterator[Said], trust: Trust) -> Iterator[Said]:
    """Yield `said` and record its offsets; return to earlier runs when a believed statement replaces another one.

    Those runs were judged without the statement."""
    behind = watched.heads_read.end()
    for at, one in said:
        watched.heads_read.add(at, at + 1)
        if at < behind and isinstance(one, Statement) and one.since_run < watched.run and trust.problem(one) is None:
            watched.run = one.since_run
        yield at, one
