"""`landfall log check|backup|restore`: whether a node's log is whole, a copy of it, and how the copy comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from landfall.logopening import no_index
from landfall.logtools import AsJson, Folder
from streams.codec import BlockCodec
from streams.errors import Misuse
from streams.logs.backup import backup as copy
from streams.logs.backup import check_backup
from streams.logs.backup import restore as put_back
from streams.logs.checking import Finding, Tally
from streams.logs.checking import check as find_damage
from streams.logs.index import INDEX_NAME
from streams.logs.kinds import in_kafka
from streams.logs.segments import SEGMENTS

DAMAGED = 1


def add_copies(app: typer.Typer) -> None:
    """Add the commands to `landfall log`."""
    for command in (check, backup, restore):
        app.command(command.__name__)(command)


def check(folder: Folder, as_json: AsJson = False) -> None:
    """Verify every frame, checksum and ledger of a log against each other; name what is damaged. Ends with 1 when anything is.

    Without its index, the files alone.

    Of a log in a Kafka every block is fetched from the brokers and verified.
    """
    findings = _damage(_log_in(folder, kafka_too=True), as_json=as_json)
    raise typer.Exit(DAMAGED if findings else 0)


def backup(target: Annotated[Path, typer.Argument(help="A folder to make: the backup.")], folder: Folder) -> None:
    """Copy a node's log while it runs, as one commit left it. Without marker and key: nobody can go on as this node with it alone."""
    log = _log_in(folder)
    if not (log / INDEX_NAME).exists():
        raise no_index(log)
    made = copy(log, target)
    typer.echo(f"{target}: {made.node}'s log up to commit {made.commit:,}, {made.files:,} files, {made.bytes:,} bytes")


def restore(source: Annotated[Path, typer.Argument(help="A backup.")], folder: Folder) -> None:
    """Put a backup back as the log of a node that does not run. It then opens a new generation; what is missing comes from peers."""
    check_backup(source)
    home = folder.absolute().parent if folder.name == "log" else folder
    _refuse_kafka(home / "log")
    if _damage(source):
        raise Misuse(f"{source} is damaged", hint="take another backup, or fetch everything from a peer: an empty folder will do")
    aside = put_back(source, home)
    typer.echo(f"{home / 'log'} is restored" + (f"; the log that was there lies in {aside}" if aside else ""))


def _damage(log: Path, *, as_json: bool = False) -> list[Finding]:
    tally, findings = Tally(), []
    console = Console(highlight=False, soft_wrap=True)
    for finding in find_damage(log, BlockCodec(), tally):
        findings.append(finding)
        if as_json:
            typer.echo(json.dumps({"where": finding.where, "what": finding.what}))
            continue
        console.print(f"damaged: {finding.where}: {finding.what}", style="red", markup=False)
    if as_json:
        typer.echo(json.dumps({"damaged": len(findings), "frames": tally.frames, "blocks": tally.blocks, "records": tally.records}))
        return findings
    frames = "" if in_kafka(log) else f"{tally.frames:,} frames, "
    looked_at = f"{frames}{tally.blocks:,} blocks, {tally.records:,} records"
    console.print(f"{len(findings)} damaged; {looked_at}" if findings else f"all is well: {looked_at}", markup=False)
    return findings


def _log_in(folder: Path, *, kafka_too: bool = False) -> Path:
    """The folder of the log in `folder`: in files, or with its index there. Raises Misuse when there is none."""
    for place in (folder, folder / "log"):
        if not kafka_too:
            _refuse_kafka(place)
        if (place / SEGMENTS).exists() or in_kafka(place):
            return place
    raise Misuse(f"there is no log in {folder}", hint="give a node's folder with --folder")


def _refuse_kafka(log: Path) -> None:
    """Raises Misuse for a log in a Kafka, whose files here are its index alone."""
    if in_kafka(log):
        raise Misuse(
            f"the log of {log} is in a Kafka, whose brokers keep the copies of it that its setting replication asks for",
            hint="for a copy elsewhere let another node sync with this one: from there it comes back, too; see docs/kafka.md",
        )
