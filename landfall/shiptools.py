"""`landfall ship`: a ship's node; and what her crew asks of it while it runs: how she fares, and which link to keep."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cargo.byhand import BY_REPORT, WORDS
from intake.arrivals import Outcome
from landfall.asking import Asked
from landfall.lognumbers import utc
from landfall.processes import run_process, settings_of
from streams.budget import BYTES_A_MB

TIMEOUT_S = 10.0
HINT = "`landfall ship link --help` tells what there is"
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with the settings; LANDFALL_… variables override it.", show_default=False)
]
DECIDE_HINT = "the console's muster (`/console`) shows which boxes are silent or lost; `landfall ship decide --help` what can be said"
ship_app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")


class SaidWord(StrEnum):
    """What a person aboard says of a box: the words of `cargo.byhand`."""

    SEEN = "seen"
    COLLAPSED = "collapsed"
    GONE = "gone"
    ASHORE = "ashore"


@ship_app.callback()
def ship(context: typer.Context, config: Config = None) -> None:
    """A ship's node: takes sensors' readings by MQTT, keeps the log, watches over the boxes, syncs when it has a link."""
    if context.invoked_subcommand is None:
        run_process("ship", config)
    context.obj = config


@ship_app.command("status")
def status(
    context: typer.Context,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="All that the node tells, for programs.")] = False,
) -> None:
    """How the running ship fares: her sensors, her links, what waits and since when, what was sent today and what it cost."""
    keys = ("node", "ship", "position", "port", "link", "waiting", "kept_here", "digests", "intake")
    told = ship_of(config or context.obj).answer("GET", "/ship", keys=keys)
    if as_json:
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in _lines(told):
        console.print(line, markup=False)
    for table in _tables(told):
        console.print(table)


@ship_app.command("link")
def link(
    context: typer.Context,
    wish: Annotated[str, typer.Argument(metavar="LINK", help="auto, none, satellite, lan, or a port of call's UN/LOCODE.")],
    config: Config = None,
) -> None:
    """Which link the running ship keeps, until the next such word, over restarts too: by where she is (auto); none; headquarters' over
    the satellite, or over a network that is not dear (lan); or a port's."""
    told = ship_of(config or context.obj).answer("POST", "/ship/link", {"link": wish}, keys=("wish",))
    Console(highlight=False).print(f"the ship keeps: {told['wish']}", markup=False)


@ship_app.command("decide")
def decide(
    context: typer.Context,
    container: Annotated[str, typer.Argument(help="The container's number.")],
    said: Annotated[
        SaidWord, typer.Argument(help="; ".join(f"{word}: {told}" for word, told in WORDS.items() if word not in BY_REPORT) + ".")
    ],
    by: Annotated[str, typer.Option("--by", help="Who says it: it is written down.")],
    note: Annotated[str, typer.Option("--note", help="What was seen, from where.")] = "",
    config: Config = None,
) -> None:
    """What a person aboard says of a silent or lost box: it is kept in the log, told ashore, and muster and alerts follow it."""
    wish = {"container": container, "said": said.value, "by": by, "note": note}
    told = ship_of(config or context.obj, DECIDE_HINT).answer("POST", "/ship/decide", wish, keys=("container", "said", "by"))
    Console(highlight=False).print(f"{told['container']}: {WORDS[told['said']]}, says {told['by']}", markup=False)


def ship_of(config: Path | None, hint: str = HINT) -> Asked:
    """The door of the ship's node of these settings, to be asked; `hint`: what to do when it refuses."""
    settings: Any = settings_of("ship", config)
    node = settings.node
    url, token = f"http://{node.host}:{node.port}", node.token.get_secret_value()
    return Asked(f"'{node.node}'", url, start_it="start it with `landfall ship`", refused=hint, timeout_s=TIMEOUT_S, token=token)


