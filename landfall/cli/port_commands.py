"""`landfall port`: a node ashore, a port's or headquarters'; and its state, for its operators while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from landfall.cli.status_output import KEYS, StatusFields, kept_here, node_of, others, sensors, sessions, show, spent, troubles
from landfall.process_table import run_process

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with the settings; LANDFALL_… variables override it.", show_default=False)
]
HINT = "`landfall port --help` shows what there is"
port_app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")


@port_app.callback()
def port(context: typer.Context, config: Config = None) -> None:
    """Run the node of a port or of headquarters: it receives sensors of its quay, accepts ships, links to peers, and serves the
    log.
    """
    if context.invoked_subcommand is None:
        run_process("port", config)
    context.obj = config


@port_app.command("status")
def status(
    context: typer.Context,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with all fields.")] = False,
) -> None:
    """Show the state of the running node: messages of sensors by outcome, its standby, sessions, and what each peer still lacks."""
    fields = node_of("port", config or context.obj, HINT).answer("GET", "/port", keys=(*KEYS, "role", "port"))
    show(fields, as_json, _lines, [sessions(fields["link"])])


def _lines(fields: StatusFields) -> Iterator[str]:
    quay, link = fields["role"] == "port", fields["link"]
    yield f"{fields['node']} ({fields['port']}), a port's node" if quay else f"{fields['node']}, headquarters' node"
    if quay:
        yield from sensors(fields["intake"])
        yield from others(fields, "port")
    in_vain = [name for name in link["dials"] if name not in link["peers"]]
    yield f"in session with {', '.join(link['peers']) or 'nobody'}" + (f"; dials {', '.join(in_vain)} in vain" if in_vain else "")
    yield from troubles(fields)
    yield from kept_here(fields, "here")
    yield from spent(link)
