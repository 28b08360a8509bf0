"""`landfall log`: a node's log, shown to people, while the node runs or not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from landfall.cli.list_output import List, ListColumn
from landfall.cli.log_folder import awaited_stream, floors_why, known_stream, known_topic, opened
from landfall.cli.log_follower import LogFollower
from landfall.cli.log_snapshot import Held
from landfall.cli.number_format import counts, many, read_at_ms
from landfall.cli.record_output import RECORDS, limited, with_proven
from landfall.cli.table_output import Format, Row, say, write, write_notes
from landfall.cli.unreadable_records import NEWER, end_of_unread, unread_of, unread_of_topic, unread_words
from landfall.storage.row_tables import merged
from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.key_trust import registry_trust
from streams.integrity.signed_watermark import SignedUntil
from streams.log import LogReader
from streams.model.clock import WallClock
from streams.model.errors import Misuse
from streams.model.identifiers import Origin
from streams.model.ledger import Ledger
from streams.model.ranges import Range, RangeSet
from streams.model.records import ORDER_AT
from streams.retention.floor_reasons import in_words

FOLLOW_EVERY_S = 0.5

Folder = Annotated[Path, typer.Option("--folder", "-f", help="The node's folder, or its log's.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of records.")]
How = Annotated[Format, typer.Option("--format", help="text with units and times; JSON lines, CSV or Parquet with all columns.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of the screen.")]
PastHoles = Annotated[bool, typer.Option("--past-holes", help="Continue past gaps: show all that this copy holds.")]
Since = Annotated[str | None, typer.Option("--since", help="From this time on (UTC): 2026-05-01 or 2026-05-01T04:00:00.")]
Until = Annotated[str | None, typer.Option("--until", help="Up to this time (UTC), itself not included.")]

Stream = Annotated[
    str, typer.Argument(help="Name of the stream, as `landfall stream ls` shows it: containers, alerts, customers/duckworks.")
]
OptionalStream = Annotated[str | None, typer.Argument(help="Name of the stream; all streams without it.")]
Topic = Annotated[str, typer.Argument(help="A container's number, or a ship's `<imo>.location`, `<imo>.environment` or `<imo>.noon`.")]

log_app = typer.Typer(help="Look into a node's log: what it holds, its records, all that is known of one container.", no_args_is_help=True)


ORIGINS = List(
    (
        ListColumn.text("stream", "stream"),
        ListColumn.text("origin", "origin"),
        ListColumn.count("next_offset", "next offset"),
        ListColumn.count("held", "held"),
        ListColumn.count("gone", "gone"),
        ListColumn.count("wanted", "wanted"),
        ListColumn.count("floor", "floor"),
        ListColumn("floor_why", "why", in_words, pa.string()),
        ListColumn.size("stored_bytes", "stored"),
        ListColumn.time("order_first_at_ms", "from"),
        ListColumn.time("order_last_at_ms", "to"),
        ListColumn("unproven", "not proven", lambda count: "never signed" if count is None else f"{count:,}", pa.int64()),
        ListColumn.time("signed_at_ms", "signed last"),
    )
)
"""List of what `ls` shows of each origin of a stream. `unproven`: the number of held records past what the origin has signed; none where it
never signs.
"""


@log_app.command("ls")
def list_origins(folder: Folder, stream: OptionalStream = None, format_: How = Format.TEXT, output: Output = None) -> None:
    """Show what this copy has of a stream, per origin: held, gone, wanted, floor, bytes, times, what is not proven yet, and the last
    signature. Without a name, of all streams.
    """
    with opened(folder) as log:
        names = log.streams() if stream is None else [known_stream(log, stream)]
        write(lambda: ORIGINS.tables(_origins(folder, log, names)), ORIGINS.as_table(), format_, output)


@log_app.command("cat")
def cat(
    stream: Stream,
    folder: Folder,
    limit: Limit = 1_000,
    format_: How = Format.TEXT,
    output: Output = None,
    past_holes: PastHoles = False,
) -> None:
    """Show the records of a stream, in offset order within each origin, from the first that this copy holds to the first gap.

    Exits with 1 when records were left out: behind a gap, damaged, or of a newer version. It names them.
    """
    with opened(folder) as log:
        held = Held.now(log, known_stream(log, stream), past_holes=past_holes)
        whole = write(lambda: limited(held.rows(), limit), RECORDS, format_, output) < limit
        _note_more(limit, held.count())
        _note_left_out(held, holes=whole)


@log_app.command("tail")
def tail(
    stream: Stream,
    folder: Folder,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Number of last records.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Show new records until Ctrl-C.")] = False,
    format_: How = Format.TEXT,
    output: Output = None,
    past_holes: Annotated[
        bool, typer.Option("--past-holes", help="With --follow: do not wait at a gap; show late records when they arrive.")
    ] = False,
) -> None:
    """Show the last records of a stream, in order of time; with --follow also new ones.

    At missing offsets it waits, and reports once on standard error which they are, how many, and their times; and again when it
    continues. Records of a newer version are named and skipped; without --follow it then exits with 1.
    """
    if follow and (output is not None or format_ in (Format.CSV, Format.PARQUET)):
        raise Misuse(
            "what is followed is written as text or JSON, to standard output",
            hint="`landfall log export` writes files",
            code="format_not_followed",
        )
    if past_holes and not follow:
        raise Misuse(
            "without --follow tail shows the last that is held, behind holes too",
            hint="leave --past-holes out",
            code="option_without_follow",
        )
    with opened(folder) as log:
        name = awaited_stream(log, stream) if follow else known_stream(log, stream)
        following = LogFollower(log, name, WallClock(), past_holes=past_holes)
        last, unread = _last(log, stream, following.ledger, limit)
        write(lambda: iter([last]), RECORDS, format_, output)
        if not follow:
            end_of_unread(unread)
        write_notes([*unread, *([NEWER] if unread else [])])
        while follow:
            news = following.look()
            write_notes(news.ended)
            write(news.tables, RECORDS, format_, None)
            write_notes(news.found)
            time.sleep(FOLLOW_EVERY_S)


@log_app.command("history")
def history(
    topic: Topic,
    folder: Folder,
    limit: Limit = 1_000,
    since: Since = None,
    until: Until = None,
    format_: How = Format.TEXT,
    output: Output = None,
) -> None:
    """Show all records of one topic over all streams, in one order; of thinned records those that were kept, with their source.

    Records that their origin has not signed yet are marked as not proven; `landfall log ls` shows since when. Exits with 1 when a
    record of that time is of a newer version, and names it.
    """
    span = span_ms(since, until)
    with opened(folder) as log:
        topic = known_topic(log, topic)
        topic_history = log.history(topic, *span)
        shown = with_proven(topic_history.rows.slice(0, limit), _signed(log))
        write(lambda: iter([shown]), RECORDS, format_, output)
        _note_more(limit, topic_history.rows.num_rows)
        if not topic_history.rows.num_rows:
            then = "" if since is None and until is None else " in that time"
            write_notes([f"nothing is known of {topic!r} in this log{then}"])
        end_of_unread(unread_of_topic(log, log.streams(), *span))


@log_app.command("export")
def export(
    stream: Stream,
    folder: Folder,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write: .parquet, .csv or .json, unless --format says otherwise.")
    ],
    since: Since = None,
    until: Until = None,
    topics: Annotated[list[str] | None, typer.Option("--topic", help="Only this topic. May be repeated.")] = None,
    format_: Annotated[Format | None, typer.Option("--format", help="json, csv or parquet.")] = None,
    past_holes: PastHoles = False,
) -> None:
    """Write a stream's records to a file, up to the first gap, with every column as it is stored.

    Exits with 1 when records were left out: behind a gap, damaged, or of a newer version. It names them. Without --past-holes nothing
    is written when any is damaged. In CSV, text that is a formula to a spreadsheet gets an apostrophe in front.
    """
    span = span_ms(since, until)
    with opened(folder, whole=not past_holes) as log:
        held = Held.now(log, known_stream(log, stream), past_holes=past_holes)
        chosen = format_ or next((format_name for format_name in Format if output.suffix == f".{format_name}"), None)
        if chosen is None:
            raise Misuse(
                f"{output.name} does not name a format", hint="end it in .parquet, .csv or .json, or give --format", code="format_unknown"
            )
        known = None if topics is None else [known_topic(log, topic) for topic in topics]
        rows = write(lambda: (_within(table, *span) for table in held.rows(known)), RECORDS, chosen, output)
        say(f"{output}: {many(rows, 'record')}")
        _note_left_out(held, holes=True)


def span_ms(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Return two times as people write them, as UTC ms. Raises Misuse for an invalid time, and for a span that ends before it begins."""
    begin, end = (None if text is None else read_at_ms(text) for text in (since, until))
    if begin is not None and end is not None and end <= begin:
        raise Misuse("a span of time ends after it begins", hint="give --since before --until", code="span_invalid")
    return begin, end


