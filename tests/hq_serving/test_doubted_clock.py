"""Goal: what a node wrote while it doubted its own clock is shown as such, to staff and owners, wherever its time is shown."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from cargo.alerts.alert_log import AlertBook
from cargo.vocabulary.instants import DOUBTED
from hq.analytics.disclosure import disclosed
from streams.model.records import BODY, CLOCK_DOUBTED, read_body
from tests.cargo.lossnews import voyage
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, NOW_MS, SHIP, Fleet, booking, customer, ship
from tests.hq_serving.test_company_reports import desk

BOX, OTHER = DUCKS[:2]


def fill(fleet: Fleet) -> None:
    """Two ducks are lost; of the first the ship's node said so while it doubted its clock, and again when it did not."""
    fleet.register(
        ("customer", "ducks", customer("Duckworks", (240, 200, 40))),
        ("booking", "BK-1", booking("BK-1", "ducks", [(box, NOW_MS - 1_000, None) for box in (BOX, OTHER)])),
        ("ship", SHIP, ship(SHIP, "Big Blue One")),
    )
    doubted = fleet.alert("ship-one", BOX, f"{SHIP}-1", incident_id="i-1", clock_doubted=True)
    fleet.alert("ship-one", BOX, f"{SHIP}-1", state="updated", at_ms=NOW_MS + 1_000, incident_id="i-1")
    sure = fleet.alert("ship-one", OTHER, f"{SHIP}-2", incident_id="i-2")
    for one in (*doubted, *sure):
        [batch] = fleet.logs["hq"].run("alerts", one.origin, one.offset, one.offset + 1)
        given = disclosed("alerts", batch.records.column(BODY)[0].as_py(), 0, 1 << 62)
        fleet.share("ducks", "ship-one", [one], {one.offset: read_body(given)})


def test_an_alert_that_was_ever_written_under_a_doubted_clock_says_so(tmp_path: Path) -> None:
    with closing(Fleet(tmp_path)) as fleet:
        fill(fleet)
        project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
        with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:

            def doubted(who: str, path: str, key: str) -> dict[str, bool]:
                items = client.get(f"/api/{path}", headers=log_in(client, who)).json()["items"]
                return {item[key]: item["clock_doubted"] for item in items}

            assert doubted("mira", "alerts", "topic") == {BOX: True, OTHER: False}
            assert doubted("donald", "alerts", "topic") == {BOX: True, OTHER: False}
            assert doubted("mira", "incidents", "incident_id") == {"i-1": True, "i-2": False}


def test_a_report_and_its_notices_say_so_too(tmp_path: Path) -> None:
    facts = voyage()

    def marked(body: Any) -> dict[str, Any]:
        return {**body, CLOCK_DOUBTED: True}

    book = AlertBook((one.topic, marked(one.body)) for one in facts.boxes[:1])
    [box] = book.standing()
    for name, boxes, expected in (("sure", facts.boxes, False), ("doubted", (box, *facts.boxes[1:]), True)):
        (tmp_path / name).mkdir()
        with desk(tmp_path / name, replace(facts, boxes=boxes)) as hq:

            def noticed(client: Any = hq.client) -> set[bool]:
                return {one["clock_doubted"] for one in client.get("/api/notices", headers=log_in(client, "mira")).json()["items"]}

            assert noticed() == {expected}
            report = hq.do(do="draft").json()["report"]
            assert (report["clock_doubted"], DOUBTED.capitalize() in report["text"]) == (expected, expected)
            edited = hq.do(do="edit", report=report["report_id"], given={"wind": "calm"}).json()["report"]
            assert (edited["clock_doubted"], noticed()) == (expected, {expected})
