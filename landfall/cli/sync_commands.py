"""`landfall sync`: blocks carried from node to node in a file, where no link is available."""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from landfall.access.credentials import operator_token
from landfall.cli.key_arguments import trust_among
from landfall.cli.log_folder import opened
from landfall.cli.number_format import many, there_are
from landfall.cli.proof_commands import signed_keys
from landfall.cli.table_output import Format, check_output, whole_file
from landfall.node.block_loader import read_past
from landfall.node.key_files import load_or_make
from landfall.node.peers.trust_on_first_use import introduced_to
from landfall.node.services.definition_watcher import learn, taught_by
from landfall.node.services.signing_job import KEY_NAME, load_or_make_key
from landfall.node.settings import NodeSettings
from landfall.offline.bundle_frames import FrameWriter, read_frames
from landfall.offline.bundle_messages import Contents
from landfall.offline.bundle_plan import position_file, read_position_file, wanted
from landfall.offline.bundle_reader import BundleReader, Lost, Taken
from landfall.offline.bundle_writer import BundleContents, write
from landfall.offline.sealed_box import OpeningKey, opening_key_from_text, opening_key_text
from landfall.process_table import settings_of
from landfall.system.listen_address import url_here
from landfall.system.text_files import ENCODING
from landfall.transport.http_client import AdmitDoor, WireGone
from streams.codec import BlockCodec
from streams.config.roles import LAN
from streams.config.stream_definitions import Definitions
from streams.integrity.key_trust import registry_trust
from streams.integrity.signing_keys import key_from_text, key_text
from streams.log import LogReader
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import Origin, Position
from streams.replication import Key, Load, Loaded, Terms

OPENING_KEY_NAME = "opening-key"
"""Name of the file next to the node's signing key."""
NOT_WHOLE = 1
LINES_MAX = 20

sync_app = typer.Typer(help="Carry a log's blocks by hand: a file on a stick, where no link will do.", no_args_is_help=True)
Config = Annotated[Path, typer.Option("--config", "-c", help="Settings file of the node on this side.")]
console = Console(highlight=False, soft_wrap=True)


@sync_app.command("position")
def position(output: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")], config: Config) -> None:
    """Write what this node already has, so that the other side exports only the rest. It contains no secret."""
    settings = node_settings(config)
    with opened(settings.folder, whole=True) as log, whole_file(output) as place:
        place.write_bytes(position_file(log, settings.node))
    console.print(f"{output}: what '{settings.node}' has", markup=False)


@sync_app.command("key")
def key(config: Config) -> None:
    """Print the key for sealing files for this node; made when there is none. Pass it on by a trusted way."""
    console.print(opening_key_text(_opening_key(node_settings(config)).public), markup=False)


@sync_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, on the stick.")],
    to: Annotated[str, typer.Option("--to", help="Receiving node: one of `known` in the settings.")],
    config: Config,
    has: Annotated[
        Path | None, typer.Option("--position", help="File of the receiver's `landfall sync position`; without it, everything is written.")
    ] = None,
    seal: Annotated[str | None, typer.Option("--seal", help="Seal it for the receiver: x25519:…, its `landfall sync key`.")] = None,
) -> None:
    """Write a file with what another node may have of this log and lacks, signed by this node. The node may run."""
    check_output(Format.JSON, file)
    settings = node_settings(config)
    with opened(settings.folder, whole=True) as log:
        terms = _terms(settings, log, to)
        settled = read_position_file(_bytes(has), to) if has else {}
        receiver = opening_key_from_text(seal) if seal else None
        plan = list(wanted(log, terms, settled))
        if not plan:
            raise Misuse(
                f"'{to}' may have nothing of this log that it lacks",
                hint="`landfall stream show` says who may have a stream",
                code="nothing_for_receiver",
            )

        def load(stream: str, origin: Origin, first: int, end: int) -> Loaded | None:
            return read_past(log, BlockCodec(), Load(0, stream, origin, first, end))

        about = Contents(settings.node, to, time.time_ns() // 1_000_000, [], last=True)
        signing = load_or_make_key(settings.folder / KEY_NAME)
        part = file.with_name(f"{file.name}.part")
        try:
            with part.open("wb") as sink:
                written = write(FrameWriter(sink, signing, receiver), about, plan, load)
                sink.flush()
                os.fsync(sink.fileno())
            part.replace(file)
        except OSError as problem:
            part.unlink(missing_ok=True)
            raise RetryLater(
                f"{file} can not be written: {problem.strerror}", hint="make room, or take another stick", code="file_not_written"
            ) from problem
        _show_written(file, written, key_text(signing.public))


@sync_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `landfall sync export`.")],
    config: Config,
    known: Annotated[
        list[str] | None,
        typer.Option(
            "--key", "-k", help="The writer's public key, as `landfall proof key` shows it there: NODE=ed25519:…. May be repeated."
        ),
    ] = None,
) -> None:
    """Store the records of a file in the log of this running node. Repetition and order do not matter. Exits with 1 when it is not
    whole.
    """
    settings = node_settings(config)
    with opened(settings.folder, whole=True) as log:
        opening = _opening_key(settings) if (settings.folder / OPENING_KEY_NAME).exists() else None
        taking = BundleReader(_Door(settings, log), _signers(settings, log, known or ()), key_text)
        try:
            with file.open("rb") as source:
                outcome = taking.take(read_frames(source, opening))
        except OSError as problem:
            raise Misuse(
                f"{file} can not be read: {problem.strerror}", hint="name the file on the stick", code="file_unavailable"
            ) from problem
        _show_taken(file, outcome)
        if outcome.problems or outcome.missing:
            raise typer.Exit(NOT_WHOLE)


