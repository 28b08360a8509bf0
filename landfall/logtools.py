"""`landfall log`: a node's log, shown to people, while the node runs or not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from landfall.lognumbers import counts, utc
from landfall.logopening import known_stream, opened
from streams.records import StoredRecord
from streams.words import Position

Folder = Annotated[Path, typer.Option("--folder", "-f", help="The node's folder, or its log's.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many records.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]

Stream = Annotated[str, typer.Argument(help="Its name, as `landfall stream ls` shows it: containers, alerts, customers/duckworks.")]
Topic = Annotated[str, typer.Argument(help="A container's number, or a ship's `<imo>.location` or `<imo>.environment`.")]

log_app = typer.Typer(help="Look into a node's log: what it holds, its records, all that is known of one container.", no_args_is_help=True)


@log_app.command("ls")
def list_origins(stream: Stream, folder: Folder) -> None:
    """What this copy knows of one stream, per origin: ranges held, gone and wanted, and its floor."""
    log = opened(folder)
    table = Table("origin", "next offset", "held", "gone", "wanted", "floor", box=None, header_style="bold")
    for origin, ledger in sorted(log.ledger(known_stream(log, stream)).items()):
        _, held, gone, wanted = counts([ledger])
        table.add_row(str(origin), f"{ledger.next_offset():,}", f"{held:,}", f"{gone:,}", f"{wanted:,}", f"{ledger.floor:,}")
    Console().print(table)


@log_app.command("cat")
def cat(stream: Stream, folder: Folder, limit: Limit = 1_000, as_json: AsJson = False) -> None:
    """The records of a stream, in offset order within each origin, from the first this copy holds."""
    log = opened(folder)
    floors = Position({origin: ledger.floor for origin, ledger in log.ledger(known_stream(log, stream)).items()})
    rows = (row for batch in log.read(stream, floors) for row in batch.rows())
    show(islice(rows, limit), as_json)


@log_app.command("history")
def history(topic: Topic, folder: Folder, limit: Limit = 1_000, as_json: AsJson = False) -> None:
    """Everything known of one topic (a container's number, `<imo>.location`), over all streams, in one order."""
    found = opened(folder).history(topic)
    for row in islice(found.rows.to_pylist(), limit):
        origin, stream = row.pop("origin"), row.pop("stream")
        _show_row(f"{stream}:{origin}:{row.pop('offset')}", row.pop("order_at_ms"), row, as_json)
    if not found.rows.num_rows:
        Console(stderr=True).print(f"nothing is known of {topic!r} in this log", markup=False)


def show(rows: Iterator[StoredRecord], as_json: bool) -> None:
    """Write rows to standard output, one a line."""
    for row in rows:
        record = row.record
        fields = {"topic": record.topic, "device": record.device, **record.signals, **({"body": dict(record.body)} if record.body else {})}
        _show_row(str(row.coordinates), row.order_at_ms, fields, as_json)


def _show_row(coordinates: str, order_at_ms: int, fields: dict[str, Any], as_json: bool) -> None:
    known = {name: value for name, value in fields.items() if value is not None}
    if as_json:
        sys.stdout.write(json.dumps({"coordinates": coordinates, "order_at_ms": order_at_ms, **known}, ensure_ascii=False) + "\n")
        return
    told = "  ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}" for name, value in known.items()
    )
    sys.stdout.write(f"{utc(order_at_ms)}  {coordinates}  {told}\n")
