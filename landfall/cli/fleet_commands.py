"""`landfall fleet …`: settings of a whole fleet, for whoever starts its processes by other means than `landfall demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from landfall.cli.terminal_encoding import say

fleet_app = typer.Typer(help="The demo's fleet for other ways to start it: docker compose.", no_args_is_help=True)


@fleet_app.command()
def write(
    folder: Annotated[Path, typer.Argument(help="Where the containers keep the fleet: settings, secrets, accounts and data.")],
    boxes: Annotated[int, typer.Option("--boxes", help="How many containers; belongs to a folder for good.")] = 2_000,
    speed: Annotated[float, typer.Option("--speed", help="Fleet time per wall time at the start.")] = 4_000.0,
    seed: Annotated[int, typer.Option("--seed", help="The same seed, the same readings; belongs to a folder for good.")] = 1,
) -> None:
    """Write what `docker-compose.yml` needs: every process's settings, the brokers' logins, the people's accounts. Again: the same."""
    from landfall.demo.container_fleet import write_containers
    from landfall.demo.fleet_settings import Story

    write_containers(folder.resolve(), Story(seed=seed, boxes=boxes, speed=speed))
    say(f"written: {folder / 'settings'}")
