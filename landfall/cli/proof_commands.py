"""`landfall log verify|proof|gaps|completeness` and `landfall proof`: the verification of a copy, shown to people, and taken to others."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from landfall.cli.key_arguments import Keys, given_trust, trust_among
from landfall.cli.list_output import List, ListColumn
from landfall.cli.log_commands import Folder, How, Output, Stream, Topic, log_app
from landfall.cli.log_folder import floors_why, known_stream, known_topic, opened
from landfall.cli.number_format import printable, read_at_ms, utc
from landfall.cli.proof_output import completeness_row, completeness_words, finding_words, verdict_row, verdict_words
from landfall.cli.table_output import Format, Row, check_output, say, whole_file, write, writing
from landfall.cli.unreadable_records import end_of_unread, unread_of_topic
from streams.codec import BlockCodec
from streams.config.companion_streams import HEADS
from streams.integrity.completeness import completeness
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import Verdict, demand, verify
from streams.integrity.key_trust import OWN_WORD, registry_trust
from streams.integrity.missing_ranges import Gap, gaps
from streams.integrity.proof_builder import ProofRequest, make, signed_by_origins
from streams.integrity.proof_checker import check
from streams.integrity.proof_file import ProofFile
from streams.integrity.report_intervals import reported
from streams.integrity.signer import is_signed
from streams.integrity.signing_keys import key_text
from streams.integrity.statements import last_statement
from streams.log import LogReader
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin
from streams.model.records import BODY, DEVICE, ORDER_AT, RECEIVED_AT, SOURCE_ORIGIN
from streams.retention.floor_reasons import dropped_elsewhere, in_words

proof_app = typer.Typer(help="Proof files: check one, with nothing but its origin's public key.", no_args_is_help=True)

Streams = Annotated[list[str] | None, typer.Option("--stream", "-s", help="This stream. May be repeated.")]
Since = Annotated[str, typer.Option("--since", help="From this time on (UTC): 2026-05-01 or 2026-05-01T04:00:00.")]
Until = Annotated[str, typer.Option("--until", help="Up to this time (UTC), itself not included.")]
IntervalMin = Annotated[
    float | None,
    typer.Option("--interval-min", help="Minutes between two readings that the device should send; by default learned from its readings."),
]
INTERVAL_MIN_MAX = 527_040
"""Maximum interval between readings, minutes: a year."""
READINGS = ("containers", "containers.kept", "ships", "events")

VERDICTS = List(
    (
        ListColumn.text("stream"),
        ListColumn.text("origin"),
        ListColumn("holds", "", str, pa.bool_()),
        ListColumn.lists("proven"),
        ListColumn.lists("broken"),
        ListColumn.lists("unproven"),
        ListColumn.lists("lacking"),
        ListColumn.lists("problems"),
        ListColumn.lists("keys"),
        ListColumn.text("trust"),
        ListColumn.count("signed_end"),
        ListColumn.time("signed_at_ms", ""),
    )
)
"""List of what `verify` shows of each origin of a stream. Each range of `proven` is the first offset that is proven, and the first that is
not any more.
"""
COMPLETENESS = List(
    (
        ListColumn.text("topic"),
        ListColumn.time("since_at_ms", ""),
        ListColumn.time("until_at_ms", ""),
        ListColumn.count("interval_ms"),
        ListColumn.count("expected"),
        ListColumn.count("held"),
        ListColumn.count("thinned"),
        ListColumn.count("missing"),
        ListColumn.count("late"),
        ListColumn.time("longest_silence_since_at_ms", ""),
        ListColumn.time("longest_silence_until_at_ms", ""),
    )
)
"""List of what `completeness` shows. Where no interval is known, expected, thinned, missing and late are null."""


@log_app.command("verify")
def verify_log(
    folder: Folder,
    stream: Streams = None,
    key: Keys = None,
    strict: Annotated[bool, typer.Option("--strict", help="Held records that are not proven are failures too.")] = False,
    until: Annotated[str | None, typer.Option("--until", help="With --strict: only records received before this time (UTC).")] = None,
    format_: How = Format.TEXT,
    output: Output = None,
) -> None:
    """Verify every record of this copy against its origin's signatures. Exits with 1 when any differs, and names it."""
    if until is not None and not strict:
        raise Misuse("--until says of which records a proof is demanded", hint="give --strict too", code="option_without_strict")
    until_at_ms = None if until is None else read_at_ms(until)
    with opened(folder, whole=True) as log:
        chosen = [known_stream(log, one) for one in stream] if stream else [one for one in log.streams() if is_signed(one)]
        lines = [(one, origin) for one in chosen for origin in sorted(log.ledger(one))]
        trust = trust_among(key or [], {origin.node for _, origin in lines}).before(registry_trust(log))
        copy = Copy(log, BlockCodec())
        verdicts: list[Verdict] = []

        def found() -> Iterator[pa.Table]:
            for one, origin in lines:
                verdict = verify(copy, one, origin, trust)
                if strict:
                    demand(copy, verdict, until_at_ms)
                verdicts.append(verdict)
                yield from VERDICTS.tables([verdict_row(verdict)])

        write(found, VERDICTS.in_words(verdict_words), format_, output)
        if not all(verdict.holds for verdict in verdicts):
            raise typer.Exit(1)