class _Door:
    """The door of the running node, through which files are taken in."""

    def __init__(self, settings: NodeSettings, log: LogReader) -> None:
        self._log = log
        self._door = AdmitDoor(url_here(settings.host, settings.port), operator_token(settings.folder))

    def admit(self, blocks: list[bytes], bringer: str) -> int:
        return self._door.admit(blocks, bringer=bringer)

    def declare_gone(self, lost: Lost) -> None:
        stream, origin = lost.key
        self._door.admit([], [WireGone(stream, str(origin), list(lost.ranges), lost.reason)])

    def held_end(self, key: Key) -> int:
        stream, origin = key
        one = self._log.ledger(stream).get(origin)
        return one.held.end() if one else 0


def node_settings(config: Path) -> NodeSettings:
    """Return the node's part of a ship's, a port's or a customer's settings. Raises Misuse as `landfall ship`, `port` and `customer` do."""
    try:
        fields: Any = tomllib.loads(config.read_text(ENCODING))
    except (OSError, ValueError):
        fields = {}  # which is said better by who reads it whole
    node = fields.get("node")
    role = node.get("role") if isinstance(node, dict) else None
    settings: Any = settings_of(role if role in ("ship", "customer") else "port", config)
    node_part: NodeSettings = settings.node
    if node_part.port == 0:
        raise Misuse("the node's door has another port each time it starts", hint="set node.port", code="port_not_fixed")
    return node_part


def _terms(settings: NodeSettings, log: LogReader, other: str) -> Terms:
    """Return what may travel between this node and `other`, by hand. Raises Misuse when `other` is not known."""
    peer = next((one.peer() for one in settings.known if one.node == other), None)
    if peer is None:
        raise Misuse(
            f"'{other}' is not known at '{settings.node}'", hint="add it to node.known, which says what it is", code="node_unknown"
        )
    definitions = Definitions()
    for stream in taught_by(settings.me()):
        if stream in log.streams():
            for batch in log.read(stream, Position()):
                learn(definitions, batch.records)
    roles = {settings.node: settings.role, **{one.node: one.role for one in settings.known}}
    return Terms(settings.me(), peer, LAN, roles, definitions=definitions)


def _signers(settings: NodeSettings, log: LogReader, given: Sequence[str]) -> dict[bytes, Terms]:
    """Return the owner of each key among the known nodes. The first source that has a key counts: keys given here or in the settings, the
    registry's pins, the keys that the node showed in its own session, the keys that it has signed with before.
    """
    person = trust_among(given, {peer.node for peer in settings.known}).before(settings.trust())
    trust = person.before(registry_trust(log)).before(introduced_to(settings.folder))
    signed = signed_keys(log)
    signers = {}
    for peer in settings.known:
        keys = trust.keys.get(peer.node) or {key_from_text(text) for text in signed.get(peer.node, ())}
        signers.update({public: _terms(settings, log, peer.node) for public in keys})
    return signers


def _opening_key(settings: NodeSettings) -> OpeningKey:
    return load_or_make(settings.folder / OPENING_KEY_NAME, OpeningKey.from_pem, OpeningKey.made)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise Misuse(
            f"{path} can not be read: {problem.strerror}", hint="name the receiver's Position file", code="file_unavailable"
        ) from problem


def _show_written(file: Path, written: BundleContents, signer: str) -> None:
    size = file.stat().st_size
    console.print(f"{file}: {written.records:,} records in {written.blocks:,} blocks, {size:,} bytes, signed with {signer}", markup=False)
    for (stream, origin), ranges in sorted(written.unread.items()):
        for first, end in ranges:
            console.print(f"not readable here, so not in it: {stream}:{origin} {first:,} to {end - 1:,}", style="red", markup=False)


def _show_taken(file: Path, outcome: Taken) -> None:
    console.print(f"{file}: {there_are(outcome.new_records, 'record')} new here, in {many(outcome.blocks, 'block')}", markup=False)
    lines = [f"not taken: {problem}" for problem in outcome.problems]
    lines += [
        f"missing of what it was to carry: {stream}:{origin} {first:,} to {end - 1:,}"
        for (stream, origin), ranges in sorted(outcome.missing.items())
        for first, end in ranges
    ]
    for line in lines[:LINES_MAX]:
        console.print(line, style="red", markup=False)
    if (more := len(lines) - LINES_MAX + outcome.problems_unreported) > 0:
        console.print(f"and {more:,} more", style="red", markup=False)
    if lines:
        console.print("→ what is whole is taken; have the rest written again, or take another copy of the file", markup=False)
