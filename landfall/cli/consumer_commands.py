"""`landfall consumer`: a person accepts that a process never read records, because the node's log had dropped them."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from landfall.access.credentials import operator_token
from landfall.cli.lose_commands import Config
from landfall.cli.sync_commands import node_settings
from landfall.cli.table_output import say
from landfall.system.listen_address import url_here
from landfall.transport.http_client import AppendDoor, ReadDoor
from streams.model.errors import Misuse
from streams.model.identifiers import Origin
from streams.skipped_records import ACCEPTED, EXCEPTIONS, floor_append, floor_topic

consumer_app = typer.Typer(help="What reads a node's log: fanout, projector and analytics, and the node itself.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The process: fanout, projector or analytics; node: the node's own consumers.")]


@consumer_app.command("accept")
def accept(name: Name, config: Config) -> None:
    """Accept that records are missing from the results of a process, as `exceptions` reports. Its health is then good again.

    It does not bring the records back. If they still exist, delete the results of the process and let it start again.
    """
    node = node_settings(config)
    url, token = url_here(node.host, node.port), operator_token(node.folder)
    found = ReadDoor(url, token).latest(EXCEPTIONS, floor_topic(name))
    if not any(Origin.parse(row["origin"]).node == node.node for row in found):
        hint = "name the process: fanout, projector, analytics or node"
        raise Misuse(f"nothing was reported as missing at {name!r}", hint=hint, code="nothing_missing")
    reason = f"what {name} never read below its log's floor is known, and health says no more of it"
    AppendDoor(url, token).append([floor_append(name, reason, ACCEPTED, time.time_ns() // 1_000_000)])
    say(f"{name}: what it never read is accepted")
