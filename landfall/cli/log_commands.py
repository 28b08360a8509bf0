"""`landfall log`: a node's log, shown to people, while the node runs or not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from landfall.cli.list_output import Column, List
from landfall.cli.log_folder import awaited_stream, floors_why, known_stream, known_topic, opened
from landfall.cli.log_follower import Following
from landfall.cli.log_snapshot import Held
from landfall.cli.number_format import counts, many, read_at_ms
from landfall.cli.record_output import RECORDS, limited, with_proven
from landfall.cli.table_output import Format, Row, say, tell, write
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
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many records.")]
How = Annotated[Format, typer.Option("--format", help="text with units and times; JSON lines, CSV or Parquet with all columns.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="A file to write to, in place of the screen.")]
PastHoles = Annotated[bool, typer.Option("--past-holes", help="Go on past offsets that this copy lacks: all that it holds.")]
Since = Annotated[str | None, typer.Option("--since", help="From this time on (UTC): 2026-05-01 or 2026-05-01T04:00:00.")]
Until = Annotated[str | None, typer.Option("--until", help="Up to this time (UTC), itself not included.")]

Stream = Annotated[str, typer.Argument(help="Its name, as `landfall stream ls` shows it: containers, alerts, customers/duckworks.")]
OptionalStream = Annotated[str | None, typer.Argument(help="Its name; every stream, if none is given.")]
Topic = Annotated[str, typer.Argument(help="A container's number, or a ship's `<imo>.location`, `<imo>.environment` or `<imo>.noon`.")]

log_app = typer.Typer(help="Look into a node's log: what it holds, its records, all that is known of one container.", no_args_is_help=True)


ORIGINS = List(
    (
        Column.text("stream", "stream"),
        Column.text("origin", "origin"),
        Column.count("next_offset", "next offset"),
        Column.count("held", "held"),
        Column.count("gone", "gone"),
        Column.count("wanted", "wanted"),
        Column.count("floor", "floor"),
        Column("floor_why", "why", in_words, pa.string()),
        Column.size("stored_bytes", "stored"),
        Column.time("order_first_at_ms", "from"),
        Column.time("order_last_at_ms", "to"),
        Column("unproven", "not proven", lambda count: "never signed" if count is None else f"{count:,}", pa.int64()),
        Column.time("signed_at_ms", "signed last"),
    )
)
"""What `ls` tells of each origin of a stream. `unproven`: held records past what it has signed; none where it never signs."""


@log_app.command("ls")
def list_origins(folder: Folder, stream: OptionalStream = None, format_: How = Format.TEXT, output: Output = None) -> None:
    """What this copy knows of a stream, per origin: what is held, gone and wanted, its floor, what it takes, its times, what is not proven
    yet and when it was signed last. Of all, if none is named.
    """
    with opened(folder) as log:
        names = log.streams() if stream is None else [known_stream(log, stream)]
        write(lambda: ORIGINS.tables(_origins(folder, log, names)), ORIGINS.telling(), format_, output)


@log_app.command("cat")
def cat(
    stream: Stream,
    folder: Folder,
    limit: Limit = 1_000,
    format_: How = Format.TEXT,
    output: Output = None,
    past_holes: PastHoles = False,
) -> None:
    """The records of a stream, in offset order within each origin, from the first this copy holds up to the first hole.

    Ends with 1 when records were left out, behind a hole, damaged, or of a version that this one does not read; it says which.
    """
    with opened(folder) as log:
        held = Held.now(log, known_stream(log, stream), past_holes=past_holes)
        whole = write(lambda: limited(held.rows(), limit), RECORDS, format_, output) < limit
        _tell_more(limit, held.count())
        _tell_left_out(held, holes=whole)


@log_app.command("tail")
def tail(
    stream: Stream,
    folder: Folder,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="So many of the last records.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on with whatever comes, until Ctrl-C; the node may run.")] = False,
    format_: How = Format.TEXT,
    output: Output = None,
    past_holes: Annotated[
        bool, typer.Option("--past-holes", help="With --follow: do not wait before a hole; what of it comes later is shown then.")
    ] = False,
) -> None:
    """The last records of a stream, in order of time; with --follow also those to come.

    It waits before offsets that are not here yet, and says so on standard error, once: which, how many, of when; and when it goes on.
    What is of a version that this one does not read is told, and passed over; without --follow it then ends with 1.
    """
    if follow and (output is not None or format_ in (Format.CSV, Format.PARQUET)):
        raise Misuse("what is followed is written as text or JSON, to standard output", hint="`landfall log export` writes files")
    if past_holes and not follow:
        raise Misuse("without --follow tail shows the last that is held, behind holes too", hint="leave --past-holes out")
    with opened(folder) as log:
        name = awaited_stream(log, stream) if follow else known_stream(log, stream)
        following = Following(log, name, WallClock(), past_holes=past_holes)
        last, unread = _last(log, stream, following.ledger, limit)
        write(lambda: iter([last]), RECORDS, format_, output)
        if not follow:
            end_of_unread(unread)
        tell([*unread, *([NEWER] if unread else [])])
        while follow:
            news = following.look()
            tell(news.ended)
            write(news.tables, RECORDS, format_, None)
            tell(news.found)
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
    """All that is known of one topic, over all streams, in one order; where thinning has left nothing else, what was kept, and of what.

    What its origin has not signed yet is said to be not proven yet; `landfall log ls` says since when. Ends with 1 when there is anything
    of that time that this version does not read, and says which: it may hold more of the topic.
    """
    span = span_ms(since, until)
    with opened(folder) as log:
        topic = known_topic(log, topic)
        found = log.history(topic, *span)
        shown = with_proven(found.rows.slice(0, limit), _signed(log))
        write(lambda: iter([shown]), RECORDS, format_, output)
        _tell_more(limit, found.rows.num_rows)
        if not found.rows.num_rows:
            then = "" if since is None and until is None else " in that time"
            tell([f"nothing is known of {topic!r} in this log{then}"])
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
    topics: Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; give it once for each.")] = None,
    format_: Annotated[Format | None, typer.Option("--format", help="json, csv or parquet.")] = None,
    past_holes: PastHoles = False,
) -> None:
    """Write a stream's records to a file, all that this copy holds up to the first hole, with every column as it is stored.

    Ends with 1 when records were left out, behind a hole, damaged, or of a version that this one does not read; it says which. Without
    --past-holes nothing is written when any is damaged. In CSV, a text that is a formula to a spreadsheet has an apostrophe before it.
    """
    span = span_ms(since, until)
    with opened(folder, whole=not past_holes) as log:
        held = Held.now(log, known_stream(log, stream), past_holes=past_holes)
        chosen = format_ or next((one for one in Format if output.suffix == f".{one}"), None)
        if chosen is None:
            raise Misuse(f"{output.name} does not tell its format", hint="end it in .parquet, .csv or .json, or give --format")
        known = None if topics is None else [known_topic(log, topic) for topic in topics]
        rows = write(lambda: (_within(table, *span) for table in held.rows(known)), RECORDS, chosen, output)
        say(f"{output}: {many(rows, 'record')}")
        _tell_left_out(held, holes=True)


def span_ms(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Two times as people write them, as UTC ms. Raises Misuse for what is none, and for a span that ends before it begins."""
    begin, end = (None if text is None else read_at_ms(text) for text in (since, until))
    if begin is not None and end is not None and end <= begin:
        raise Misuse("a span of time ends after it begins", hint="give --since before --until")
    return begin, end