def _note_more(limit: int, there_are: int) -> None:
    if there_are > limit:
        write_notes([f"these are the first {limit:,} of {there_are:,} records; --limit shows more"])


def _note_left_out(held: Held, *, holes: bool) -> None:
    """Report on standard error what can not be read here and, with `holes`, what is held behind them. End the command with 1 when any of
    that was left out.
    """
    sentences = held.left_out() if holes else []
    if sentences:
        hint = f"`landfall log gaps {held.stream}` lists what is missing" + ("" if held.past_holes else "; --past-holes writes the rest")
        write_notes([*sentences, hint])
    end_of_unread(held.unread())
    if sentences:
        raise typer.Exit(0 if held.past_holes else 1)


def _origins(folder: Path, log: LogReader, streams: Iterable[str]) -> Iterator[Row]:
    signed = _signed(log)
    for stream in streams:
        why = floors_why(folder, log, stream)
        for origin, ledger in sorted(log.ledger(stream).items()):
            until = signed.of(stream, origin)
            _, held, gone, wanted = counts([ledger])
            spans = list(log.spans(stream, origin))
            yield {
                "stream": stream,
                "origin": str(origin),
                "next_offset": ledger.next_offset(),
                "held": held,
                "gone": gone,
                "wanted": wanted,
                "floor": ledger.floor,
                "floor_why": why.get(origin),
                "stored_bytes": sum(span.stored_bytes for span in spans),
                "order_first_at_ms": min((span.order_first_ms for span in spans), default=None),
                "order_last_at_ms": max((span.order_last_ms for span in spans), default=None),
                "unproven": None if until is None else ledger.held.within(until.end, max(until.end, ledger.held.end())).count(),
                "signed_at_ms": None if until is None else until.at_ms,
            }


