"""The command line `landfall`: one word per process, and tools for people around the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from landfall.cli.terminal_encoding import escape_what_is_not_encoded
from landfall.demo import FOLDER
from landfall.process_table import NotInstalled, found, run_process
from streams.model.errors import LandfallError

app = typer.Typer()
"""The words that are commands themselves."""
DEMO, NODES, HEADQUARTERS, LOOKING = "See it at work", "Nodes, at sea and ashore", "Headquarters", "Look and manage"
UMASK = 0o027
"""Mode mask: files that a process makes are for its user, for its group to read, and for nobody else: logs, tables, snapshots."""
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with the settings; LANDFALL_… variables override it.", show_default=False)
]
SETTINGS = "Every setting: docs/reference/settings.md. Examples, after a demo: landfall-demo/settings/. State: `GET /healthz`."


@app.command(rich_help_panel=DEMO)
def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Folder for all data of the demo.")] = FOLDER,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over; without it the last demo continues.")] = False,
    boxes: Annotated[
        int | None,
        typer.Option("--boxes", help="Number of containers; fixed for a folder until --fresh.", show_default="the folder's, else 2000"),
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="Fleet time per wall time of a fresh demo.")] = 4_000.0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of the readings; fixed for a folder until --fresh.", show_default="the folder's, else 1"),
    ] = None,
    first_port: Annotated[
        int | None,
        typer.Option("--first-port", min=1024, max=65_000, help="First TCP port to use, for the pages; the others follow."),
    ] = None,
) -> None:
    """Run the whole fleet on this machine: two ships, three ports, headquarters, Spark, the pages, and a voyage that loses some
    ducks.
    """
    from landfall.cli.demo_command import chosen_story, run_demo
    from landfall.demo.fleet_settings import Doors, Fleet

    doors = Doors() if first_port is None else Doors.beginning_at(first_port)
    story = chosen_story(folder.resolve(), speed, fresh=fresh, seed=seed, boxes=boxes)
    run_demo(Fleet(folder.resolve(), story, doors), fresh=fresh)


@app.command(rich_help_panel=NODES, epilog=SETTINGS)
def customer(config: Config = None) -> None:
    """Run a customer's own node: it receives the customer's stream, verifies headquarters' signatures, and serves it."""
    run_process("customer", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def analytics(config: Config = None) -> None:
    """Run Spark over headquarters' log: histories, current states, hourly aggregates, fleet alerts, customers' streams."""
    run_process("analytics", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def projector(config: Config = None) -> None:
    """Run the projector: it writes the streams into the serving database, and rebuilds that when it is dropped."""
    run_process("projector", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def api(config: Config = None) -> None:
    """Run the HTTP API over the serving database, with accounts and each customer's boundary."""
    run_process("api", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def fanout(config: Config = None) -> None:
    """Write headquarters' streams as JSON to Kafka, each record once, with each reader's rights."""
    run_process("fanout", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def broker(config: Config = None) -> None:
    """Run one Kafka broker for development, with logins and rights as in production."""
    run_process("broker", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def dashboards(config: Config = None) -> None:
    """Run the pages: live fleet map, containers, alerts desk, customer portal, ports, sync."""
    run_process("dashboards", config)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands: where they are found, as `module:name`, and the panel of the first screen that shows them."""

    where: str
    panel: str
    epilog: str | None = None


GROUPS = {
    "ship": Group("landfall.cli.ship_commands:ship_app", NODES, SETTINGS),
    "port": Group("landfall.cli.port_commands:port_app", NODES, SETTINGS),
    "sim": Group("landfall.cli.sim_commands:sim_app", DEMO),
    "fleet": Group("landfall.cli.fleet_commands:fleet_app", DEMO),
    "log": Group("landfall.cli.log_command_group:log_app", LOOKING),
    "stream": Group("landfall.cli.stream_commands:stream_app", LOOKING),
    "sync": Group("landfall.cli.sync_commands:sync_app", LOOKING),
    "consumer": Group("landfall.cli.consumer_commands:consumer_app", HEADQUARTERS),
    "account": Group("landfall.cli.account_commands:account_app", HEADQUARTERS),
    "credential": Group("landfall.cli.credential_commands:credential_app", NODES),
    "keys": Group("landfall.cli.key_commands:keys_app", NODES),
    "certs": Group("landfall.cli.certificate_commands:certs_app", LOOKING),
    "proof": Group("landfall.cli.proof_commands:proof_app", LOOKING),
    "bayplan": Group("landfall.cli.bayplan_commands:bayplan_app", LOOKING),
    "payload": Group("landfall.cli.payload_commands:payload_app", LOOKING),
    "report": Group("landfall.cli.report_commands:report_app", LOOKING),
}
SINGLE = {
    "ask": Group("landfall.cli.ask_commands:ask_ship", LOOKING),
    "judge": Group("landfall.cli.judge_commands:judge_again", LOOKING),
    "plan": Group("landfall.cli.plan_commands:plan_voyage", LOOKING),
    "search-area": Group("landfall.cli.search_commands:write_search_area", LOOKING),
}
"""Words that are one command each, found as groups are."""


def line_for(words: Sequence[str] = ()) -> typer.Typer:
    """Return the command line. It is whole, unless the first of `words` is known: then as much as that needs, because loading the rest
    takes a second.

    The whole has the commands whose packages this machine has. Raises NotInstalled for a known first word whose packages are missing.
    """
    line = typer.Typer(
        name="landfall",
        help=(
            "[bold]Landfall[/bold] ⚓ telemetry streams for containers at sea.\n\n"
            "See it at work: [cyan]landfall demo[/cyan]. "
            "Look into what it wrote: [cyan]landfall log history CONTAINER -f landfall-demo/hq[/cyan]."
        ),
        epilog="Every setting: docs/reference/settings.md   How it is built: ARCHITECTURE.md   Why: docs/decisions",
        rich_markup_mode="rich",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    line.registered_commands += app.registered_commands
    single = {command.callback.__name__ for command in app.registered_commands if command.callback}
    known = [word for word in words[:1] if word in (*GROUPS, *SINGLE, *single)]
    unless_named = () if known else (NotInstalled,)
    for name, group in GROUPS.items():
        if not known or name in known:
            with suppress(*unless_named):
                line.add_typer(found(group.where), name=name, rich_help_panel=group.panel, epilog=group.epilog)
    for name, command in SINGLE.items():
        if not known or name in known:
            with suppress(*unless_named):
                line.command(name, rich_help_panel=command.panel)(found(command.where))
    return line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a known error ends it with a sentence on what to do and exit code 2, never with a traceback."""
    os.umask(UMASK)
    escape_what_is_not_encoded()
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        line_for(words)(args=words, prog_name="landfall")
    except LandfallError as problem:
        console = Console(stderr=True)
        console.print(f"landfall: {problem.args[0].rstrip()}", style="red", markup=False, highlight=False, soft_wrap=True)
        if problem.hint:
            console.print(f"→ {problem.hint}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
