"""`landfall credential`: the principals of a node's door and their rights, in a file of that node's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cargo.vocabulary.trade_codes import is_imo
from intake.topic_routes import gateway_filters
from landfall.access.credentials import CredentialFile
from landfall.access.mqtt_filters import topic_pattern
from landfall.access.password_checks import hash_password
from landfall.access.principals import CREW, GATEWAY, VERBS, Allowed, Verb, check_principal
from landfall.cli.login_prompt import read_password
from landfall.cli.terminal_encoding import say
from streams.model.errors import Misuse
from streams.model.identifiers import composed

credential_app = typer.Typer(
    help="Who may do what at a node's door. A change holds within 5 s; no node has to start again.", no_args_is_help=True
)

Folder = Annotated[Path, typer.Option("--folder", "-f", help="The node's folder: `folder` in its settings.")]
Who = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Principal: user:NAME, node:NAME, gateway:NAME, ship:IMO, customer:ID …")]
Streams = list[str] | None


def _on(verb: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{verb}", metavar="STREAM", help=f"May {verb} this stream, or all of this pattern. May be repeated."
    )
    return option


@credential_app.command("add")
def add(
    who: Who,
    folder: Folder,
    produce: Annotated[Streams, _on("produce")] = None,
    consume: Annotated[Streams, _on("consume")] = None,
    replicate: Annotated[Streams, _on("replicate")] = None,
    admin: Annotated[Streams, _on("admin")] = None,
    ship: Annotated[
        str, typer.Option("--ship", metavar="IMO", help="Of a gateway without --produce: may also publish what this ship's sensors report.")
    ] = "",
    crew: Annotated[
        str, typer.Option("--crew", metavar="NAME", help="Name and rank of a crew member, as recorded with their actions.")
    ] = "",
    password_file: Annotated[Path | None, typer.Option("--password-file", help="File whose first line is the person's password.")] = None,
) -> None:
    """Give a program a token, which is shown once and not stored, or a crew member (--crew) a password. It replaces the previous one. A
    gateway (gateway:NAME) logs in over MQTT with NAME and its token; its --produce are MQTT topic filters. Without them it may publish
    readings of containers, and reports of the ship of --ship.
    """
    file, given = CredentialFile(folder), zip(VERBS, (produce, consume, replicate, admin), strict=True)
    allowed: dict[Verb, tuple[str, ...]] = {verb: tuple(streams) for verb, streams in given if streams}
    check_principal(who)
    if crew:
        if allowed:
            raise Misuse(
                "the crew may do what the console does", hint="leave out --produce and the others, or --crew", code="crew_only_console"
            )
        file.give_password(who, CREW, composed(crew), hash_password(read_password(password_file, twice=True)))
        say(f"{who} may log in at the console, as {crew}")
        return
    if who.startswith(GATEWAY):
        allowed = _gateways(allowed, ship)
    elif ship:
        raise Misuse("--ship is for a gateway", hint=f"write {GATEWAY}NAME, or leave it out", code="ship_only_gateway")
    if not allowed:
        raise Misuse(
            f"{who} would be allowed nothing",
            hint="name streams: --consume containers, or --crew 'Anna Lind, master'",
            code="credential_empty",
        )
    token = file.give_token(who, allowed)
    Console(stderr=True, highlight=False).print(f"{who} may {_allowed(allowed)}. Its token, which is shown this once:", markup=False)
    say(token)


def _gateways(allowed: Allowed, ship: str) -> dict[Verb, tuple[str, ...]]:
    """Return what a gateway may do, by MQTT topic filters: what it is given to produce, else `gateway_filters`."""
    if allowed.keys() - {"produce"}:
        raise Misuse(
            "a gateway publishes over MQTT and does nothing else",
            hint="give it --produce FILTER, or nothing for the usual topics",
            code="gateway_only_publishes",
        )
    if ship and not is_imo(ship):
        raise Misuse(f"{ship!r} is no IMO number of a ship", hint="write its 7 digits", code="imo_invalid")
    if ship and allowed:
        raise Misuse("--produce names all that the gateway may publish", hint="leave out --ship", code="ship_without_produce")
    filters = allowed.get("produce", gateway_filters(ship))
    for one in filters:
        try:
            topic_pattern(one)
        except ValueError as problem:
            raise Misuse(str(problem), hint="write it as landfall/containers/+/reading", code="filter_invalid") from None
    return {"produce": filters}


@credential_app.command("withdraw")
def withdraw(who: Who, folder: Folder) -> None:
    """Withdraw all rights of a principal and end what it is doing."""
    CredentialFile(folder).withdraw(who)
    say(f"{who} is withdrawn")


@credential_app.command("list")
def list_credentials(folder: Folder) -> None:
    """List all principals and what they may do at the node."""
    table = Table("principal", "known by", "name", "may", box=None, header_style="bold")
    for one in CredentialFile(folder).read():
        table.add_row(one.principal, "password" if one.password_argon2 else "token", one.title, _allowed(one.allow))
    Console().print(table)


def _allowed(allowed: Allowed) -> str:
    return "; ".join(f"{verb} {', '.join(streams)}" for verb, streams in allowed.items() if streams)
