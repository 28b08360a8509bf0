"""`landfall stream`: the streams, how they are managed, and what a node's log holds of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from landfall.cli.hq_requests import Api, Username, answer_of, headquarters
from landfall.cli.log_folder import opened
from landfall.cli.login_prompt import PasswordFile
from landfall.cli.number_format import counts, utc
from landfall.cli.table_output import say, writing
from landfall.node.services.definition_watcher import learn, read_definition
from streams.config.definition_format import is_name_or_pattern, read_fields
from streams.config.stream_definitions import DEFAULTS, TERMS, TYPE, Definition, Definitions, Retention
from streams.log import LogReader
from streams.model.errors import Misuse
from streams.model.identifiers import Position
from streams.model.records import BODY, read_body

NONE = "none"

stream_app = typer.Typer(help="The streams, and how each is managed.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A stream, or a pattern that ends in a star: containers, customers/duckworks, customers/*.")]
Folder = Annotated[Path | None, typer.Option("--folder", "-f", help="Folder of a node, for its knowledge.")]
OptionalApi = Annotated[str | None, typer.Option("--api", help="Address of headquarters' API: http://host:port.")]
Settings = Annotated[
    list[str],
    typer.Argument(
        metavar="SETTING=VALUE…",
        help="age_days=30 bytes=none home=hq replicate=hq,port/JPTYO originate=ship,port lane=readings patience_s=60",
    ),
]

Unset = Annotated[list[str] | None, typer.Argument(metavar="[SETTING…]", help="age_days bytes home replicate originate lane patience_s")]


@stream_app.command("create")
def create(name: Name, settings: Settings, api: Api, username: Username, password_file: PasswordFile = None) -> None:
    """Give a stream its own settings; other settings keep their defaults. Takes effect at every node, without restart."""
    given = _given(settings)
    with headquarters(api, username, password_file) as client:
        version, before = _own(client, name)
        if before:
            raise Misuse(f"{name} has settings of its own already", hint="change them with `landfall stream set`", code="definition_exists")
        _write(client, name, given, based_on=version)


@stream_app.command("set")
def set_(name: Name, settings: Settings, api: Api, username: Username, password_file: PasswordFile = None) -> None:
    """Change settings of a stream; others keep their values. Takes effect at every node, without restart.

    Refused when somebody else changes the stream at the same time: look at the present settings and repeat the change.
    """
    given = _given(settings)
    with headquarters(api, username, password_file) as client:
        version, before = _own(client, name)
        if not before:
            raise Misuse(f"{name} has no settings of its own", hint="give it some with `landfall stream create`", code="definition_unknown")
        if "retention" in given:
            given["retention"] = {**before.get("retention", {}), **given["retention"]}
        _write(client, name, {**before, **given}, based_on=version)


@stream_app.command("unset")
def unset(name: Name, api: Api, username: Username, password_file: PasswordFile = None, settings: Unset = None) -> None:
    """Remove a stream's own settings, those named or all, so that patterns and defaults apply. Takes effect at every node, without
    restart.

    Refused when somebody else changes the stream at the same time: look at the present settings and repeat the change.
    """
    with headquarters(api, username, password_file) as client:
        version, before = _own(client, name)
        flat = {**before, **before.get("retention", {})}
        flat.pop("retention", None)
        wanted = settings or list(flat)
        if strange := [one for one in wanted if one not in flat] or ([] if flat else ["settings"]):
            has = f"it has {', '.join(flat)}" if flat else "it uses patterns and defaults already"
            raise Misuse(f"{name} has no {' and no '.join(strange)} of its own", hint=has, code="setting_not_own")
        left = {field: value for field, value in before.items() if field != "retention" and field not in wanted}
        if retention := {field: value for field, value in before.get("retention", {}).items() if field not in wanted}:
            left["retention"] = retention
        _write(client, name, left, based_on=version)


@stream_app.command("show")
def show(
    name: Name,
    folder: Folder = None,
    api: OptionalApi = None,
    username: Username = "",
    password_file: PasswordFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show the settings of a stream: its own, those of patterns and the defaults together."""
    _check(name)
    definitions = _definitions(folder, api, username, password_file)
    whole, version = definitions.of(name).to_json(), definitions.versions().get(name, 0)
    if as_json:
        say(json.dumps({"name": name, "version": version, "value": whole}))
        return
    table = Table(box=None, show_header=False)
    for field, value in {"stream": name, "version": version or "not set itself", **_settings_text(definitions.of(name))}.items():
        table.add_row(field, str(value), style=None)
    with writing(None):
        Console().print(table, markup=False)


@stream_app.command("versions")
def list_versions(
    name: Name,
    folder: Annotated[Path, typer.Option("--folder", "-f", help="Folder of a node, for the versions that it has.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, one object per version.")] = False,
) -> None:
    """List the versions of a stream's own settings, the oldest first: fleet time, author and value."""
    _check(name)
    table = Table("version", "set at", "by", "settings", box=None, header_style="bold")
    for version, body in sorted(_versions(folder, name).items()):
        if as_json:
            say(json.dumps({key: body.get(key) for key in ("version", "at_ms", "by", "value")}))
        at_ms = body.get("at_ms")
        table.add_row(str(version), utc(at_ms) if isinstance(at_ms, int) else "?", str(body.get("by", "")), json.dumps(body["value"]))
    if not as_json:
        shown = table if table.row_count else f"{name} has no settings of its own here"
        _print(shown)


