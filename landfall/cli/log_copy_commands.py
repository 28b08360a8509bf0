"""`landfall log check|backup|restore`: the check of a node's log, a copy of it, and the restore of the copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from landfall.cli.list_output import List, ListColumn
from landfall.cli.log_commands import Folder, How, Output, log_app
from landfall.cli.log_folder import DAMAGED
from landfall.cli.number_format import many
from landfall.cli.table_output import Format, Row, check_output, write, write_notes
from landfall.storage.backup import backup as copy
from landfall.storage.backup import check_backup
from landfall.storage.backup import restore as put_back
from landfall.storage.log_check import CheckTally
from landfall.storage.log_check import check as find_damage
from landfall.storage.log_kinds import in_kafka
from landfall.storage.segments import SEGMENTS
from streams.codec import BlockCodec
from streams.model.errors import Misuse

Target = Annotated[Path, typer.Argument(help="Folder to create for the backup.")]

DAMAGE = List((ListColumn.text("code"), ListColumn.text("where"), ListColumn.text("what")))
"""List of what `check` shows of each damage."""
BACKUP = List(
    (
        ListColumn.text("backup"),
        ListColumn.text("node"),
        ListColumn.count("commit"),
        ListColumn.count("files"),
        ListColumn.size("stored_bytes"),
    )
)
"""List of what `backup` shows of the backup."""
RESTORED = List((ListColumn.text("log"), ListColumn.text("replaced")))
"""List of what `restore` shows: the log's folder, and where the old log lies, if there was one."""


@log_app.command("check")
def check(folder: Folder, format_: How = Format.TEXT, output: Output = None) -> None:
    """Verify every frame, checksum and ledger of a log against each other, and name what is damaged. Exits with 1 when anything is.

    Without an index it verifies the files alone.

    For a log in Kafka it fetches every block from the brokers.

    In JSON, CSV and Parquet a row is one damage; the amount checked goes to standard error.
    """
    log, tally = _log_in(folder, kafka_too=True), CheckTally()
    words = DAMAGE.in_words(_damaged, "red", lambda damaged: _looked_at(log, damaged, tally))
    damaged = write(lambda: _found(log, tally), words, format_, output)
    if format_ is not Format.TEXT:
        write_notes([_looked_at(log, damaged, tally)])
    raise typer.Exit(DAMAGED if damaged else 0)


@log_app.command("backup")
def backup(target: Target, folder: Folder, format_: How = Format.TEXT, output: Output = None) -> None:
    """Copy the log of a node, running or not, as of one commit, without marker and key. Nobody can continue as this node with it
    alone.
    """
    check_output(format_, output)
    log = _log_in(folder)
    made = copy(log, target)
    row = {"backup": str(target), "node": made.node, "commit": made.commit, "files": made.files, "stored_bytes": made.bytes}
    write(lambda: BACKUP.tables([row]), BACKUP.in_words(_backed_up), format_, output)


@log_app.command("restore")
def restore(
    source: Annotated[Path, typer.Argument(help="A backup.")],
    folder: Folder,
    damaged_too: Annotated[
        bool, typer.Option("--damaged-too", help="Also restore a damaged backup; peers send damaged blocks again.")
    ] = False,
    format_: How = Format.TEXT,
    output: Output = None,
) -> None:
    """Restore a backup as the log of a node that does not run. The node then opens a new generation; peers send what is missing."""
    check_output(format_, output)
    check_backup(source)
    home = folder.absolute().parent if folder.name == "log" else folder
    _refuse_kafka(home / "log")
    tally = CheckTally()
    damaged = [line for table in _found(source, tally) for row in table.to_pylist() for line in _damaged(row)]
    write_notes([*damaged, _looked_at(source, len(damaged), tally)])
    if damaged and not damaged_too:
        hint = "take another backup; or give --damaged-too, and what does not verify is wanted again from peers"
        raise Misuse(f"{source} is damaged", hint=hint, code="backup_damaged")
    aside = put_back(source, home)
    row = {"log": str(home / "log"), "replaced": None if aside is None else str(aside)}
    write(lambda: RESTORED.tables([row]), RESTORED.in_words(_restored), format_, output)


def _found(log: Path, tally: CheckTally) -> Iterator[pa.Table]:
    """Yield the damage, each as it is found; `tally` counts what was checked."""
    for finding in find_damage(log, BlockCodec(), tally):
        yield from DAMAGE.tables([{"code": finding.code, "where": finding.where, "what": finding.what}])


def _damaged(row: Row) -> Iterator[str]:
    yield f"damaged: {row['where']}: {row['what']}"


def _looked_at(log: Path, damaged: int, tally: CheckTally) -> str:
    frames = "" if in_kafka(log) else f"{many(tally.frames, 'frame')}, "
    looked_at = f"{frames}{many(tally.blocks, 'block')}, {many(tally.records, 'record')}"
    if tally.unread:
        looked_at += f" and {tally.unread:,} of a newer version, kept and passed on, that this one does not read"
    if tally.let_go:
        looked_at += f"; of {many(tally.let_go, 'block')} damaged before nothing is held any more (`landfall log gaps`: what is missing)"
    return f"{damaged:,} damaged; {looked_at}" if damaged else f"all is well: {looked_at}"


def _backed_up(row: Row) -> Iterator[str]:
    stored = f"{many(row['files'], 'file')}, {row['stored_bytes']:,} bytes"
    yield f"{row['backup']}: {row['node']}'s log up to commit {row['commit']:,}, {stored}"


def _restored(row: Row) -> Iterator[str]:
    yield f"{row['log']} is restored" + (f"; the log that was there lies in {row['replaced']}" if row["replaced"] else "")


def _log_in(folder: Path, *, kafka_too: bool = False) -> Path:
    """Return the folder of the log in `folder`: a log in files, or one with its index there. Raises Misuse when there is none."""
    for place in (folder, folder / "log"):
        if not kafka_too:
            _refuse_kafka(place)
        if in_kafka(place) or (place / SEGMENTS).exists():
            return place
    raise Misuse(f"there is no log in {folder}", hint="give a node's folder with --folder", code="log_missing")


def _refuse_kafka(log: Path) -> None:
    """Raise Misuse for a log in Kafka: its files here are only its index."""
    if in_kafka(log):
        raise Misuse(
            f"the log of {log} is in a Kafka, whose brokers keep the copies of it that its setting replication asks for",
            hint="for a copy elsewhere let another node sync with this one: from there it comes back, too; see docs/guide/kafka.md",
            code="log_in_kafka",
        )