def _signed(log: LogReader) -> SignedUntil:
    """Return up to where each origin has signed, by the keys that this copy's registry pins, else by its own claim."""
    trust = registry_trust(log)
    return SignedUntil(Copy(log, BlockCodec()), lambda node: trust)


def _last(log: LogReader, stream: str, ledger: Ledger, limit: int) -> tuple[pa.Table, list[str]]:
    """Return the last `limit` held records, whatever their origin, by order time; and which of each origin's last can not be read."""
    last: list[tuple[Origin, int, int]] = []
    unread_notes: list[str] = []
    for origin, line in sorted(ledger.items()):
        unread = unread_of(log, stream, origin).common(line.held)
        ranges = _last_ranges(line.held.without(unread), limit)
        last += [(origin, first, end) for first, end in ranges]
        unread_notes += unread_words(stream, origin, unread.common(_last_ranges(line.held, limit)))
    rows = merged([batch for origin, first, end in last for batch in log.run(stream, origin, first, end)])
    return rows.slice(max(0, rows.num_rows - limit)), unread_notes


def _last_ranges(held: RangeSet, limit: int) -> list[Range]:
    """Return the last `limit` held offsets, as ranges, ascending."""
    found: list[Range] = []
    for first, end in reversed(list(held)):
        found.append((max(first, end - limit), end))
        limit -= end - found[-1][0]
    return [one for one in reversed(found) if one[0] < one[1]]


def _within(table: pa.Table, since_ms: int | None, until_ms: int | None) -> pa.Table:
    if since_ms is not None:
        table = table.filter(pc.greater_equal(table.column(ORDER_AT), since_ms))
    return table if until_ms is None else table.filter(pc.less(table.column(ORDER_AT), until_ms))