@stream_app.command("ls")
def list_streams(
    folder: Folder = None,
    api: OptionalApi = None,
    username: Username = "",
    password_file: PasswordFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, one object per stream.")] = False,
) -> None:
    """List streams and their settings; from a node's folder also records, origins and what is missing."""
    definitions = _definitions(folder, api, username, password_file)
    held = {} if folder is None else _held(folder)
    columns = ("origins", "held", "gone", "wanted") if folder else ()
    table = Table("stream", *columns, "lane", "kept for", "at most", "home", "goes to", box=None, header_style="bold")
    for stream in sorted(held or {*DEFAULTS, *definitions.versions()}):
        definition = definitions.of(stream)
        kept = _retention_text(definition.retention)
        if as_json:
            amounts_of = dict(zip(columns, held[stream], strict=True)) if stream in held else {}
            say(json.dumps({"name": stream, **amounts_of, "value": definition.to_json()}))
            continue
        amounts = [f"{number:,}" for number in held[stream]] if stream in held else []
        table.add_row(stream, *amounts, definition.lane.name.lower(), *kept, definition.home, ", ".join(definition.replicate))
    if not as_json:
        _print(table)


def _print(content: Table | str) -> None:
    """Print a table as wide as the terminal; where there is none, as wide as most of its lines are."""
    with writing(None):
        Console(width=None if Console().is_terminal else 200).print(content, markup=False)


def _check(name: str) -> None:
    """Raise Misuse for what can be neither a stream nor a pattern of streams."""
    if not is_name_or_pattern(name):
        raise Misuse(
            f"{name!r} is no stream",
            hint="write one like containers or customers/duckworks, or a pattern like customers/*",
            code="stream_invalid",
        )


def _held(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    with opened(folder) as log:
        return {stream: counts(log.ledger(stream).values()) for stream in log.streams()}


def _definitions(folder: Path | None, api: str | None, username: str, password_file: Path | None) -> Definitions:
    if (folder is None) == (api is None):
        raise Misuse(
            "either a node's folder or headquarters' API says how streams are managed",
            hint="give --folder or --api",
            code="source_ambiguous",
        )
    definitions = Definitions()
    if api is not None:
        if not username:
            raise Misuse(
                "headquarters' API answers those who log in", hint="give --username; the password is asked for", code="username_missing"
            )
        with headquarters(api, username, password_file) as client:
            for name, one in _standing(client).items():
                definitions.take(name, one["version"], read_fields(name, one["value"]))
        return definitions
    with opened(folder or Path()) as log:
        for stream in _teaching(log):
            for batch in log.read(stream, Position()):
                learn(definitions, batch.records)
    return definitions


def _teaching(log: LogReader) -> list[str]:
    """Return the streams that define to this copy how streams are managed. For a customer's copy, which has no such streams, return those
    with the terms it received.
    """
    streams = log.streams()
    registered = [one for one in streams if one == "registry" or one.startswith("aboard/")]
    return registered or [one for one in streams if one.startswith(TERMS)]


def _versions(folder: Path, name: str) -> dict[int, dict[str, Any]]:
    """Return the registry's entries for the stream or pattern `name`, by version, as far as this node has received them."""
    found = {}
    with opened(folder) as log:
        for stream in _teaching(log):
            for batch in log.read(stream, Position(), [f"{TYPE}/{name}"]):
                for text in batch.records.column(BODY).to_pylist():
                    try:
                        found[read_definition(text)[1]] = read_body(text)
                    except ValueError:
                        continue  # nodes that manage streams by it skip it, too
    return found


def _given(settings: list[str]) -> dict[str, Any]:
    """Return `SETTING=VALUE` words as a definition's value; headquarters decides which values are valid."""
    given: dict[str, Any] = {}
    for word in settings:
        field, equals, text = word.partition("=")
        if not equals:
            raise Misuse(f"{word!r} is no setting", hint="write it like age_days=30 or replicate=hq,port/JPTYO", code="setting_unknown")
        if field in ("age_days", "bytes"):
            given.setdefault("retention", {})[field] = _number(field, text)
        elif field == "patience_s":
            given[field] = _number(field, text)
        else:
            given[field] = text.split(",") if field in ("replicate", "originate") else text
    return given


def _number(field: str, text: str) -> float | int | None:
    if text == NONE:
        return None
    try:
        number = int(text) if text.isdecimal() else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Misuse(
            f"{field} is a number or `{NONE}`, not {text!r}",
            hint=f"write {field}={NONE} where there is to be no limit",
            code="number_invalid",
        )
    return number


def _own(client: httpx.Client, name: str) -> tuple[int, dict[str, Any]]:
    """Return the current version of `name`, and its own settings in it: 0 and none when there never were any."""
    standing = _standing(client).get(name, {})
    return standing.get("version", 0), standing.get("value", {})


def _standing(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in answer_of(client, "GET", "/api/registry/streams")["items"]}


def _write(client: httpx.Client, name: str, value: Mapping[str, Any], based_on: int) -> None:
    entries = [{"type": TYPE, "id": name, "value": value, "based_on": based_on}]
    entry = answer_of(client, "POST", "/api/registry", json={"entries": entries})["entries"][0]
    what = "is set" if entry["written"] else "stood like this already"
    say(f"{name} {what}, version {entry['version']}")


def _settings_text(definition: Definition) -> dict[str, str]:
    age, size = _retention_text(definition.retention)
    patience = definition.patience_s
    return {
        "kept for": age,
        "at most": size,
        "home": definition.home,
        "goes to": ", ".join(definition.replicate),
        "written by": ", ".join("all but customers" if who == "*" else who for who in definition.originate),
        "lane": definition.lane.name.lower(),
        "patience at a hole": "as long as it takes" if patience is None else f"{patience:g} s",
        "access": definition.access or "–",
    }


def _retention_text(retention: Retention) -> tuple[str, str]:
    age = "ever" if retention.age_days is None else f"{retention.age_days:g} days"
    return age, "no limit" if retention.bytes is None else f"{retention.bytes:,} B"
