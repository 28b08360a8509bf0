"""`landfall fleet …`: write the settings of a whole fleet whose processes are started by other means than `landfall demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from landfall.cli.terminal_encoding import say

fleet_app = typer.Typer(help="The demo's fleet for other ways to start it: docker compose.", no_args_is_help=True)


@fleet_app.command()
def write(
    folder: Annotated[Path, typer.Argument(help="Folder of the fleet: settings, secrets, accounts and data.")],
    boxes: Annotated[int, typer.Option("--boxes", help="Number of containers; fixed for a folder.")] = 2_000,
    speed: Annotated[float, typer.Option("--speed", help="Fleet time per wall time at the start.")] = 4_000.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the readings; fixed for a folder.")] = 1,
) -> None:
    """Write the settings, logins and accounts that `docker-compose.yml` needs. Repeating it changes nothing."""
    from landfall.demo.container_fleet import write_containers
    from landfall.demo.fleet_settings import PlayedStory

    write_containers(folder.resolve(), PlayedStory(seed=seed, boxes=boxes, speed=speed))
    say(f"written: {folder / 'settings'}")
