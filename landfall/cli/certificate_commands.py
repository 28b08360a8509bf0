"""`landfall certs`: an authority for development, the certificates it gives to nodes, and the contents of a certificate."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from landfall.system.private_files import read_private
from landfall.transport.certificates import KeyAndCertificate, describe, make_authority, make_node
from streams.model.errors import Misuse

AUTHORITY = "authority"
AUTHORITY_DAYS, NODE_DAYS = 3_650, 365

certs_app = typer.Typer(help="Certificates for the links between nodes.", no_args_is_help=True)

Days = Annotated[
    int, typer.Option("--days", min=1, max=36_500, help="Days of validity; a node's certificate is not valid longer than its authority.")
]
Folder = Annotated[Path, typer.Option("--folder", "-f", help="The authority's folder; certificates of nodes are written there too.")]


@certs_app.command("authority")
def authority(
    folder: Annotated[Path, typer.Argument(help="Folder to create: copy authority.pem to every node, and authority.key to none.")],
    name: Annotated[str, typer.Option("--name", help="Name of the authority.")] = "Landfall development",
    days: Days = AUTHORITY_DAYS,
) -> None:
    """Make an authority that signs nodes' certificates. For development: anyone who reads its key can pose as any node."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, {AUTHORITY: make_authority(name, datetime.now(UTC), days)})


@certs_app.command("node")
def node(
    names: Annotated[list[str], typer.Argument(metavar="NODE…", help="Nodes' names, as in their settings.")],
    folder: Folder,
    host: Annotated[list[str] | None, typer.Option("--host", help="Host name or address of the node's door. May be repeated.")] = None,
    days: Days = NODE_DAYS,
) -> None:
    """Make a certificate and a key for each node: NODE.pem and NODE.key, signed by the authority in the folder."""
    try:
        signer = KeyAndCertificate((folder / f"{AUTHORITY}.pem").read_bytes(), read_private(folder / f"{AUTHORITY}.key"))
    except OSError as problem:
        raise Misuse(
            f"{problem.filename} can not be read: {problem.strerror}", hint="`landfall certs authority` makes one", code="file_unavailable"
        ) from problem
    if AUTHORITY in names:
        raise Misuse(f"a node called {AUTHORITY!r} would take the authority's place", hint="give it another name", code="node_name_invalid")
    _write(folder, {name: make_node(signer, name, host or (), datetime.now(UTC), days) for name in names})


@certs_app.command("show")
def show(file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate: a .pem file.")]) -> None:
    """Show a certificate: node, host names, signer and validity."""
    try:
        said = describe(file.read_bytes())
    except OSError as problem:
        raise Misuse(f"{file} can not be read: {problem.strerror}", hint="name a certificate's file", code="file_unavailable") from problem
    now = datetime.now(UTC)
    state = "expired" if said.until <= now else "not yet valid" if said.since > now else f"{(said.until - now).days} days left"
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{'authority' if said.authority else 'node'} '{said.subject}', signed by '{said.issuer}'", markup=False)
    if said.hosts:
        console.print(f"for {', '.join(said.hosts)}", markup=False)
    console.print(f"counts from {said.since:%Y-%m-%d %H:%M}Z to {said.until:%Y-%m-%d %H:%M}Z: {state}", markup=False)


def _write(folder: Path, made: Mapping[str, KeyAndCertificate]) -> None:
    """Write both files of each certificate, durably; only the owner may read keys. Raises Misuse when a file exists already: nothing is
    written then.
    """
    wanted = {name: (folder / f"{name}.key", folder / f"{name}.pem") for name in made}
    for path in (path for paths in wanted.values() for path in paths):
        if path.exists():
            raise Misuse(f"{path} is there already", hint="move it away first: what it opens is lost with it", code="file_exists")
    console = Console(highlight=False, soft_wrap=True)
    for name, (key, certificate) in wanted.items():
        _write_file(key, made[name].key, 0o600)
        _write_file(certificate, made[name].certificate, 0o644)
        console.print(f"{key} {certificate}", markup=False)


def _write_file(path: Path, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
