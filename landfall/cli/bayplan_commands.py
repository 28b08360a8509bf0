"""`landfall bayplan`: bay plans as ships and terminals exchange them (UN/EDIFACT BAPLIE), into the registry's load lists and back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import httpx
import msgspec
import typer

from cargo.baplie.baplie_reader import Read, read_bayplan
from cargo.baplie.baplie_writer import Dialect, write_bayplan
from cargo.baplie.bay_plan import BayPlan, PlanProblem
from cargo.vocabulary.registry_entries import LoadList, Stowed
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import is_container, is_imo, is_locode
from landfall.cli.hq_requests import Api, Username, answer_of, headquarters
from landfall.cli.login_prompt import PasswordFile
from landfall.cli.number_format import read_at_ms, utc
from landfall.cli.table_output import whole_file
from landfall.cli.terminal_encoding import say
from landfall.system.text_files import ENCODING
from streams.model.errors import Misuse

SAME_CALL_MS = 3 * 86_400_000
"""Maximum difference of sailing times, milliseconds, within which a plan of the last call's port corrects that call. Any other plan begins
the next call.
"""
ALL, NONE, REEFERS = "all", "none", "reefers"

bayplan_app = typer.Typer(
    help="Bay plans (UN/EDIFACT BAPLIE, 2.x and 3.x): check them, and start and follow a ship from them.", no_args_is_help=True
)
File = Annotated[Path, typer.Argument(help="A BAPLIE file of the ship or the terminal.")]
_SIDES = ("port", "centre", "starboard")
_OF_FILE = frozenset({"container", "slot", "size_type"})
"""Fields whose problems the file's own notes report, with the segment."""
PROBLEMS_SHOWN_MAX = 20
"""Maximum number of problems, and of notes, that are shown of a file."""


@bayplan_app.command("check")
def check(file: File) -> None:
    """Read a bay plan and show its content and its faults, with segment and remedy. Writes nothing and needs no network."""
    read = _read(file)
    for line in summary(read.plan):
        say(line)


@bayplan_app.command("import")
def import_(
    file: File,
    api: Api,
    username: Username,
    password_file: PasswordFile = None,
    ship: Annotated[str, typer.Option("--ship", help="IMO number of the ship, if the file does not have it.")] = "",
    port: Annotated[str, typer.Option("--port", help="Port of departure (UN/LOCODE), if the file does not have it.")] = "",
    departs: Annotated[
        str, typer.Option("--departs", help="Time of departure, like 2026-05-01T18:00+09:00; by default from the file.")
    ] = "",
    call: Annotated[
        int | None,
        typer.Option("--call", min=1, help="Number of the ship's call; by default the next one, or the last one as a correction."),
    ] = None,
    trackers: Annotated[
        str,
        typer.Option(
            "--trackers",
            help="Containers with a tracker: all, none, reefers, or a file with one number per line; by default from the file.",
        ),
    ] = "",
    empty: Annotated[
        bool, typer.Option("--empty", help="The ship sails without containers: all that were on board are discharged.")
    ] = False,
) -> None:
    """Write a bay plan as the load list of a ship's call to headquarters, whole or not at all. Needs a clerk's account. The same
    plan again changes nothing.
    """
    read, port = _read(file).plan, port.strip().upper()
    if not read.boxes and not empty:
        raise Misuse(
            f"no box is in {file}: all that were aboard would count as discharged",
            hint="give another file, or --empty if it is so",
            code="plan_empty",
        )
    read = replace(read, boxes=tuple(_tracked(read.boxes, trackers)))
    by_call_sign = bool(read.call_sign and not (ship or read.ship))
    plan = read if by_call_sign else _completed(read, ship, port, departs)
    with headquarters(api, username, password_file) as client:
        if by_call_sign:
            plan = _completed(read, _ship_of(client, read.call_sign), port, departs)
        assert plan.departs_at_ms is not None
        listed = _standing(client, plan.ship)
        number = call if call is not None else next_call(listed["calls"], plan.port, plan.departs_at_ms)
        earlier = [one["call"] for one in listed["calls"] if one["call"] < number]
        before = [box["container"] for box in _standing(client, plan.ship, max(earlier))["load_list"]["aboard"]] if earlier else None
        value = plan.load_list(number, plan.departs_at_ms, before)
        entries = [{"type": "load_list", "id": value.id, "value": msgspec.to_builtins(value)}]
        answer = answer_of(client, "POST", "/api/registry", json={"entries": entries})
    for line in _first(list(_of_registry(answer["notes"]))):
        say(f"note: {line}", err=True)
    entry = answer["entries"][0]
    for line in summary(plan):
        say(line)
    discharged = "what is discharged is not known" if before is None else f"{len(value.discharge):,} discharged"
    done = "is written" if entry["written"] else "stood like this already"
    say(f"load list {value.id} {done}, version {entry['version']}: {len(value.load):,} loaded, {discharged}")