@log_app.command("proof")
def write_proof(
    topic: Topic,
    folder: Folder,
    since: Since,
    until: Until,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    stream: Streams = None,
    origin: Annotated[
        list[str] | None, typer.Option("--origin", help="Also show that this origin (node@generation) has nothing. May be repeated.")
    ] = None,
    interval_min: IntervalMin = None,
) -> None:
    """Write a proof file: it shows a container's records over a span, and that none is left out, to anyone who has the key."""
    check_output(Format.JSON, out)
    with opened(folder, whole=True) as log:
        copy = Copy(log, BlockCodec())
        topic = known_topic(log, topic)
        claim = ProofRequest(topic, read_at_ms(since), read_at_ms(until), _interval_ms(interval_min))
        streams = stream or [name for name in READINGS if name in log.streams()]
        named = [(name, _origin(text)) for text in origin or () for name in streams]
        sections = named or signed_by_origins(copy, topic, streams, claim.since_at_ms, claim.until_at_ms)
        if not sections:
            raise Misuse(
                f"nothing of {topic!r} is held here in that time",
                hint="to show that there was nothing, name whose log with --origin; see `landfall log ls`",
                code="nothing_held",
            )
        proof = make(copy, claim, sections, registry_trust(log))
        data = proof.to_bytes()
        with whole_file(out) as place:
            place.write_bytes(data)
        for section in proof.sections:
            if (signed_at_ms := section.end["at_ms"]) < claim.until_at_ms:
                say(f"{section.stream} of {section.origin} is signed only until {utc(signed_at_ms)}: what it recorded later is not shown")
        for name in proof.unsigned:
            say(f"{name} never signed what it has of {topic}: its records are not shown")
        keys = sorted({f"{origin_.node}={text}" for stream_, origin_ in sections for text in _keys_of(log, stream_, origin_)})
        sentence = f"{out}: {len(data):,} bytes; to be checked with {' '.join(f'--key {key}' for key in keys)}"
        say(sentence)


GAPS = List(
    (
        ListColumn.text("stream", "stream"),
        ListColumn.text("origin", "origin"),
        ListColumn.count("first", "from offset"),
        ListColumn("end", "to", lambda end: f"{end - 1:,}", pa.int64()),
        ListColumn.count("records", "records"),
        ListColumn("why", "why", lambda why: why.replace("_", " "), pa.string()),
        ListColumn("floor_why", "because", in_words, pa.string()),
        ListColumn.time("since_at_ms", "received after", unknown="?"),
        ListColumn.time("until_at_ms", "before", unknown="?"),
        ListColumn.text("dropped_at", "dropped at"),
    ),
    nothing="nothing that this copy knows of is missing (whether what is held reads: `landfall log check`)",
)
"""List of what `gaps` shows of each gap. For programs `first` is the first offset that is missing, `end` the first that is not.
`dropped_at`: of what is wanted, which nodes have reported that they keep it no more, each with its floor and why.
"""


@log_app.command("gaps")
def list_gaps(stream: Stream, folder: Folder, format_: How = Format.TEXT, output: Output = None) -> None:
    """List what this copy lacks of a stream: wanted, gone with the reason, and below the floor, with received times."""
    with opened(folder) as log:
        known_stream(log, stream)
        why, dropped = floors_why(folder, log, stream), dropped_elsewhere(log, stream)
        write(
            lambda: GAPS.tables(_gap_row(stream, gap, why.get(gap.origin), dropped.get(gap.origin, {})) for gap in gaps(log, stream)),
            GAPS.as_table(),
            format_,
            output,
        )


