"""Goal: where a ship's own draft never came, headquarters drafts the loss report from what it knows of her, in the company's name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from cargo.alerts.alert_log import AlertBook, AlertStanding
from cargo.report.loss_draft import Facts, fill_in
from cargo.vocabulary.registry_entries import entry_body
from landfall.storage.file_log import FileLog, FileLogReader
from landfall.transport.http_client import AppendDoor
from streams.body_reader import Bodies
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.records import Record, to_batch
from tests.cargo.lossnews import LOST_AT_MS, UNTIL_MS, more_lost, voyage
from tests.hq_serving.conftest import api_of, log_in, settings_for, still_clock
from tests.hq_serving.test_registry import running_node
from tests.support.sea import MINUTE_MS, SHIP, number


@dataclass
class Desk:
    """An API over headquarters' log and node, and the facts of what came ashore."""

    client: httpx.Client
    door: str
    facts: Facts
    folder: Path

    def do(self, viewer: str = "mira", **what: Any) -> httpx.Response:
        """What `viewer` asks of the incident's reports."""
        path = f"/api/incidents/{self.facts.incident_id}/reports"
        return self.client.post(path, json=what, headers=log_in(self.client, viewer))

    def statuses(self) -> Counter[str]:
        """How many of the open alerts of losses say what, as headquarters' log has them."""
        return Counter(one.body["status"] for one in self._losses() if not one.closed)

    def closed(self) -> list[Mapping[str, Any]]:
        """The alerts of losses that are not open any more."""
        return [one.body for one in self._losses() if one.closed]

    def _losses(self) -> list[AlertStanding]:
        with closing(FileLogReader(self.folder / "log", BlockCodec())) as reader:
            book = AlertBook(Bodies(reader, "alerts").news())
        return [one for one in book.standing() if one.body["incident_id"]]

    def learn(self, facts: Facts) -> None:
        """The alert of the incident as it stands in `facts`, later than before, comes ashore."""
        news = replace(facts.incident, body={**facts.incident.body, "at_ms": facts.now_at_ms})
        AppendDoor(self.door, "door").append([Append("alerts", to_batch([alert_record(news)]))])


def alert_record(standing: Any) -> Record:
    return Record(standing.topic, device_at_ms=standing.body["at_ms"], body=standing.body)


def ashore(log: FileLog, facts: Facts) -> None:
    """All that a ship's node sends over the satellite of a loss, but for her draft; and the papers, which are headquarters' own."""
    readings = [(kind, at_ms, said) for kind, rows in (("location", facts.track), ("environment", facts.air)) for at_ms, said in rows]
    ships = [Record(f"{SHIP}.{kind}", f"NAV-{kind}", at_ms, dict(said)) for kind, at_ms, said in sorted(readings, key=lambda row: row[1])]
    papers = [Record(one.topic, device_at_ms=one.at_ms, body=entry_body(one)) for one in facts.registry.entries()]
    alerts = [alert_record(one) for one in (facts.incident, *facts.boxes)]
    muster = Record(f"{SHIP}.log", device_at_ms=facts.now_at_ms, body=dict(facts.muster or {}))
    log.append([Append(stream, to_batch(rows)) for stream, rows in (("ships", ships), ("registry", papers), ("alerts", alerts))])
    odd = [Record(f"{SHIP}.log", device_at_ms=facts.now_at_ms, body=body) for body in ({"event": "X_MUSTER", "accounted": "all"}, None)]
    log.append([Append("events", to_batch([muster, *odd]))])


@contextmanager
def desk(folder: Path, facts: Facts) -> Iterator[Desk]:
    """Headquarters after the ship's last word."""
    log = FileLog(folder / "log", folder / "marker", "hq", BlockCodec(), StillClock(facts.now_at_ms))
    ashore(log, facts)
    log.close()
    clock = still_clock(facts.now_at_ms)
    with running_node(folder) as door, api_of(settings_for(folder / "log", folder, door), clock) as client:
        yield Desk(client, door, facts, folder)


def as_it_came(facts: Facts) -> Facts:
    """Of each alert headquarters has heard one change: that is when it was raised, as far as it knows."""
    book = AlertBook((one.topic, one.body) for one in (facts.incident, *facts.boxes))
    incident, *_ = (one for one in book.standing() if one.body["rule"] == "incident")
    return replace(facts, incident=incident, boxes=tuple(one for one in book.standing() if one.body["rule"] == "lost_container"))


