"""`landfall ship`: run a ship's node; and, while it runs, show the ship's state or choose its link."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cargo.alerts.crew_decisions import BY_REPORT, WORDS
from landfall.cli.login_prompt import PasswordFile, User, basic, read_password
from landfall.cli.number_format import utc
from landfall.cli.status_output import KEYS, StatusFields, kept_here, node_of, others, sensors, sessions, show, spent, troubles
from landfall.process_table import run_process

HINT = "`landfall ship link --help` shows what there is"
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with the settings; LANDFALL_… variables override it.", show_default=False)
]
DECIDE_HINT = "the console's muster (`/console`) shows which boxes are silent or lost; `landfall ship decide --help` what can be said"
ship_app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")


class SaidWord(StrEnum):
    """The report of a person aboard on a box: the words of `cargo.alerts.crew_decisions`."""

    SEEN = "seen"
    COLLAPSED = "collapsed"
    GONE = "gone"
    ASHORE = "ashore"


@ship_app.callback()
def ship(context: typer.Context, config: Config = None) -> None:
    """Run a ship's node: it receives readings by MQTT, keeps the log, watches the containers, and synchronises when it has a link."""
    if context.invoked_subcommand is None:
        run_process("ship", config)
    context.obj = config


@ship_app.command("status")
def status(
    context: typer.Context,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with all fields.")] = False,
) -> None:
    """Show the state of the running ship: sensors, links, what waits and since when, what was sent today, and its cost."""
    keys = (*KEYS, "ship", "position", "port", "waiting", "digests")
    fields = node_of("ship", config or context.obj, HINT).answer("GET", "/ship", keys=keys)
    show(fields, as_json, _lines, [sessions(fields["link"]), _waiting(fields["waiting"])])


@ship_app.command("link")
def link(
    context: typer.Context,
    wish: Annotated[str, typer.Argument(metavar="LINK", help="auto, none, satellite, lan, or a port of call's UN/LOCODE.")],
    config: Config = None,
) -> None:
    """Choose the link of the running ship until the next such command, also after a restart: by position (auto), none, headquarters
    over the satellite or over an unmetered network (lan), or a port's.
    """
    fields = node_of("ship", config or context.obj, HINT).answer("POST", "/ship/link", {"link": wish}, keys=("wish",))
    Console(highlight=False).print(f"the ship keeps: {fields['wish']}", markup=False)


@ship_app.command("decide")
def decide(
    context: typer.Context,
    container: Annotated[str, typer.Argument(help="The container's number.")],
    said: Annotated[
        SaidWord, typer.Argument(help="; ".join(f"{word}: {meaning}" for word, meaning in WORDS.items() if word not in BY_REPORT) + ".")
    ],
    user: User,
    note: Annotated[str, typer.Option("--note", help="Note: what was seen, and from where.")] = "",
    password_file: PasswordFile = None,
    config: Config = None,
) -> None:
    """Record a person's report on a silent or lost container. It is stored in the log and sent ashore; muster and alerts follow it."""
    login = basic(user, read_password(password_file))
    wish = {"container": container, "said": said.value, "note": note}
    node = node_of("ship", config or context.obj, DECIDE_HINT, login)
    recorded = node.answer("POST", "/ship/decide", wish, keys=("container", "said", "by"))
    Console(highlight=False).print(f"{recorded['container']}: {WORDS[recorded['said']]}, says {recorded['by']}", markup=False)


def _lines(fields: StatusFields) -> Iterator[str]:
    where = fields["position"]
    place = f"{where['latitude_deg']:.4f} {where['longitude_deg']:.4f} at {utc(where['at_ms'])}" if where else "not known yet"
    yield f"{fields['node']} ({fields['ship']}), {'in ' + fields['port'] if fields['port'] else 'at sea'}, position {place}"
    yield from sensors(fields["intake"])
    yield from others(fields, "ship")
    yield f"link: {fields['link']['wish']}; in session with {', '.join(fields['link']['peers']) or 'nobody'}"
    yield from troubles(fields)
    yield from kept_here(fields, "aboard")
    yield _digests(fields["digests"])
    yield from spent(fields["link"])


def _digests(digests: StatusFields) -> str:
    """Return a sentence on digests: whether they are made, which window the last was of, and when the next is due."""
    last, window = digests["last"], "none yet"
    if last:
        window = (
            f"the last of {utc(last['from_at_ms'])} to {utc(last['until_at_ms'])}: {last['boxes']:,} boxes, {last['readings']:,} readings"
        )
    due = f"the next at {utc(digests['next_at_ms'])}" if digests["wait"] else "none while readings need not wait"
    return f"digests: every {digests['every_h']:g} h, {due}; {window}"


def _waiting(waiting: StatusFields) -> Table:
    table = Table("waits", "records", "since", box=None, header_style="bold")
    for stream, waits in waiting.items():
        table.add_row(stream, f"{waits['records']:,}", utc(waits["since_at_ms"]))
    return table
