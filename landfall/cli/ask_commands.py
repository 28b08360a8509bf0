"""`landfall ask`: request what a ship at sea has of one container, within its day's budget or once the price is agreed to."""

from __future__ import annotations

import json
import sys
import time
from math import ceil
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from cargo.vocabulary.trade_codes import check_container
from landfall.cli.hq_requests import Api, Username, answer_of, headquarters
from landfall.cli.login_prompt import PasswordFile
from landfall.cli.number_format import printable, read_at_ms, utc
from landfall.cli.table_output import write_notes
from landfall.cli.terminal_encoding import say
from streams.model.errors import Misuse

LOOK_S = 0.5
LISTED_MAX = 500
AGREED_TO = 1.01
"""Maximum cost that the user agrees to, as a factor of the price that was shown."""
Ship = Annotated[str | None, typer.Argument(help="The ship's IMO number.")]
Container = Annotated[str | None, typer.Argument(help="The container's number.")]
Since = Annotated[str | None, typer.Option("--since", help="Begin of the span, like 2026-05-01T04:00 (UTC).")]
Until = Annotated[str | None, typer.Option("--until", help="End of the span, not included.", show_default="the fleet's time now")]
PriceOnly = Annotated[bool, typer.Option("--price", help="Only show the price.")]
AtMost = Annotated[
    float | None,
    typer.Option("--at-most", min=0, help="Get the records for at most this price, also beyond the day's budget, without asking."),
]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Maximum time to wait for the answer, seconds.")]
Listed = Annotated[bool, typer.Option("--list", help="List queries to ships and their answers.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


def ask_ship(
    api: Api,
    username: Username,
    password_file: PasswordFile = None,
    ship: Ship = None,
    container: Container = None,
    since: Since = None,
    until: Until = None,
    price: PriceOnly = False,
    at_most: AtMost = None,
    wait_s: Wait = 60.0,
    list_: Listed = False,
    as_json: AsJson = False,
) -> None:
    """Ask a ship for one container's records of a span, over its present link. If the answer exceeds the day's budget, the ship sends
    the price first: a terminal asks you, a script uses --at-most.

    Exits with 1 when no records were brought or the ship has not answered yet. A ship without a link answers when it has one. The
    command then shows the time of the ship's last position at headquarters.
    """
    with headquarters(api, username, password_file) as client:
        if list_:
            asks = [ask for page in _pages(client) for ask in page]
            say("\n".join(map(json.dumps, asks))) if as_json else _show(asks)
            return
        if ship is None or container is None or since is None or (price and at_most is not None):
            raise Misuse(
                "SHIP, CONTAINER and --since say what to ask, --price or --at-most how",
                hint="or --list: what was asked before",
                code="arguments_missing",
            )
        write_notes([f"{container}: {problem}"] if (problem := check_container(container).problem) else [])
        span = {"since_at_ms": read_at_ms(since), "until_at_ms": read_at_ms(until) if until else _now_ms(client)}
        body = {"ship": ship, "container": container, **span, "spend": "nothing" if price else "budget"}
        while True:
            ask_id = answer_of(client, "POST", "/api/asks", json={**body, "at_most": at_most})["ask_id"]
            ask = _answered(client, ask_id, wait_s)
            say(json.dumps(ask) if as_json else _line(ask) if ask["answer"] else _waits(client, ask))
            if price or as_json or ask["state"] != "priced" or (at_most := _agreed(ask["answer"]["cost"])) is None:
                break
    if not (ask["arrived"] or (price and ask["state"] == "priced")):
        raise typer.Exit(1)


def _agreed(cost: float) -> float | None:
    """Return the price to which the person at the terminal agrees; None where they do not, or nobody is there. A repeated request may be a
    byte larger.
    """
    at_most = ceil(cost * AGREED_TO * 10_000) / 10_000
    return at_most if sys.stdin.isatty() and typer.confirm(f"Bring it, for at most {at_most:,.4f}?") else None


def _now_ms(client: httpx.Client) -> int:
    return int(answer_of(client, "GET", "/api/clock")["clock"]["now_at_ms"])


def _answered(client: httpx.Client, ask_id: str, wait_s: float) -> dict[str, Any]:
    """Return the question once it is answered and its records are there, or as it stands after `wait_s`."""
    end_s = time.monotonic() + wait_s
    while True:
        one: dict[str, Any] = answer_of(client, "GET", f"/api/asks/{ask_id}")["ask"]
        there = one["state"] in ("priced", "refused") or one["arrived"]
        if there or time.monotonic() >= end_s:
            return one
        time.sleep(LOOK_S)


def _pages(client: httpx.Client) -> Any:
    cursor = None
    while True:
        page = answer_of(client, "GET", "/api/asks", params={"limit": LISTED_MAX, **({"cursor": cursor} if cursor else {})})
        yield page["items"]
        if (cursor := page["next"]) is None:
            return


def _waits(client: httpx.Client, one: dict[str, Any]) -> str:
    """Return a sentence on a question that waits. The ship may have no link now, or no node at all: the time of its last position indicates
    which.
    """
    ships = answer_of(client, "GET", "/api/fleet")["ships"]
    heard_at_ms = next((ship["heard_at_ms"] for ship in ships if ship["imo"] == one["ship"]), None)
    heard = "headquarters has no position of the ship: does it have a node?"
    if heard_at_ms is not None:
        heard = f"headquarters' last position of the ship is of {utc(heard_at_ms)}"
    return f"{one['ask_id']}: asked; the ship has not answered yet; {heard} (`landfall ask --list` shows when it has)"


def _line(ask: dict[str, Any]) -> str:
    state = "answered, on its way" if ask["state"] == "answered" and not ask["arrived"] else ask["state"]
    return printable(f"{ask['ask_id']}: {state}: {ask['answer']['told']}")


def _show(asks: list[dict[str, Any]]) -> None:
    table = Table("ask", "ship", "container", "since", "until", "asked", "by", "state", "cost", "answer", box=None, header_style="bold")
    for ask in asks:
        answer = ask["answer"] or {"cost": None, "told": ""}
        state = "on its way" if ask["state"] == "answered" and not ask["arrived"] else ask["state"]
        cost = "" if answer["cost"] is None else f"{answer['cost']:,.4f}"
        times = (utc(ask[name]) for name in ("since_at_ms", "until_at_ms", "asked_at_ms"))
        since, until, asked = times
        row = (ask["ask_id"], ask["ship"], ask["container"], since, until, asked, ask["asked_by"], state, cost, answer["told"])
        table.add_row(*map(printable, row))
    Console(width=None if Console().is_terminal else 300).print(table if asks else "no ship was asked yet")
