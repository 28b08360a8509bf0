"""`landfall log lose`: give up offsets that nobody has any more, so that readers in order go on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from landfall.access.credentials import operator_token
from landfall.cli.log_commands import Stream, log_app
from landfall.cli.node_requests import NodeAddress
from landfall.cli.sync_commands import node_settings
from landfall.cli.table_output import say
from landfall.system.listen_address import url_here
from streams.model import identifiers
from streams.model.errors import Misuse

TIMEOUT_S = 30.0
Origin = Annotated[str, typer.Argument(help="Origin of the offsets, as `landfall log gaps` shows it: ship-a@19b2….")]
Offsets = Annotated[str, typer.Argument(metavar="FIRST-END", help="Offsets from FIRST to END, END not included: 120-140.")]
Config = Annotated[Path, typer.Option("--config", "-c", help="Settings file of the running node.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


Without = Annotated[list[str] | None, typer.Option("--without", help="A node that is away and does not have the records. May be repeated.")]


@log_app.command("missing")
def show_missing(
    config: Config,
    declare: Annotated[bool, typer.Option("--declare", help="Declare as gone what no known node holds.")] = False,
    without: Without = None,
) -> None:
    """Show, at headquarters, what it wants and the origin has dropped, as after the loss of headquarters' disk.

    It names nodes that still hold some of it, and nodes that are away. Nothing is declared while a node is away, unless it is named
    with --without. Declared offsets are `expired`; a record that still arrives is accepted. Exits with 1 while anything is missing.
    """
    door, left = _door(config), False
    for one in door.answer("GET", "/missing", keys=("missing",))["missing"]:
        where = f"{one['stream']}:{one['origin']} {_in_words(one['ranges'])}"
        if one["held_by"]:
            say(f"{where}: held by {', '.join(sorted(one['held_by']))}")
            left = True
            continue
        away = sorted(set(one["away"]) - set(without or ()))
        if not declare or away:
            say(f"{where}: dropped by its origin, held by no node in session" + (f"; away: {', '.join(away)}" if away else ""))
            left = True
            continue
        for first, end in one["ranges"]:
            asked = {"origin": one["origin"], "first": first, "end": end, "sure": True, "without": list(without or ())}
            door.answer("POST", f"/lose/{one['stream']}", asked, keys=("lost",))
        say(f"{where}: declared gone, expired")
    raise typer.Exit(1 if left else 0)


@log_app.command("lose")
def lose(
    stream: Stream,
    origin: Origin,
    offsets: Offsets,
    config: Config,
    yes: Yes = False,
    without: Without = None,
) -> None:
    """Declare offsets lost that no node has, here and at every node that receives the declaration. Nobody waits for them afterwards.

    Run it at the node that wrote them, or at headquarters for a node that is dead. Offsets that this copy or a peer in session has are
    refused. For a node's own records it is final; another node's record that still arrives is accepted.
    """
    door, asked = _door(config), {"origin": _origin(origin), **_range(offsets), "without": list(without or ())}
    preview = door.answer("POST", f"/lose/{stream}", {**asked, "sure": False}, keys=("lost", "away", "known_end"))
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{stream}:{origin} {_ranges(preview)}: neither this node nor a peer in session has them", markup=False)
    if preview["away"]:
        console.print(f"not in session, and may have them: {', '.join(preview['away'])}", markup=False)
    if preview["lost"][-1][1] > preview["known_end"]:
        console.print(f"nothing is known here of offsets from {preview['known_end']} on", markup=False)
    if not yes and not typer.confirm("Give them up?"):
        raise typer.Exit(1)
    declared = door.answer("POST", f"/lose/{stream}", {**asked, "sure": True}, keys=("lost",))
    console.print(f"{stream}:{origin} {_ranges(declared)}: lost", markup=False)


def _origin(text: str) -> str:
    try:
        return str(identifiers.Origin.parse(text))
    except ValueError:
        raise Misuse(f"{text!r} is no origin", hint="`landfall log gaps` shows them: ship-a@19b2…", code="origin_invalid") from None


def _range(offsets: str) -> dict[str, int]:
    found = re.fullmatch(r"(\d{1,18})-(\d{1,18})", offsets, re.ASCII)
    if found is None or int(found[1]) >= int(found[2]):
        raise Misuse(f"{offsets!r} is no range of offsets", hint="write FIRST-END, END not included: 120-140", code="offsets_invalid")
    return {"first": int(found[1]), "end": int(found[2])}


def _ranges(fields: dict[str, Any]) -> str:
    return _in_words(fields["lost"])


def _in_words(ranges: list[list[int]]) -> str:
    return ", ".join(f"{first}-{end}" for first, end in ranges)


def _door(config: Path) -> NodeAddress:
    node = node_settings(config)
    url, hint = url_here(node.host, node.port), "`landfall log gaps` shows what is wanted"
    return NodeAddress(
        f"'{node.node}'", url, start_it="start the node", refused=hint, timeout_s=TIMEOUT_S, shown=f"Bearer {operator_token(node.folder)}"
    )