def _tell_more(limit: int, there_are: int) -> None:
    if there_are > limit:
        tell([f"these are the first {limit:,} of {there_are:,} records; --limit shows more"])


def _tell_left_out(held: Held, *, holes: bool) -> None:
    """What can not be read here is told, on standard error, and with `holes` what is held behind them; the command ends with 1 when any
    of that was left out.
    """
    sentences = held.left_out() if holes else []
    if sentences:
        hint = f"`landfall log gaps {held.stream}` lists what is missing" + ("" if held.past_holes else "; --past-holes writes the rest")
        tell([*sentences, hint])
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
    """Up to where each origin has signed, by the keys that this copy's registry pins, else by its own word."""
    trust = registry_trust(log)
    return SignedUntil(Copy(log, BlockCodec()), lambda node: trust)


def _last(log: LogReader, stream: str, ledger: Ledger, limit: int) -> tuple[pa.Table, list[str]]:
    """The last `limit` records that are held, whatever their origin, by order time; and which of each origin's last can not be read."""
    last: list[tuple[Origin, int, int]] = []
    told: list[str] = []
    for origin, one in sorted(ledger.items()):
        unread = unread_of(log, stream, origin).common(one.held)
        ranges = _last_ranges(one.held.without(unread), limit)
        last += [(origin, first, end) for first, end in ranges]
        told += unread_words(stream, origin, unread.common(_last_ranges(one.held, limit)))
    rows = merged([batch for origin, first, end in last for batch in log.run(stream, origin, first, end)])
    return rows.slice(max(0, rows.num_rows - limit)), told


def _last_ranges(held: RangeSet, limit: int) -> list[Range]:
    """The last `limit` offsets that are held, as ranges, ascending."""
    found: list[Range] = []
    for first, end in reversed(list(held)):
        found.append((max(first, end - limit), end))
        limit -= end - found[-1][0]
    return [one for one in reversed(found) if one[0] < one[1]]


def _within(table: pa.Table, since_ms: int | None, until_ms: int | None) -> pa.Table:
    if since_ms is not None:
        table = table.filter(pc.greater_equal(table.column(ORDER_AT), since_ms))
    return table if until_ms is None else table.filter(pc.less(table.column(ORDER_AT), until_ms))