def _lines(told: dict[str, Any]) -> Iterator[str]:
    where = told["position"]
    place = f"{where['latitude_deg']:.4f} {where['longitude_deg']:.4f} at {utc(where['at_ms'])}" if where else "not known yet"
    yield f"{told['node']} ({told['ship']}), {'in ' + told['port'] if told['port'] else 'at sea'}, position {place}"
    yield _sensors(told["intake"])
    for trouble in told["intake"]["troubles"]:
        yield f"  {trouble}"
    yield f"link: {told['link']['wish']}; in session with {', '.join(told['link']['peers']) or 'nobody'}"
    if told["kept_here"]:
        yield f"kept aboard alone, because headquarters lets others write it: {', '.join(told['kept_here'])}"
    yield _digests(told["digests"])
    for name, budget in told["link"]["budgets"].items():
        open_for = {"open": "open", "alerts": "for alerts alone until midnight UTC", "overdrawn": "overdrawn by alerts"}[budget["state"]]
        allowed = budget["bytes_per_day"] + budget["granted_bytes"]
        yield (
            f"budget of the {name} link, {budget['day']} UTC: {budget['spent_bytes']:,} of {allowed:,} bytes, "
            f"{budget['reserve_bytes']:,} of them for alerts; cost {budget['cost']:,.2f}; {open_for}"
        )
        if unsure := budget["unsure_bytes"]:
            yield (
                f"  of what is spent, {unsure:,} bytes (cost {unsure / BYTES_A_MB * budget['price_per_mb']:,.2f}) "
                "were leased ahead as the node ended: "
                "they count, so that no byte is spent twice, and may not have passed"
            )
    for name, passed in told["link"]["traffic"].items():
        cost = "no price is set" if passed["cost"] is None else f"cost {passed['cost']:,.2f}"
        since = utc(passed["since_wall_at_ms"])
        yield f"passed the {name} link since {since}: {passed['sent_bytes']:,} bytes out, {passed['received_bytes']:,} in; {cost}"


def _sensors(told: dict[str, Any]) -> str:
    """By which ways they come in, and what became of what they brought since the node was started."""
    port, broker = told["mqtt_port"], told["broker_connected"]
    ways = [f"MQTT on port {port}"] if port is not None else []
    ways += [] if broker is None else [f"at a broker that is {'' if broker else 'not '}connected"]
    counted = {one.name.lower(): told.get(one.name.lower(), 0) for one in Outcome} | {"waiting": told.get("waiting", 0)}
    became = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counted.items() if count)
    came = f"{told.get('received', 0):,} came in since the start" + (f": {became}" if became else "")
    return f"sensors: {' and '.join(ways) or 'no way in'}; {came}"


def _digests(told: dict[str, Any]) -> str:
    """Whether digests are made, of which window the last was, and when the next is due."""
    last, made = told["last"], "none yet"
    if last:
        made = (
            f"the last of {utc(last['from_at_ms'])} to {utc(last['until_at_ms'])}: {last['boxes']:,} boxes, {last['readings']:,} readings"
        )
    due = f"the next at {utc(told['next_at_ms'])}" if told["wait"] else "none while readings need not wait"
    return f"digests: every {told['every_h']:g} h, {due}; {made}"


def _tables(told: dict[str, Any]) -> Iterator[Table]:
    links = Table("link to", "class", "sent bytes", "received bytes", "sent records", "still lacks", box=None, header_style="bold")
    for name, peer in told["link"]["peers"].items():
        counts = (peer[what] for what in ("sent_bytes", "received_bytes", "sent_records", "backlog_records"))
        links.add_row(name, peer["link"], *(f"{count:,}" for count in counts))
    waiting = Table("waits", "records", "since", box=None, header_style="bold")
    for stream, waits in told["waiting"].items():
        waiting.add_row(stream, f"{waits['records']:,}", utc(waits["since_at_ms"]))
    yield from (table for table in (links, waiting) if table.row_count)