@log_app.command("completeness")
def show_completeness(
    topic: Topic,
    folder: Folder,
    since: Since,
    until: Until,
    interval_min: IntervalMin = None,
    format_: How = Format.TEXT,
    output: Output = None,
) -> None:
    """Count a container's readings in this copy: expected, held, missing, late, and the longest silence. For a proof use `landfall log
    proof`.

    Exits with 1 when a record of that time is of a newer version; it is named and counts as missing.
    """
    with opened(folder) as log:
        streams = [name for name in READINGS if name in log.streams() and name != "events"]
        topic = known_topic(log, topic)
        rows = log.history(topic, read_at_ms(since), read_at_ms(until), streams).rows
        try:
            readings, thinned = reported(_readings(rows))
            counted = completeness(readings, read_at_ms(since), read_at_ms(until), _interval_ms(interval_min), thinned)
        except ValueError as problem:
            raise Misuse(str(problem), hint="give --since before --until, and a likely --interval-min", code="span_invalid") from problem
        row = completeness_row(topic, counted)
        write(lambda: COMPLETENESS.tables([row]), COMPLETENESS.in_words(completeness_words), format_, output)
        end_of_unread(unread_of_topic(log, streams, read_at_ms(since), read_at_ms(until)))


@proof_app.command("check")
def check_proof(file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `landfall log proof`.")], key: Keys = None) -> None:
    """Check a proof file and print what it shows and what it does not. Exits with 1 when it shows nothing. Needs no log and no
    network.
    """
    try:
        data = file.read_bytes()
    except OSError as problem:
        raise Misuse(f"{file} can not be read: {problem.strerror}", hint="name the proof file", code="file_unavailable") from problem
    finding = check(data, given_trust(key or [], _nodes_in(data)))
    with writing(None):
        for line in finding_words(finding):
            sys.stdout.write(printable(line) + "\n")
    if not finding.holds:
        raise typer.Exit(1)


@proof_app.command("key")
def show_keys(folder: Folder) -> None:
    """List the public keys of the nodes that this copy knows, and their sources. Pass keys on by a trusted way."""
    with opened(folder, whole=True) as log:
        trust = registry_trust(log)
        own = {(node, text) for node, texts in signed_keys(log).items() for text in texts}
        pinned = {(node, key_text(one)) for node, keys in trust.keys.items() for one in keys}
        with writing(None):
            for node, text in sorted(own | pinned):
                sys.stdout.write(f"{node}={text}  # {trust.of(node) if (node, text) in pinned else OWN_WORD}\n")


def _gap_row(stream: str, gap: Gap, floor_why: str | None, dropped: Mapping[str, tuple[int, str]]) -> Row:
    row = {"stream": stream, "origin": str(gap.origin), "first": gap.first, "end": gap.end, "records": gap.count, "why": gap.why}
    row["floor_why"] = floor_why if gap.why == "below_floor" else None
    below = [(node, *start) for node, start in sorted(dropped.items()) if gap.why == "wanted" and start[0] > gap.first]
    row["dropped_at"] = ", ".join(f"{node} (below {floor:,}: {why.replace('_', ' ')})" for node, floor, why in below)
    return {**row, "since_at_ms": gap.since_at_ms, "until_at_ms": gap.until_at_ms}


def _origin(text: str) -> Origin:
    try:
        return Origin.parse(text)
    except ValueError:
        raise Misuse(
            f"{text!r} is no origin", hint="it is like ship-a@19d3f2b1c00, as `landfall log ls` shows it", code="origin_invalid"
        ) from None


def _interval_ms(interval_min: float | None) -> int | None:
    if interval_min is not None and not 0 < interval_min <= INTERVAL_MIN_MAX:
        raise Misuse(
            f"{interval_min} minutes are no interval",
            hint=f"--interval-min is above 0 and at most {INTERVAL_MIN_MAX:,}",
            code="interval_invalid",
        )
    return None if interval_min is None else round(interval_min * 60_000)


def _readings(rows: pa.Table) -> Iterator[tuple[str, Row]]:
    """Yield stream and columns of each row of a history, only the columns that `reported` reads."""
    names = [name for name in ("stream", ORDER_AT, RECEIVED_AT, DEVICE, BODY, SOURCE_ORIGIN) if name in rows.schema.names]
    return ((row["stream"], row) for part in rows.select(names).to_batches() for row in part.to_pylist())


def signed_keys(log: LogReader) -> dict[str, set[str]]:
    """Return the keys with which each node has signed what this copy holds, as the nodes themselves claim."""
    found: dict[str, set[str]] = {}
    for stream in log.streams():
        for origin in log.ledger(stream):
            for text in _keys_of(log, stream, origin):
                found.setdefault(origin.node, set()).add(text)
    return found


def _nodes_in(data: bytes) -> list[str]:
    """Return the nodes that a proof file names; none when it does not read, which `check` reports better."""
    try:
        return [section.origin.partition("@")[0] for section in ProofFile.from_bytes(data).sections]
    except Corrupt:
        return []


def _keys_of(log: LogReader, stream: str, origin: Origin) -> set[str]:
    if stream.endswith(HEADS) or stream + HEADS not in log.streams():
        return set()
    try:
        last = last_statement(log, stream, origin)
    except Corrupt:
        return set()
    return {key_text(last.key)} if last is not None and last.signed() else set()
