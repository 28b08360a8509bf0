"""The command line `landfall`: one word per process, and tools for people around the log."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from landfall.bayplantools import bayplan_app
from landfall.certtools import certs_app
from landfall.demo import FOLDER
from landfall.fleettools import fleet_app
from landfall.logcopies import add_copies
from landfall.logtools import log_app
from landfall.payloadtools import payload_app
from landfall.processes import run_process
from landfall.prooftools import proof_app
from landfall.reporttools import report_app
from landfall.searchtools import write_search_area
from landfall.shiptools import ship_app
from landfall.simtools import sim_app
from landfall.streamtools import stream_app
from landfall.synctools import sync_app
from streams.errors import LandfallError

app = typer.Typer(
    name="landfall",
    help=(
        "[bold]Landfall[/bold] ⚓ telemetry streams for containers at sea.\n\n"
        "See it at work: [cyan]landfall demo[/cyan]. "
        "Look into what it wrote: [cyan]landfall log history CONTAINER -f landfall-demo/hq[/cyan]."
    ),
    epilog="Every setting: docs/settings.md   How it is built, and why: ARCHITECTURE.md",
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
DEMO, NODES, HEADQUARTERS, LOOKING = "See it at work", "Nodes, at sea and ashore", "Headquarters", "Look and manage"
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with the settings; LANDFALL_… variables override it.", show_default=False)
]
SETTINGS = "Every setting: docs/settings.md. Working examples, once a demo ran: landfall-demo/settings/. `GET /healthz` tells how it fares."


@app.command(rich_help_panel=DEMO)
def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where the demo keeps all its data.")] = FOLDER,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew; else it goes on where the last one stopped.")] = False,
    boxes: Annotated[
        int | None,
        typer.Option("--boxes", help="How many containers; belongs to a folder until --fresh.", show_default="the folder's, else 2000"),
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="Fleet time per wall time of a fresh demo.")] = 4_000.0,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="The same seed, the same readings; belongs to a folder until --fresh.", show_default="the folder's, else 1"
        ),
    ] = None,
    first_port: Annotated[
        int | None,
        typer.Option("--first-port", min=1024, max=65_000, help="Use the ports from here on, the pages' first."),
    ] = None,
) -> None:
    """The whole fleet on this machine: two ships, three ports, headquarters, Spark, the pages, and a voyage that loses some ducks."""
    from landfall.demo.fleet import Doors, Fleet
    from landfall.demo.run import run_demo, story_told

    doors = Doors() if first_port is None else Doors.beginning_at(first_port)
    story = story_told(folder.resolve(), speed, fresh=fresh, seed=seed, boxes=boxes)
    run_demo(Fleet(folder.resolve(), story, doors), fresh=fresh)


app.add_typer(ship_app, name="ship", rich_help_panel=NODES, epilog=SETTINGS)


@app.command(rich_help_panel=NODES, epilog=SETTINGS)
def port(config: Config = None) -> None:
    """A port's node, or headquarters': takes its quay's sensors, accepts ships, links to peers, serves the log."""
    run_process("port", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def analytics(config: Config = None) -> None:
    """Spark over headquarters' log: histories, current states, hourly aggregates, fleet alerts, customers' streams."""
    run_process("analytics", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def projector(config: Config = None) -> None:
    """Brings the streams into the serving database, which can be dropped at any time: it builds itself again."""
    run_process("projector", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def api(config: Config = None) -> None:
    """The HTTP API over the serving database, with accounts and each customer's boundary."""
    run_process("api", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def fanout(config: Config = None) -> None:
    """Headquarters' streams as plain JSON in a Kafka, each record once, with each reader's rights."""
    run_process("fanout", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def broker(config: Config = None) -> None:
    """One Kafka broker for development: alone, with logins and rights as in production."""
    run_process("broker", config)


@app.command(rich_help_panel=HEADQUARTERS, epilog=SETTINGS)
def dashboards(config: Config = None) -> None:
    """The pages: live fleet map, containers, alerts desk, customer portal, ports, sync."""
    run_process("dashboards", config)


app.add_typer(sim_app, name="sim", rich_help_panel=DEMO)
app.add_typer(fleet_app, name="fleet", rich_help_panel=DEMO)
add_copies(log_app)
app.add_typer(log_app, name="log", rich_help_panel=LOOKING)
app.add_typer(stream_app, name="stream", rich_help_panel=LOOKING)
app.add_typer(sync_app, name="sync", rich_help_panel=LOOKING)
app.add_typer(certs_app, name="certs", rich_help_panel=LOOKING)
app.add_typer(proof_app, name="proof", rich_help_panel=LOOKING)
app.add_typer(bayplan_app, name="bayplan", rich_help_panel=LOOKING)
app.add_typer(payload_app, name="payload", rich_help_panel=LOOKING)
app.add_typer(report_app, name="report", rich_help_panel=LOOKING)
app.command("search-area", rich_help_panel=LOOKING)(write_search_area)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a known error ends it with a sentence on what to do and exit code 2, never with a traceback."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="landfall")
    except LandfallError as problem:
        console = Console(stderr=True)
        console.print(f"landfall: {problem.args[0].rstrip()}", style="red", markup=False, highlight=False, soft_wrap=True)
        if problem.hint:
            console.print(f"→ {problem.hint}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
