"""`landfall sim`: the simulator, its clock's pause, speed and jumps, and the replay of recorded readings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from landfall.cli.node_requests import NodeAddress
from landfall.cli.number_format import utc
from landfall.demo import FOLDER, local_ports
from landfall.demo.demo_secrets import CONTROL, SECRETS, Secrets
from landfall.process_table import run_process

CONTROL_TIMEOUT_S = 5.0
Url = Annotated[str, typer.Option("--url", help="Address of the simulator's clock.")]
Folder = Annotated[Path, typer.Option("--folder", help="Folder of the demo, which has the token for the clock.")]
CLOCK_URL = f"http://127.0.0.1:{local_ports.CLOCK}"
Config = Annotated[Path | None, typer.Option("--config", "-c", help="TOML file with the settings; LANDFALL_… variables override it.")]

sim_app = typer.Typer(help="The simulated world, and the fleet's clock: pause it, speed it up, jump to a chapter.", no_args_is_help=True)


@sim_app.command("run")
def run(
    config: Config = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start the story over; without it the story continues.")] = False,
    hold: Annotated[bool, typer.Option("--hold", help="Hold the story until `landfall sim start`.")] = False,
) -> None:
    """Run the simulator: publish every sensor's readings, write the registry's entries, serve the clock."""
    run_process("sim run", config, fresh=fresh, hold=hold)


@sim_app.command("replay")
def replay(
    file: Annotated[Path, typer.Argument(help="CSV file of recorded readings, see docs/guide/simulator.md.")],
    config: Config = None,
) -> None:
    """Publish recorded readings of real sensors as containers of a ship, with their duplicates, gaps and sparse rows."""
    Console().print(str(run_process("sim replay", config, path=file)), markup=False)


@sim_app.command("clock")
def clock(url: Url = CLOCK_URL) -> None:
    """Print the fleet's time and its speed."""
    _control(url, "GET", "/clock")


@sim_app.command("start")
def start(url: Url = CLOCK_URL, folder: Folder = FOLDER) -> None:
    """Start a story that is held. A paused story stays paused."""
    _control(url, "POST", "/control", {"action": "start"}, folder)


@sim_app.command("pause")
def pause(url: Url = CLOCK_URL, folder: Folder = FOLDER) -> None:
    """Pause the fleet's time."""
    _control(url, "POST", "/control", {"action": "pause"}, folder)


@sim_app.command("resume")
def resume(url: Url = CLOCK_URL, folder: Folder = FOLDER) -> None:
    """Resume the fleet's time."""
    _control(url, "POST", "/control", {"action": "resume"}, folder)


@sim_app.command("speed")
def speed(
    times: Annotated[float, typer.Argument(help="Fleet time per wall time: 1 is real time.")], url: Url = CLOCK_URL, folder: Folder = FOLDER
) -> None:
    """Set the speed of the fleet's time."""
    _control(url, "POST", "/control", {"action": "speed", "speed": times}, folder)


@sim_app.command("jump")
def jump(
    chapter: Annotated[str, typer.Argument(help="A (Tokyo), B (Singapore) or C (off Sydney).")],
    url: Url = CLOCK_URL,
    folder: Folder = FOLDER,
) -> None:
    """Run as fast as this machine can to just before a chapter of the story."""
    _control(url, "POST", "/control", {"action": "jump", "chapter": chapter.upper()}, folder)


def _control(url: str, method: str, path: str, body: dict[str, Any] | None = None, folder: Path | None = None) -> None:
    hint, shown = "is the demo running? give its clock's address with --url", None
    if folder is not None and (folder / SECRETS).exists():
        shown = f"Bearer {Secrets(folder / SECRETS).of(CONTROL)}"
    clock = NodeAddress("the fleet's clock", url, start_it=hint, refused=hint, timeout_s=CONTROL_TIMEOUT_S, shown=shown)
    view = clock.answer(method, path, body, keys=("fleet_at_ms", "speed", "state"))
    Console().print(f"{utc(view['fleet_at_ms'])}  {view['speed']:g} x real time  {view['state']}", markup=False)
