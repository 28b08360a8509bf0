"""`landfall report`: loss reports read from any node's log, and the ship's crew's work on them while its node runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table

from cargo.errors import BadEntry
from cargo.report.loss_form import LINES
from cargo.report.loss_report import RECIPIENTS, LossReport, ReportBook, Sending, To, receipt_of
from cargo.report.loss_text import report_text
from cargo.report.owner_notice import NOTICE_STATES, notices
from cargo.vocabulary.registry_entries import NoticeStage, parse_entry
from cargo.vocabulary.registry_fold import Registry
from landfall.cli.log_folder import opened
from landfall.cli.login_prompt import PasswordFile, User, basic, read_password
from landfall.cli.node_requests import NodeAddress
from landfall.cli.number_format import read_at_ms, utc
from landfall.cli.search_commands import Current, ForecastFile, Wind, weather_given
from landfall.cli.status_output import node_of
from landfall.cli.table_output import whole_file
from landfall.cli.terminal_encoding import say
from streams.body_reader import Bodies
from streams.log import LogReader
from streams.model.errors import Misuse

REPORTS = "reports"
HINT = "`landfall report ls` shows the reports, `landfall report show` one with its version"

report_app = typer.Typer(help="Loss reports: what the ship drafted, edited, approved, and written down as sent.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--folder", "-f", help="Folder of a node: a ship's, a port's or headquarters'.")]
Which = Annotated[str, typer.Argument(metavar="REPORT", help="Id of the report, or its first letters, a dash and the number: 77aa-1.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Config = Annotated[Path | None, typer.Option("--config", "-c", help="The ship's settings file.", show_default=False)]


class Recipient(StrEnum):
    """The recipients of a report."""

    SHIPS = "ships-in-vicinity"
    COASTAL = "coastal-state"
    FLAG = "flag-state"
    COMPANY = "company"
    OTHER = "other"


@report_app.command("ls")
def list_reports(folder: Folder, as_json: AsJson = False) -> None:
    """List all reports of this node: incident, kind, number, state, number of containers, number of recipients."""
    reports = _book(folder).reports()
    if as_json:
        for report in reports:
            say(json.dumps(report.to_json(), ensure_ascii=False))
        return
    columns = ("kind", "state", "lost", "at risk", "heard again", "written", "by", "sent to")
    table = Table("report", *columns, box=None, header_style="bold")
    for report in reports:
        content = report.content
        counts = [str(len(boxes)) for boxes in (content.lost, content.at_risk, content.found)]
        sent = ", ".join(_sent_to(report, one) for one in report.sendings)
        table.add_row(report.id, report.head.kind, report.state, *counts, utc(report.written_at_ms), report.written_by, sent)
    Console(width=None if Console().is_terminal else 240).print(table if reports else "no report: nothing was lost that this node knows of")


@report_app.command("show")
def show(which: Which, folder: Folder, as_json: AsJson = False) -> None:
    """Print one report, to read and to transcribe: each line with its value and its basis."""
    report = _one(folder, which)
    if as_json:
        say(json.dumps(report.to_json(), ensure_ascii=False))
        return
    say(report_text(report))
    say(f"version {report.digest[:8]}: `landfall report approve` wants it")


@report_app.command("export")
def export(
    which: Which, folder: Folder, file: Annotated[Path, typer.Option("--output", "-o", help="FILE.txt, FILE.json or FILE.pdf.")]
) -> None:
    """Write one report to a file, as text, JSON or PDF by the file's name."""
    report = _one(folder, which)
    with whole_file(file) as place:
        place.write_bytes(_as_file(report, file.suffix))
    say(f"{file}: {report.head.kind} report {report.id}, {report.state}")


