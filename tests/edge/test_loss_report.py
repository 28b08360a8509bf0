"""Goal: a real ship drafts the loss report by herself, once, whoever kills her; her people edit, approve and send it, and it is all in her
log."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from cargo.loss.reading_rows import Heard
from cargo.vocabulary.registry_entries import entry_body
from streams.body_reader import Bodies
from streams.config.roles import Role
from streams.config.stream_definitions import may_originate
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.cargo.lossnews import LOST_AT_MS, STACK, papers
from tests.landfall.commands import run
from tests.support.aboard import ShipProcess, fleet_clock, login, message, publish_all, ship
from tests.support.fleet import address, readings, started, until
from tests.support.process import wait
from tests.support.sea import HOUR_MS, MINUTE_MS, SHIP, Sea, fall, number

UNTIL_MS = LOST_AT_MS + HOUR_MS
MORE_LOST_AT_MS = LOST_AT_MS + 5 * MINUTE_MS
NEXT_STACK = (3, 4, 5)


def reports(process: ShipProcess) -> list[dict[str, Any]]:
    """The bodies of `reports`, in the order of the log."""
    return [row["body"] for row in process.rows("reports")]


def lost(body: dict[str, Any]) -> set[str]:
    return {box["container"] for box in body["content"]["lost"]}


def sea() -> tuple[Sea, list[Heard]]:
    """One stack falls, and five minutes later the next one, in a storm."""
    storm = (LOST_AT_MS - 10 * MINUTE_MS, LOST_AT_MS + 15 * MINUTE_MS)
    fallen = dict.fromkeys(STACK, LOST_AT_MS) | dict.fromkeys(NEXT_STACK, MORE_LOST_AT_MS)
    voyage = Sea(boxes=24, storms=[storm], silent={at: [(when, UNTIL_MS + 1)] for at, when in fallen.items()})
    said = [heard for at, when in fallen.items() for heard in fall(voyage, at, when - (10 - at) * 1_000)]
    return voyage, voyage.readings(UNTIL_MS, said)


def sail(process: ShipProcess) -> list[Heard]:
    """Under way with her papers aboard, up to a moment before the next stack falls; the readings to come."""
    process.start()
    process.wait_ready()
    voyage, readings = sea()
    told = [Record(topic=one.topic, body=entry_body(one)) for one in [*voyage.entries(), *papers(voyage)]]
    process.hears([Append(f"aboard/{SHIP}", to_batch(told))])
    before = [heard for heard in readings if heard.order_at_ms < MORE_LOST_AT_MS - 10_000]
    publish_all(process.mqtt_port, [message(heard) for heard in before], process.tail)
    return readings[len(before) :]


def test_a_ship_drafts_her_people_approve_and_news_make_an_update(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ship"
    with fleet_clock(UNTIL_MS) as clock, ship(tmp_path, clock=clock) as process:
        to_come = sail(process)
        wait(lambda: any(lost(body) == {number(at) for at in STACK} for body in reports(process)), process.tail)
        first = reports(process)[-1]
        assert (first["kind"], first["number"], first["state"], first["by"]) == ("INITIAL", 1, "draft", f"ship-{SHIP}")
        lines = first["content"]["lines"]
        assert (lines["ship"]["value"], lines["un_numbers"]["value"], lines["wind"]["basis"]) == ("Big Blue One", "1263", "MEASURED")
        assert lines["muster"]["value"].startswith("21 of 24")
        assert lines["course_speed"]["value"] == "0° true, 15.0 kn"
        which = f"{first['incident_id'][:6]}-1"

        drafts = len(reports(process))
        process.kill()
        process.start()
        process.wait_ready()
        config = ("-c", process.config)
        edited = run(capsys, "report", "edit", which, "cargo_spill=none seen", "afloat=2", *login("mate", tmp_path), *config)
        assert edited[:1] == (0,), edited
        refused = run(capsys, "report", "approve", which, "--version", first["digest"][:8], "--yes", *login("master", tmp_path), *config)
        assert (refused[0], "[report_changed]" in refused[2]) == (2, True), refused
        version = run(capsys, "report", "show", which, "-f", folder)[1].split("version ")[-1][:8]
        early = run(capsys, "report", "sent", which, "--to", "coastal-state", "--means", "Inmarsat-C", *login("master", tmp_path), *config)
        assert (early[0], "is not approved" in early[2]) == (2, True), early
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        no = run(capsys, "report", "approve", which, "--version", version, *login("master", tmp_path), *config)
        assert (no[0], "empty: " in no[1], "Action taken" in no[1], "Approve it?" in no[1]) == (0, True, True, True), no
        assert reports(process)[-1]["state"] == "edited"
        assert run(capsys, "report", "approve", which, "--version", version, "--yes", *login("master", tmp_path), *config)[0] == 0
        words = ("--to", "coastal-state", "--name", "RCC Japan", "--means", "Inmarsat-C", *login("master", tmp_path), *config)
        assert run(capsys, "report", "sent", which, *words)[0] == 0
        assert [body["state"] for body in reports(process)[drafts:]] == ["edited", "approved", "sent"], "a kill drafted it twice"
        reported_and_acknowledged(process, folder, which, capsys)

        publish_all(process.mqtt_port, [message(heard) for heard in to_come], process.tail)
        every = {number(at) for at in (*STACK, *NEXT_STACK)}
        wait(lambda: any("content" in body and lost(body) == every for body in reports(process)), process.tail)
        update = reports(process)[-1]
        assert (update["kind"], update["number"], update["refers_to"]) == ("UPDATE", 2, first["report_id"])
        assert update["content"]["lines"]["cargo_spill"] == {"value": "none seen", "basis": "GIVEN", "source": "Mate Meyer"}
        assert run(capsys, "report", "final", first["incident_id"], *login("mate", tmp_path), *config)[0] == 0
        adrift = run(capsys, "report", "drifting", "number_lost=2", "description=40-foot, blue", *login("mate", tmp_path), *config)
        assert (adrift[0], "INITIAL report" in adrift[1]) == (0, True), adrift
        again = run(capsys, "report", "drifting", "number_lost=3", "--after", adrift[1].split()[2], *login("mate", tmp_path), *config)
        assert (again[0], "[report_not_approved]" in again[2]) == (2, True), again
        wrong = run(capsys, "report", "drifting", "colour=blue", *login("mate", tmp_path), *config)
        assert (wrong[0], "no line 'colour'" in wrong[2]) == (2, True), wrong
        drifts = run(
            capsys, "report", "drift", which[:-1] + "2", "--wind", "17,200", "--current", "0.4,20", *login("mate", tmp_path), *config
        )
        assert (drifts[0], "FINAL report" in drifts[1], "is edited" in drifts[1]) == (0, True, True), drifts
        assert reports(process)[-1]["content"]["lines"]["drift"]["value"].endswith("0.4 m/s to 20°; not for navigation")
        assert process.stop() == 0
    read_from_the_folder(folder, first, capsys)


def reported_and_acknowledged(process: ShipProcess, folder: Path, which: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its sending the boxes are reported: alerts and incident say so, with who wrote it down; the recipient's receipt is kept."""
    config = ("-c", process.config)
    lost_boxes = {number(at) for at in STACK}

    def told() -> dict[str, str]:
        return {row["topic"]: row["body"]["status"] for row in process.rows("alerts") if row["body"]["status"]}

    wait(lambda: {topic for topic, status in told().items() if status == "REPORTED_INITIAL"} >= lost_boxes, process.tail)
    incident = [row["body"] for row in process.rows("alerts") if row["body"]["rule"] == "incident"][-1]
    assert (incident["status"], incident["title"][:2]) == ("REPORTED_INITIAL", "3 ")
    assert {row["body"]["said"] for row in process.rows("decisions")} == {"reported"}
    assert not any(body["state"] == "draft" and body["number"] > 1 for body in reports(process)), "that it was sent is no news"
    words = ("--to", "coastal-state", "--who", "duty officer Sato", *login("mate", folder.parent), *config)
    wrong = run(capsys, "report", "acknowledged", which, *words)
    assert (wrong[0], "[receipt_of_another]" in wrong[2], "RCC Japan" in wrong[2]) == (2, True, True), wrong
    assert run(capsys, "report", "acknowledged", which, "--name", "RCC Japan", *words)[0] == 0
    shown = run(capsys, "report", "show", which, "-f", folder)[1]
    assert "duty officer Sato at " in shown
    assert "(acknowledged " in run(capsys, "report", "ls", "-f", folder)[1]