def test_a_silent_ships_loss_is_drafted_ashore_as_she_would_have_and_sent_in_the_companys_name(tmp_path: Path) -> None:
    """What came over the satellite gives what her own draft would say, but for who reports; then UPDATE and FINAL follow by number."""
    facts = voyage()
    with desk(tmp_path, facts) as hq:
        first = hq.do(do="draft").json()["report"]
        would = json.loads(json.dumps(fill_in(as_it_came(facts)).to_json()))
        assert {name: line for name, line in first["lines"].items() if name != "reported_by"} == {
            name: line for name, line in would["lines"].items() if name != "reported_by"
        }
        assert [first[kind] for kind in ("lost", "at_risk", "found")] == [would[kind] for kind in ("lost", "at_risk", "found")]
        assert first["lines"]["reported_by"] == {"value": "COMPANY", "basis": "GIVEN", "source": "Mira"}
        assert (first["kind"], first["number"], first["refers_to"], first["state"]) == ("INITIAL", 1, None, "edited")
        again = hq.do(do="draft")
        assert (again.status_code, "all that is known" in again.json()["error"]) == (422, True)
        which = {"report": first["report_id"]}
        assert "is approved" not in hq.do(do="approve", digest=first["digest"], **which).text
        assert "nothing is sent" in hq.do(do="final").json()["error"]
        sent = hq.do(do="sent", to="COASTAL_STATE", means="e-mail", **which)
        assert sent.status_code == 200
        assert hq.statuses() == {"REPORTED_INITIAL": 1 + len(first["lost"])}, "its alerts say so, as the ship's own watch would"
        assert "'FLAG_STATE'" in hq.do(do="acknowledged", to="FLAG_STATE", who="an officer", **which).json()["error"]
        receipt = hq.do(do="acknowledged", to="COASTAL_STATE", who="an officer", **which).json()["report"]["receipts"]
        assert [(one["to"], one["who"], one["by"]) for one in receipt] == [("COASTAL_STATE", "an officer", "Mira")]
        hq.learn(more_lost(facts, number(9)))
        update = hq.do(do="draft").json()["report"]
        assert (update["kind"], update["number"], update["refers_to"]) == ("UPDATE", 2, first["report_id"])
        assert update["lines"]["reported_by"]["value"] == "COMPANY"
        assert number(9) in {box["container"] for box in update["lost"]}
        final = hq.do(do="final").json()["report"]
        assert (final["kind"], final["number"]) == ("FINAL", 2), "an UPDATE that nobody approved becomes it"
        which = {"report": final["report_id"]}
        counted = hq.do(do="edit", given={"number_is": "COUNTED"}, **which).json()["report"]
        hq.do(do="approve", digest=counted["digest"], **which)
        assert hq.do(do="sent", to="FLAG_STATE", means="e-mail", **which).json()["report"]["state"] == "sent"
        assert hq.statuses() == {}, "the FINAL closes the incident, as the ship's own watch would"
        closed = hq.closed()
        assert {(one["state"], one["status"], one["by"]) for one in closed} == {("cleared", "REPORTED_FINAL", "Mira")}
        assert all(one["title"].endswith("reported for good") for one in closed)
        (incident,) = (one for one in closed if one["rule"] == "incident")
        assert incident["detail"].endswith(f"Mira: {final['report_id']}")


def test_owners_are_informed_by_the_alerts_while_there_is_no_report(tmp_path: Path) -> None:
    """When the alerts come ashore, each owner has the notice, with the time of the loss; a report has no other."""
    facts = voyage()
    with desk(tmp_path, facts) as hq:

        def noticed() -> dict[str, dict[str, tuple[int | None, int | None]]]:
            items = hq.client.get("/api/notices", headers=log_in(hq.client, "mira")).json()["items"]
            return {one["customer"]: {box["container"]: (box["lost_at_ms"], box["lost_until_ms"]) for box in one["boxes"]} for one in items}

        windows = {box.container: (box.lost_at_ms, box.lost_until_ms) for box in fill_in(as_it_came(facts)).lost}
        expected = {"duckworks": {number(at): windows[number(at)] for at in (0, 2)}, "merlion": {number(1): windows[number(1)]}}
        assert all(LOST_AT_MS - MINUTE_MS <= since <= until <= UNTIL_MS for since, until in windows.values() if since and until)
        assert noticed() == expected
        assert hq.do(do="draft").status_code == 200
        assert noticed() == expected
        hq.learn(more_lost(facts, number(9)))
        expected["duckworks"][number(9)] = (None, None)
        assert noticed() == expected, "news is in the notice before it is in the report"
        policy = {"entries": [{"type": "policy", "id": "owners", "value": {"told_from": "approved"}}]}
        assert hq.client.post("/api/registry", json=policy, headers=log_in(hq.client, "cleo")).status_code == 200
        assert noticed() == {}


def test_nobody_else_drafts_and_nothing_is_drafted_of_what_nobody_knows(tmp_path: Path) -> None:
    with desk(tmp_path, voyage()) as hq:
        assert [hq.do(who, do="draft").status_code for who in ("cleo", "crew", "donald")] == [403] * 3
        assert "takes nothing else" in hq.do(do="draft", report="x-1").json()["error"]
        assert hq.do(do="edit", given={"afloat": "1"}).status_code == 422, "an edit names its report"
        hq.facts = replace(hq.facts, incident=replace(hq.facts.incident, body={**hq.facts.incident.body, "incident_id": "i-none"}))
        assert "'i-none'" in hq.do(do="draft").json()["error"]
