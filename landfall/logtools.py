"""`landfall log`: a node's log, shown to people, while the node runs or not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.table import Table

from landfall.logheld import Held
from landfall.lognumbers import counts, read_at_ms, utc
from landfall.logopening import known_stream, opened
from landfall.logshowing import Format, limited, table_of, write
from streams.errors import Misuse
from streams.log import LogReader
from streams.logs.tables import merged
from streams.records import ORDER_AT
from streams.words import Position

FOLLOW_EVERY_S = 0.5

Folder = Annotated[Path, typer.Option("--folder", "-f", help="The node's folder, or its log's.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many records.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
How = Annotated[Format, typer.Option("--format", help="text with units and times; JSON lines, CSV or Parquet with all columns.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="A file to write to, in place of the screen.")]
PastHoles = Annotated[bool, typer.Option("--past-holes", help="Go on past offsets that this copy lacks: all that it holds.")]
Since = Annotated[str | None, typer.Option("--since", help="From this time on (UTC): 2026-05-01 or 2026-05-01T04:00:00.")]
Until = Annotated[str | None, typer.Option("--until", help="Up to this time (UTC), itself not included.")]

Stream = Annotated[str, typer.Argument(help="Its name, as `landfall stream ls` shows it: containers, alerts, customers/duckworks.")]
OptionalStream = Annotated[str | None, typer.Argument(help="Its name; every stream, if none is given.")]
Topic = Annotated[str, typer.Argument(help="A container's number, or a ship's `<imo>.location` or `<imo>.environment`.")]

log_app = typer.Typer(help="Look into a node's log: what it holds, its records, all that is known of one container.", no_args_is_help=True)


@log_app.command("ls")
def list_origins(folder: Folder, stream: OptionalStream = None, as_json: AsJson = False) -> None:
    """What this copy knows of a stream, per origin: what is held, gone and wanted, its floor, what it takes, its times. Of all, if none is
    named.
    """
    log = opened(folder)
    columns = ("origin", "next offset", "held", "gone", "wanted", "floor", "stored", "from", "to")
    table = Table("stream", *columns, box=None, header_style="bold")
    for name in log.streams() if stream is None else [known_stream(log, stream)]:
        for origin, ledger in sorted(log.ledger(name).items()):
            _, held, gone, wanted = counts([ledger])
            spans = list(log.spans(name, origin))
            stored = sum(span.stored_bytes for span in spans)
            first_ms, last_ms = (min(s.order_first_ms for s in spans), max(s.order_last_ms for s in spans)) if spans else (None, None)
            if as_json:
                numbers = {"next_offset": ledger.next_offset(), "held": held, "gone": gone, "wanted": wanted, "floor": ledger.floor}
                times = {"order_first_ms": first_ms, "order_last_ms": last_ms}
                typer.echo(json.dumps({"stream": name, "origin": str(origin), **numbers, "stored_bytes": stored, **times}))
            told = [f"{number:,}" for number in (ledger.next_offset(), held, gone, wanted, ledger.floor)]
            table.add_row(name, str(origin), *told, f"{stored:,} B", *("" if one is None else utc(one) for one in (first_ms, last_ms)))
    if not as_json:
        Console(width=None if Console().is_terminal else 200).print(table)


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

    Ends with 1 when records behind a hole were left out.
    """
    log = opened(folder)
    held = Held.now(log, known_stream(log, stream), past_holes=past_holes)
    if write(lambda: limited(held.rows(), limit), format_, output) < limit:
        _tell_holes(held)


@log_app.command("tail")
def tail(
    stream: Stream,
    folder: Folder,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="So many of the last records.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on with whatever comes, until Ctrl-C; the node may run.")] = False,
    format_: How = Format.TEXT,
) -> None:
    """The last records of a stream, in order of time; with --follow also those to come."""
    if format_ in (Format.CSV, Format.PARQUET):
        raise Misuse("tail writes text or JSON", hint="use `landfall log export` for files")
    log = opened(folder)
    position = log.position(known_stream(log, stream))
    write(lambda: iter([_last(log, stream, limit)]), format_, None)
    while follow:
        reached = log.position(stream)
        if reached != position:
            write(partial(_read, log, stream, position), format_, None)
            position = position.merged(reached)
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
    """All that is known of one topic, over all streams, in one order; where thinning has left nothing else, what was kept, and of what."""
    found = opened(folder).history(topic, at_ms(since), at_ms(until))
    write(lambda: limited(iter([found.rows]), limit), format_, output)
    if not found.rows.num_rows:
        Console(stderr=True).print(f"nothing is known of {topic!r} in this log in that time", markup=False)


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

    Ends with 1 when records behind a hole were left out.
    """
    log = opened(folder)
    held = Held.now(log, known_stream(log, stream), past_holes=past_holes)
    chosen = format_ or next((one for one in Format if output.suffix == f".{one}"), None)
    if chosen is None:
        raise Misuse(f"{output.name} does not tell its format", hint="end it in .parquet, .csv or .json, or give --format")
    rows = write(lambda: (_within(table, at_ms(since), at_ms(until)) for table in held.rows(topics)), chosen, output)
    typer.echo(f"{output}: {rows:,} records")
    _tell_holes(held)


def at_ms(text: str | None) -> int | None:
    """A time as people write it, in UTC unless it says otherwise, as UTC ms. Raises Misuse for what is none."""
    return None if text is None else read_at_ms(text)


def _tell_holes(held: Held) -> None:
    """What is held behind holes is told, on standard error; the command ends with 1 when that was left out."""
    sentences = held.left_out()
    if sentences:
        hint = f"`landfall log gaps {held.stream}` lists what is missing" + ("" if held.past_holes else "; --past-holes writes the rest")
        Console(stderr=True).print("\n".join([*sentences, hint]), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(0 if held.past_holes else 1)


def _read(log: LogReader, stream: str, position: Position) -> Iterator[pa.Table]:
    return (table_of(batch) for batch in log.read(stream, position))


def _last(log: LogReader, stream: str, limit: int) -> pa.Table:
    """The last `limit` records that this copy holds, whatever their origin, by order time."""
    batches = [
        batch
        for origin, ledger in log.ledger(stream).items()
        for batch in log.run(stream, origin, max(0, ledger.held.end() - limit), ledger.held.end())
    ]
    rows = merged(batches)
    return rows.slice(max(0, rows.num_rows - limit))


def _within(table: pa.Table, since_ms: int | None, until_ms: int | None) -> pa.Table:
    if since_ms is not None:
        table = table.filter(pc.greater_equal(table.column(ORDER_AT), since_ms))
    return table if until_ms is None else table.filter(pc.less(table.column(ORDER_AT), until_ms))