@report_app.command("notices")
def show_notices(
    folder: Folder,
    notice_state: Annotated[
        str | None,
        typer.Option("--told-from", help=f"Policy of the carrier ({', '.join(NOTICE_STATES)}), instead of the one this node has."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the notice to each owner, with its own containers only, by the bookings that this node has."""
    policy: NoticeStage | None = next((name for name in NOTICE_STATES if name == notice_state), None)
    if notice_state is not None and policy is None:
        raise Misuse(
            f"owners are notified from {' or '.join(NOTICE_STATES)}, not {notice_state!r}",
            hint="`landfall report notices --help`",
            code="notice_state_unknown",
        )
    with opened(folder, judged=True) as log:
        registry = _registry(log)
        owner_notices = notices(_read(log).reports(), registry, policy or registry.notice_stage)
    for notice in owner_notices:
        say(json.dumps(notice.to_json(), ensure_ascii=False) if as_json else notice.to_json()["text"])


@report_app.command("edit")
def edit(
    which: Which,
    given: Annotated[list[str], typer.Argument(metavar="LINE=TEXT…", help=f"What to fill in: {', '.join(line.name for line in LINES)}.")],
    user: User,
    config: Config = None,
    password_file: PasswordFile = None,
) -> None:
    """Fill in lines of a draft on the running ship's node. LINE= means unknown. It cancels an earlier approval."""
    _wished(CrewLogin(config, user, password_file), {"do": "edit", "report": which, "given": _lines(given)})


@report_app.command("drift")
def drift(
    which: Which,
    user: User,
    wind: Wind = "",
    current: Current = "",
    forecast: ForecastFile = None,
    hours: Annotated[int, typer.Option("--hours", help="Hours of drift.")] = 24,
    config: Config = None,
    password_file: PasswordFile = None,
) -> None:
    """Compute the line `drift` of a draft from the place of the loss, in this wind and current, and fill it in on the running
    ship's node.
    """
    weather = [asdict(one) for one in weather_given(wind, current, forecast, at_ms=0).weather]
    _wished(CrewLogin(config, user, password_file), {"do": "drift", "report": which, "weather": weather, "hours": hours})


@report_app.command("drifting")
def drifting(
    given: Annotated[list[str], typer.Argument(metavar="LINE=TEXT…", help="Known lines, as for `edit`: number_lost=2.")],
    user: User,
    after: Annotated[
        str, typer.Option("--after", help="An earlier report of the same sighting. The new report is its UPDATE and keeps its other lines.")
    ] = "",
    config: Config = None,
    password_file: PasswordFile = None,
) -> None:
    """Draft a report of containers seen adrift. Its place is the ship's, unless latitude_deg, longitude_deg and occurred_at are
    given. It is approved and sent like other reports.
    """
    _wished(CrewLogin(config, user, password_file), {"do": "drifting", "given": _lines(given), "after": after})


@report_app.command("approve")
def approve(
    which: Which,
    version: Annotated[str, typer.Option("--version", help="Version that you read: the last line of `landfall report show`.")],
    user: User,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    config: Config = None,
    password_file: PasswordFile = None,
) -> None:
    """Approve the version you read. The command shows empty lines and asks for confirmation. It sends nothing: send the report by
    the ship's means, then record the recipient.
    """
    asking = CrewLogin(config, user, password_file)
    login = asking.login()
    report = asking.node(login).answer("GET", f"/ship/reports/{quote(which, safe='')}.json", keys=("kind", "report_id", "empty"))
    empty = ", ".join(line.title for line in LINES if line.name in report["empty"])
    say(f"{report['kind']} report {report['report_id']}: {f'empty: {empty}' if empty else 'no line is empty'}")
    if yes or typer.confirm("Approve it?"):
        asking.done({"do": "approve", "report": which, "digest": version}, login)


@report_app.command("sent")
def sent(
    which: Which,
    to: Annotated[Recipient, typer.Option("--to", help="Recipient.")],
    means: Annotated[str, typer.Option("--means", help="Means: VHF 16, Inmarsat-C, e-mail.")],
    user: User,
    name: Annotated[str, typer.Option("--name", help="Name of the recipient: RCC Australia.")] = "",
    at: Annotated[str | None, typer.Option("--at", help="When (UTC): 2026-05-01T04:00:00.", show_default="now")] = None,
    config: Config = None,
    password_file: PasswordFile = None,
) -> None:
    """Record that an approved report was sent, once for each recipient."""
    when = None if at is None else read_at_ms(at)
    _wished(
        CrewLogin(config, user, password_file),
        {"do": "sent", "report": which, "to": _code(to), "means": means, "name": name, "sent_at_ms": when},
    )


@report_app.command("acknowledged")
def acknowledged(
    which: Which,
    to: Annotated[Recipient, typer.Option("--to", help="Recipient of the sending.")],
    who: Annotated[str, typer.Option("--who", help="Person who acknowledged it.")],
    user: User,
    name: Annotated[str, typer.Option("--name", help="Name of the recipient, as in the sending.")] = "",
    at: Annotated[str | None, typer.Option("--at", help="When (UTC): 2026-05-01T04:00:00.", show_default="now")] = None,
    config: Config = None,
    password_file: PasswordFile = None,
) -> None:
    """Record that a recipient acknowledged a report that was sent."""
    when = None if at is None else read_at_ms(at)
    wish = {"do": "acknowledged", "report": which, "to": _code(to), "name": name, "who": who, "acknowledged_at_ms": when}
    _wished(CrewLogin(config, user, password_file), wish)


@report_app.command("final")
def final(
    incident: Annotated[str, typer.Argument(help="Full id of the incident or of the sighting.")],
    user: User,
    config: Config = None,
    password_file: PasswordFile = None,
) -> None:
    """Draft the FINAL report of an incident or a sighting, after a thorough inspection. Fill in the number of containers with
    `edit`.
    """
    _wished(CrewLogin(config, user, password_file), {"do": "final", "incident": incident})


def _code(to: Recipient) -> To:
    return next(one for one in RECIPIENTS if one == to.value.upper().replace("-", "_"))


def _lines(given: list[str]) -> dict[str, str]:
    lines: dict[str, str] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals:
            raise Misuse(f"{word!r} fills in nothing", hint='write it like afloat=3 or "cargo_spill=none seen"', code="field_invalid")
        if name in lines:
            raise Misuse(f"{name} is filled in twice", hint="give each line once", code="field_repeated")
        lines[name] = text
    return lines


@dataclass(frozen=True, slots=True)
class CrewLogin:
    """The login of a person to a ship's node: the node's settings, the person's user name, and the file of the password, if not to be asked
    for.
    """

    config: Path | None
    user: str
    password_file: Path | None

    def login(self) -> str:
        """Return the header that identifies the person. Ask for the password where there is no file of it."""
        return basic(self.user, read_password(self.password_file))

    def node(self, login: str) -> NodeAddress:
        """Return the address of the ship's node for requests with `login`."""
        return node_of("ship", self.config, HINT, login)

    def done(self, wish: dict[str, Any], login: str) -> None:
        """Request `wish` from the node, and print the state of the report after it."""
        report = self.node(login).answer("POST", "/ship/report", wish, keys=("kind", "report_id", "state", "digest"))
        say(f"{report['kind']} report {report['report_id']} is {report['state']}, version {report['digest'][:8]}")


def _wished(asking: CrewLogin, wish: dict[str, Any]) -> None:
    asking.done(wish, asking.login())


def _sent_to(report: LossReport, sending: Sending) -> str:
    receipt = receipt_of(report, sending)
    receiver = f"{sending.to} {sending.name}".strip()
    return receiver if receipt is None else f"{receiver} (acknowledged {utc(receipt.acknowledged_at_ms)})"


def _as_file(report: LossReport, ending: str) -> bytes:
    if ending == ".json":
        return (json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n").encode()
    if ending == ".pdf":
        from cargo.report.loss_pdf import report_pdf

        return report_pdf(report)
    if ending == ".txt":
        return report_text(report).encode()
    raise Misuse(
        f"a report is written as text, JSON or PDF, not as {ending or 'a file without ending'!r}",
        hint="write -o report.pdf",
        code="format_unknown",
    )


def _one(folder: Path, which: str) -> LossReport:
    try:
        return _book(folder).find(which)
    except ValueError as problem:
        raise Misuse(str(problem), hint=HINT, code="report_unknown") from None


def _book(folder: Path) -> ReportBook:
    with opened(folder, judged=True) as log:
        return _read(log)


def _read(log: LogReader) -> ReportBook:
    """Return all reports that this copy holds, past holes too. A record of another version of this program is left out."""
    book = ReportBook()
    for _, body in Bodies(log, REPORTS).news():
        try:
            book.learn(body)
        except ValueError:
            continue
    return book


def _registry(log: LogReader) -> Registry:
    registry = Registry()
    for stream in log.streams():
        if stream == "registry" or stream.startswith("aboard/"):
            for _, body in Bodies(log, stream).news():
                try:
                    registry.learn(parse_entry(json.dumps(body)))
                except BadEntry:
                    continue
    return registry
