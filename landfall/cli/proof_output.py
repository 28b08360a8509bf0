"""Verdicts on copies and proof files in words that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from landfall.cli.number_format import many, minutes, utc
from landfall.cli.table_output import Row
from streams.config.companion_streams import KEPT
from streams.integrity.completeness import Completeness
from streams.integrity.copy_verifier import Verdict
from streams.integrity.proof_checker import ProofFinding, SectionFinding
from streams.integrity.signing_keys import key_text
from streams.integrity.statements import Statement
from streams.model.records import LATE_MS_MAX


def verdict_words(verdict: Row) -> Iterator[str]:
    """Yield the text of a verdict's row: one line on the whole, one for each problem, one for each unproven range."""
    proven = sum(end - first for first, end in verdict["proven"])
    wrong = {"BROKEN": verdict["broken"], "NOT BELIEVED": verdict["problems"], "NOT PROVEN": verdict["lacking"]}
    what = next((word for word, found in wrong.items() if found), "proven" if proven else "unproven")
    signed_at_ms = verdict["signed_at_ms"]
    when = "" if signed_at_ms is None else f"; signed up to offset {verdict['signed_end'] - 1:,} at {utc(signed_at_ms)}"
    yield f"{what:12}  {verdict['stream']}:{verdict['origin']}  {many(proven, 'record')} {_are(proven)} what was signed{when}"
    if verdict["keys"]:
        yield f"    key {', '.join(verdict['keys'])}, by {verdict['trust']}"
    for doubt in verdict["broken"]:
        yield f"    BROKEN: {_where(doubt)}"
    for problem in verdict["problems"]:
        yield f"    NOT BELIEVED: {problem}"
    for doubt in verdict["unproven"]:
        yield f"    {'NOT PROVEN' if doubt in verdict['lacking'] else 'unproven'}: {_range(doubt)}, {doubt['why']}"


def verdict_row(verdict: Verdict) -> Row:
    """Return all fields of a verdict; ranges of offsets end before `end`."""
    return {
        "stream": verdict.stream,
        "origin": str(verdict.origin),
        "holds": verdict.holds,
        "proven": list(verdict.proven),
        "broken": [{"first": one.first, "end": one.end, "why": one.why, "offsets": list(one.offsets)} for one in verdict.broken],
        "unproven": [{"first": one.first, "end": one.end, "why": one.why} for one in verdict.unproven],
        "lacking": [{"first": one.first, "end": one.end, "why": one.why} for one in verdict.lacking],
        "problems": verdict.problems,
        "keys": sorted(map(key_text, verdict.keys)),
        "trust": verdict.trust,
        "signed_end": verdict.signed_end,
        "signed_at_ms": verdict.signed_at_ms,
    }


def finding_words(finding: ProofFinding) -> Iterator[str]:
    """Yield what a proof file shows, what it does not show, and what is wrong with it."""
    proof = finding.proof
    if finding.problems:
        yield "NOT PROVEN. What is wrong:"
        yield from (f"  - {problem}" for problem in finding.problems)
        return
    if proof is None:
        return
    rows = sum(len(section.rows) for section in finding.sections)
    signed = [section.end for section in finding.sections if section.end is not None]
    short = any(end.at_ms < proof.until_at_ms for end in signed)
    span = "on, as far as it is signed," if short else f"until {utc(proof.until_at_ms)}"
    yield f"PROVEN: {many(rows, 'record')} of {proof.topic} from {utc(proof.since_at_ms)} {span} {_are(rows)}, to the byte,"
    yield "what their origins recorded and signed, and no other that they had when they signed (see below) is left out of the runs shown."
    for section in finding.sections:
        yield from _section_words(section, proof.until_at_ms)
    if finding.completeness is not None:
        yield "Counted from the records shown" + (", what nobody had signed yet as missing:" if short else ":")
        row = completeness_row(proof.topic, finding.completeness)
        yield from (f"  {line}" for line in completeness_words(row, shows_all=finding.shows_all, by=_interval_by(finding)))
        if any(section.rows for section in finding.sections if section.stream.endswith(KEPT)):
            yield "  thinned: between the first and last kept reading of a window; kept ones count as in time, when they came is unknown"
    yield "What this does not show:"
    yield "  - that a sensor measured rightly, or that a clock on board was right"
    yield f"  - what reached an origin after it signed: {_later(signed, proof.until_at_ms + LATE_MS_MAX)}"
    yield "  - what other ships or quays recorded, or the same under another generation (a log goes on under a new one after a loss)"
    yield from (f"  - the records of {name}, which never signed them: the word of who made the file" for name in proof.unsigned)
    yield "  - what else is in the runs shown: other topics' names and records, and this one's outside the span, are not in the file"
    if proof.interval_ms is not None:
        yield f"  - that there should be a reading every {minutes(proof.interval_ms)}: that is the word of who made the file"
    if any(section.not_shown for section in finding.sections):
        yield "  - anything of the runs not shown; why they are not, thinned or else, is the word of who made the file"


