"""`landfall consumer`: what a process at headquarters never read, because its log had dropped it, is known to a person."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from hq.belowfloor import acceptance, floor_topic
from landfall.losetools import Config
from landfall.synctools import node_settings
from landfall.writingout import say
from streams.credentials import operator_token
from streams.errors import Misuse
from streams.link.door import AppendDoor, ReadDoor
from streams.listening import url_here

consumer_app = typer.Typer(help="Processes that read headquarters' log: fanout, projector.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The process: fanout or projector.")]


@consumer_app.command("accept")
def accept(name: Name, config: Config) -> None:
    """Accept that records are missing from what a process makes, as `exceptions` say: its health is well again.

    The records do not come back by that. Where they still exist, delete what the process has made, and let it start from nothing.
    """
    node = node_settings(config)
    url, token = url_here(node.host, node.port), operator_token(node.folder)
    if not list(ReadDoor(url, token).latest("exceptions", floor_topic(name))):
        hint = "name the process as its health does: fanout, projector"
        raise Misuse(f"nothing was reported as missing at {name!r}", hint=hint, code="nothing_missing")
    AppendDoor(url, token).append([acceptance(name, time.time_ns() // 1_000_000)])
    say(f"{name}: what it never read is accepted")