@bayplan_app.command("export")
def export(
    ship: Annotated[str, typer.Argument(help="The ship's IMO number.")],
    file: Annotated[Path, typer.Argument(help="The BAPLIE file to write.")],
    api: Api,
    username: Username,
    password_file: PasswordFile = None,
    call: Annotated[int | None, typer.Option("--call", min=1, help="Number of the ship's call; by default the last.")] = None,
    dialect: Annotated[Dialect, typer.Option("--dialect", help="2: BAPLIE 2.2 (D.95B), the most common; 3: BAPLIE 3.1 (D.13B).")] = "2",
) -> None:
    """Write a load list of headquarters as a bay plan for other programs. `landfall bayplan import` reads the same list from it."""
    with headquarters(api, username, password_file) as client:
        listed = _standing(client, ship, call)
    if listed["load_list"] is None:
        raise Misuse(
            f"headquarters has no load list of ship {ship}", hint="write one with `landfall bayplan import`", code="load_list_unknown"
        )
    value = msgspec.convert(listed["load_list"], LoadList)
    plan = BayPlan(value.ship, listed["name"] or "", "", value.port, "", value.departs_at_ms, value.aboard)
    with whole_file(file) as place:
        place.write_bytes(write_bayplan(plan, dialect, time.time_ns() // 1_000_000))
    say(f"{file}: {len(plan.boxes):,} boxes of load list {value.id}")


def next_call(calls: Sequence[dict[str, Any]], port: str, departs_at_ms: int) -> int:
    """Return the call that a plan is of: the last known one, corrected, when it is of the same port and nearly the same time; else the
    next.

    `calls`: the known calls, in order, with `call`, `port` and `departs_at_ms` (UTC ms). Raises Misuse when the plan sails before the last
    one.
    """
    if not calls:
        return 1
    last = calls[-1]
    if last["port"] == port and abs(last["departs_at_ms"] - departs_at_ms) <= SAME_CALL_MS:
        return int(last["call"])
    if departs_at_ms <= last["departs_at_ms"]:
        known = f"call {last['call']} at {last['port']} sails {utc(last['departs_at_ms'])}"
        raise Misuse(
            f"the plan sails {utc(departs_at_ms)} from {port}, and {known}, later",
            hint="say which call it is with --call",
            code="call_ambiguous",
        )
    return int(last["call"]) + 1


def summary(plan: BayPlan) -> Iterator[str]:
    """Yield the contents of a plan, in lines for the person who decides whether it is the right plan."""
    slots = [Slot.parse(box.slot) for box in plan.boxes if box.slot]
    deck = sum(slot.on_deck for slot in slots)
    sails = "at a time not given" if plan.departs_at_ms is None else utc(plan.departs_at_ms)
    yield f"{plan.ship_name or 'ship'} {plan.ship or '(IMO number not given)'} leaves {plan.port or 'a port not given'} {sails}"
    nowhere = f", {len(plan.boxes) - len(slots):,} without a slot" if len(slots) < len(plan.boxes) else ""
    bays = len({slot.bay for slot in slots})
    yield f"{len(plan.boxes):,} boxes in {bays} bays: {deck:,} on deck, {len(slots) - deck:,} in the hold{nowhere}"
    weights_kg: Counter[str] = Counter()
    for box in plan.boxes:
        side = Slot.parse(box.slot).side if box.slot else "without a slot"
        weights_kg[side] += 0 if box.weight_kg is msgspec.UNSET else box.weight_kg
    if weights_kg:
        sides = ", ".join(
            f"{weights_kg[side] / 1_000:,.0f} t {side}" for side in ("port", "centre", "starboard", *weights_kg.keys() - _SIDES)
        )
        yield f"{weights_kg.total() / 1_000:,.0f} t: {sides}"
    reefers = [box for box in plan.boxes if box.is_reefer]
    goods = [box.dangerous for box in plan.boxes if box.dangerous is not msgspec.UNSET and box.dangerous]
    numbers = sorted({one.un_number for some in goods for one in some})
    yield f"{len(reefers):,} reefers, {sum(box.setpoint_c is not msgspec.UNSET for box in reefers):,} with a set temperature"
    yield f"{len(goods):,} boxes with dangerous goods{': UN ' + ', '.join(numbers) if numbers else ''}"
    ports = Counter(box.pod for box in plan.boxes)
    yield f"to {', '.join(f'{pod} {count:,}' for pod, count in sorted(ports.items())) or 'nowhere'}"
    if plan.port and (here := ports[plan.port]):
        yield f"{here:,} of them to {plan.port}, which the ship leaves: check whether this is the plan with which it came"
    untracked = sum(not box.tracker for box in plan.boxes)
    yield f"{untracked:,} without a tracker" if untracked else "all with a tracker"


def _read(file: Path) -> Read:
    """Return the plan in the file, and print its notes. Raises Misuse where it is no whole plan."""
    try:
        content = file.read_bytes()
    except OSError as problem:
        raise Misuse(f"{file} can not be read: {problem.strerror}", hint="give the right path", code="file_unavailable") from None
    read = read_bayplan(content)
    if read.problems:
        lines = "\n".join(f"  {line}" for line in _first(read.problems))
        count = f"{len(read.problems)} problem{'s' if len(read.problems) > 1 else ''}"
        raise Misuse(f"{count} in {file}:\n{lines}\n", hint="give a whole plan", code="plan_unreadable")
    for line in _first(read.notes):
        say(f"note: {line}", err=True)
    return read


def _of_registry(notes: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield what the file gives and headquarters' registry does not know, each once, with the number of its lines."""
    counts = Counter(one["note"] for one in notes if one["given"] and one["field"] not in _OF_FILE)
    for note, count in counts.items():
        yield note if count == 1 else f"{note} ({count:,} lines)"


def _first(problems: Sequence[PlanProblem | str]) -> Iterator[str]:
    yield from map(str, problems[:PROBLEMS_SHOWN_MAX])
    if len(problems) > PROBLEMS_SHOWN_MAX:
        yield f"{len(problems) - PROBLEMS_SHOWN_MAX:,} more, {len(problems):,} in all"


def _ship_of(client: httpx.Client, call_sign: str) -> str:
    """Return the IMO number of the registry's ship of this call sign; empty where no ship, or more than one, has it."""
    ship = str(_standing(client, call_sign)["ship"])
    return ship if is_imo(ship) else ""


def _completed(plan: BayPlan, ship: str, port: str, departs: str) -> BayPlan:
    """Return the plan, completed with what its file lacks. Raises Misuse with everything that is missing or contradicts the file."""
    problems = []
    if ship and plan.ship and ship != plan.ship:
        problems.append(f"the file is of ship {plan.ship}, not {ship}: leave --ship out, or give the right file")
    elif not is_imo(ship or plan.ship):
        named = f"call sign {plan.call_sign} is in no entry of the registry, " if plan.call_sign and not ship else ""
        problems.append(f"the ship is not known: {named}give its IMO number with --ship{f', {ship!r} is none' if ship else ''}")
    if port and plan.port and port != plan.port:
        problems.append(f"the file is of {plan.port}, not {port}: leave --port out, or give the right file")
    elif not is_locode(port or plan.port):
        problems.append(f"the port the ship leaves is not known: give its UN/LOCODE with --port{f', {port!r} is none' if port else ''}")
    if not departs and plan.departs_at_ms is None:
        problems.append("the time of sailing is not known: give it with --departs, like 2026-05-01T18:00+09:00")
    if problems:
        raise Misuse(
            "\n  ".join(["the plan can not be made a load list:", *problems]), hint="say what the file does not", code="plan_incomplete"
        )
    departs_at_ms = read_at_ms(departs) if departs else plan.departs_at_ms
    return replace(plan, ship=ship or plan.ship, port=port or plan.port, departs_at_ms=departs_at_ms)


def _tracked(boxes: Iterable[Stowed], trackers: str) -> Iterator[Stowed]:
    """Yield the boxes, each with whether it carries a tracker. Raises Misuse when `trackers` is neither a known word nor a file of
    numbers.
    """
    if not trackers:
        yield from boxes
        return
    named: set[str] = set() if trackers in (ALL, NONE, REEFERS) else _numbers(Path(trackers))
    for box in boxes:
        carries = trackers == ALL or (trackers == REEFERS and box.is_reefer) or box.container in named
        yield msgspec.structs.replace(box, tracker=carries)


def _numbers(file: Path) -> set[str]:
    try:
        lines = {line.strip() for line in file.read_text(ENCODING).splitlines() if line.strip()}
    except (OSError, UnicodeDecodeError):
        raise Misuse(
            f"--trackers {file}: no such word, and no text file",
            hint="give all, none, reefers, or a file of numbers",
            code="trackers_invalid",
        ) from None
    if wrong := sorted(line for line in lines if not is_container(line)):
        raise Misuse(
            f"{file}: not a valid container number: {', '.join(wrong[:20])}",
            hint="one valid number of ISO 6346 a line",
            code="container_number_invalid",
        )
    return lines


def _standing(client: httpx.Client, ship: str, call: int | None = None) -> dict[str, Any]:
    return answer_of(client, "GET", f"/api/registry/load_lists/{ship}", params={} if call is None else {"call": call})