def completeness_row(topic: str, found: Completeness) -> Row:
    """Return all counts of a topic's readings."""
    counted = found.to_json()
    silence = counted.pop("longest_silence")
    return {"topic": topic, **counted, **{f"longest_silence_{name}": at_ms for name, at_ms in silence.items()}}


def completeness_words(counted: Row, *, shows_all: bool = True, by: str = "") -> Iterator[str]:
    """Yield the text of such a row: how much of what should have been reported is there, and the longest silence.

    `shows_all`: whether no reading may be in runs that are not shown. `by`: the source of the expected interval.
    """
    if counted["interval_ms"] is None:
        yield f"{many(counted['held'], 'reading')} held; how often there should be one is not known"
    else:
        missing = "missing" if shows_all else "missing or in runs that are not shown"
        names = {"held": "held", "thinned": "thinned", "missing": missing, "late": "late"}
        counts = ", ".join(f"{counted[name]:,} {word}" for name, word in names.items())
        yield f"{many(counted['expected'], 'reading')} expected, one every {minutes(counted['interval_ms'])}{by}: {counts}"
    since, until = counted["longest_silence_since_at_ms"], counted["longest_silence_until_at_ms"]
    doubt = "" if shows_all else "; readings of it may stand in runs that are not shown"
    yield f"longest silence {minutes(until - since)}, from {utc(since)} to {utc(until)}{doubt}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _interval_by(finding: ProofFinding) -> str:
    """Return the source of the expected interval, where the file itself gives it; and what interval its records show."""
    if finding.proof is None or finding.proof.interval_ms is None:
        return ""
    learned_ms = finding.learned_ms
    shown = "unknown" if learned_ms is None else f"one every {minutes(learned_ms)}"
    return f" (as who made the file says; from the records shown: {shown})"


def _section_words(section: SectionFinding, until_at_ms: int) -> Iterator[str]:
    if section.end is None:
        return
    shown, absent = many(len(section.rows), "record"), many(section.absent, "run")
    yield f"  {section.stream} of {section.origin}: {shown}, {absent} in which it does not appear"
    yield f"    signed at {utc(section.end.at_ms)} with {key_text(section.end.key)}, up to offset {section.end.end - 1:,}"
    if section.end.at_ms < until_at_ms:
        yield f"    NOT SHOWN: what it recorded from then until {utc(until_at_ms)}"
    for _, same in groupby(enumerate(section.not_shown), lambda one: (one[1].run - one[0], one[1].why)):
        first, *others = (run for _, run in same)
        which = f"runs {first.run:,} to {others[-1].run:,}" if others else f"run {first.run:,}"
        yield f"    not shown: {which} ({first.why})"


def _later(signed: Sequence[Statement], settled_at_ms: int) -> str:
    """Return a sentence on whether anything of the span may have come after these statements. A reading received at `settled_at_ms` is too
    late for that.
    """
    if any(end.at_ms < settled_at_ms for end in signed):
        return f"readings of this time are taken until {utc(settled_at_ms)}, if they come so late"
    return "by its clock that is too late to be of this time"


def _where(doubt: Row) -> str:
    if not doubt["offsets"]:
        return f"the first offset that is {doubt['why']} is one of {_range(doubt)}, where more records differ than can be named"
    first, *others = (f"{offset:,}" for offset in doubt["offsets"])
    also = f"; of those up to {doubt['end'] - 1:,} also {' '.join(others)}" if others else ""
    return f"the first offset that differs is {first}: {doubt['why']}{also}"


def _range(doubt: Row) -> str:
    return f"{doubt['first']:,}..{doubt['end'] - 1:,}"