def read_from_the_folder(folder: Path, first: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """With the node ended, its folder tells everything."""
    every = [json.loads(line) for line in run(capsys, "report", "ls", "-f", folder, "--json")[1].splitlines()]
    told = [one for one in every if one["incident_id"] == first["incident_id"]]
    [adrift] = [one["lines"] for one in every if one not in told]
    assert (adrift["type"]["value"], adrift["number_lost"]["value"], adrift["ship"]["value"]) == ("DRIFTING_OBSERVED", 2, "Big Blue One")
    assert (adrift["latitude_deg"]["basis"], adrift["position_is"]["value"]) == ("MEASURED", "DISCOVERED")
    assert [(one["kind"], one["state"], len(one["lost"])) for one in told] == [("INITIAL", "sent", 3), ("FINAL", "edited", 6)]
    assert told[0]["approved_by"] == "Master Moe (master)"
    assert [(one["to"], one["name"], one["means"], one["by"]) for one in told[0]["sendings"]] == [
        ("COASTAL_STATE", "RCC Japan", "Inmarsat-C", "Master Moe")
    ]
    out = run(capsys, "report", "ls", "-f", folder)[1]
    assert "COASTAL_STATE RCC Japan" in out
    for ending in ("txt", "json", "pdf"):
        file = folder / f"report.{ending}"
        assert run(capsys, "report", "export", first["report_id"], "-f", folder, "-o", file)[0] == 0
    assert ": 2  [given: Mate Meyer]" in (folder / "report.txt").read_text()
    assert json.loads((folder / "report.json").read_text()) == told[0]
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF-")
    code, _, err = run(capsys, "report", "export", first["report_id"], "-f", folder, "-o", folder / "report.doc")
    assert (code, "[format_unknown]" in err) == (2, True)
    code, _, err = run(capsys, "report", "show", "zz-1", "-f", folder)
    assert (code, "[report_unknown]" in err) == (2, True)
    notices = run(capsys, "report", "notices", "-f", folder, "--told-from", "sent", "--json")[1].splitlines()
    boxes = {one["customer"]: [box["container"] for box in one["boxes"]] for one in map(json.loads, notices)}
    assert boxes == {"duckworks": [number(0), number(2)], "merlion": [number(1)]}


async def test_a_report_crosses_the_satellite_and_none_but_ship_and_company_write_one(tmp_path: Path) -> None:
    """Readings wait for port meanwhile; headquarters has the report as the ship wrote it, and takes no other's."""
    hq, vessel = await started("hq", tmp_path), await started("ship-a", tmp_path)
    vessel.link([address("ship-a", "hq", hq.url, "satellite")])
    body = {"report_id": "77aa-1", "state": "draft"}
    await vessel.append([readings(0, 3), Append("reports", to_batch([Record(f"{SHIP}.log", body=body)]))])
    await until(lambda: bool(hq.log.position("reports")))
    assert [found for _, found in Bodies(hq.log, "reports").news()] == [body]
    assert not hq.log.position("containers")
    definition = hq.definitions.of("reports")
    assert [role for role in get_args(Role) if may_originate(definition, role, f"{role}-x")] == ["ship", "hq"]
    for node in (vessel, hq):
        await node.stop()
