"""A ship's loss report as it comes to headquarters."""

from __future__ import annotations

from cargo.report.loss_form import Filled
from cargo.report.loss_report import Content, Head, ReportBook, ReportedBox, Sending, approve, drafted, mark_sent
from cargo.report.sighting import Sighted
from cargo.vocabulary.registry_fold import Registry
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.page_stage import TOKEN, Stage, until


def report(stage: Stage) -> None:
    """The report of the stage's only incident, approved and sent to the coastal State, and one of what the ship saw adrift come to
    headquarters' log. The API knows them when this returns."""
    [incident] = stage.asked("mira", "incidents")["items"]
    at_ms = incident["raised_at_ms"]
    fell = {"latitude_deg": -33.9, "longitude_deg": 151.9, "lost_at_ms": at_ms - 90_000, "lost_until_ms": at_ms - 80_000}
    lost = tuple(ReportedBox(container=number, at_ms=at_ms, cargo="goods", **fell) for number in stage.fallen())
    beside = (ReportedBox(container=stage.numbers("merlion")[0], at_ms=at_ms),)
    lines = {"number_lost": Filled(len(lost), "RECKONED", "by each box's own evidence"), "number_is": Filled("ESTIMATED", "RECKONED")}
    lines["reported_by"] = Filled("COMPANY", "GIVEN", "Mira Okafor")
    head = Head(incident["incident_id"], incident["ship"], "INITIAL", 1)
    made = [drafted(head, Content(lines, lost, beside, ()), "news", 0, f"ship-{incident['ship']}", at_ms)]
    made.append(approve(ReportBook([made[0].body]).reports()[0], "Master Moe", at_ms + 60_000))
    sending = Sending(at_ms + 120_000, "COASTAL_STATE", "RCC Australia", "Inmarsat-C", "Master Moe")
    made.append(mark_sent(ReportBook([one.body for one in made]).reports()[0], sending, at_ms + 120_000))
    where = (at_ms, {"latitude_deg": -33.9, "longitude_deg": 151.9})
    made += Sighted("Mate Meyer", {"number_lost": "2"}).made(incident["ship"], Registry(), where, at_ms)
    records = [Record(one.topic, device_at_ms=one.at_ms, body=one.body) for one in made]
    AppendDoor(stage.door, TOKEN).append([Append("reports", to_batch(records))])
    until(lambda: stage.asked("mira", "sightings")["items"] != [], "the reports")
