"""Goal: who saves data as a file stands in the `audit` stream, with what it was and from which address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from cargo.report.loss_form import Filled
from cargo.report.loss_report import Content, Head, ReportedBox, drafted
from hq.browser_address import browser_headers
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, until
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, SHIP, booking, customer
from tests.hq_serving.test_measuring import bodies
from tests.hq_serving.test_registry import running_node

PAGES = SecretStr("a token of the pages, of forty letters")
BROWSER = "203.0.113.7"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    """The API beside a node whose log has a ship's report of a lost duck."""
    with running_node(folder) as door:
        report(door)
        project(make_projector(folder / "log", sqlite_url(folder)))
        with api_of(settings_for(folder / "log", folder, door).model_copy(update={"pages_token": PAGES})) as one:
            yield one


def report(door: str) -> None:
    lost = (ReportedBox(container=DUCKS[0], at_ms=NOW_MS, lost_at_ms=NOW_MS - 1_000, lost_until_ms=NOW_MS, cargo="goods"),)
    lines = {"number_lost": Filled(1, "RECKONED"), "number_is": Filled("ESTIMATED", "RECKONED")}
    made = drafted(Head("i-1", SHIP, "INITIAL", 1), Content(lines, lost, (), ()), "news", 0, "ship-one", NOW_MS)
    papers = {
        "customer/ducks": customer("Duckworks", (240, 200, 40)),
        "booking/BK-1": booking("BK-1", "ducks", [(DUCKS[0], NOW_MS - 48 * HOUR_MS, None)]),
    }
    entries = [
        Record(
            topic,
            body=dict(zip(("type", "id"), topic.split("/"), strict=True)) | {"version": 1, "at_ms": NOW_MS, "by": "c", "value": value},
        )
        for topic, value in papers.items()
    ]
    reports = [Record(made.topic, device_at_ms=made.at_ms, body=made.body)]
    AppendDoor(door, "door").append([Append("registry", to_batch(entries)), Append("reports", to_batch(reports))])


def saved(client: httpx.Client, username: str, path: str) -> httpx.Response:
    """The answer to a viewer of the pages."""
    return client.get(f"/api/{path}", headers=log_in(client, username) | browser_headers(PAGES, BROWSER))


def test_a_file_is_given_and_noted(client: httpx.Client, folder: Path) -> None:
    """Reports in each form to staff, a notice to its owner; what is refused is no export."""
    [told] = client.get("/api/incidents/i-1/reports", headers=log_in(client, "mira")).json()["items"]
    [notice] = client.get("/api/notices", headers=log_in(client, "donald")).json()["items"]
    files = [saved(client, "mira", f"reports/i-1-1/file?as={kind}") for kind in ("txt", "pdf", "json")]
    files.append(saved(client, "donald", f"notices/{notice['notice_id']}/file"))
    assert [one.status_code for one in files] == [200] * 4
    assert [files[0].text, files[3].text] == [told["text"], notice["text"]]
    assert files[1].content.startswith(b"%PDF-")
    assert files[2].json() == {name: value for name, value in told.items() if name != "text"}
    assert {one.headers["content-disposition"] for one in files} == {"attachment"}
    refused = [("donald", "reports/i-1-1/file"), ("otto", f"notices/{notice['notice_id']}/file"), ("mira", "reports/none/file")]
    refused.append(("mira", "reports/i-1-1/file?as=odd"))
    assert [saved(client, *one).status_code for one in refused] == [403, 404, 404, 422]
    until(lambda: len(bodies(folder, "audit")) == 4, "the records")
    noted = [{name: one.get(name) for name in ("act", "by", "report", "notice", "kind", "address")} for one in bodies(folder, "audit")]
    of_report = {"act": "export", "by": "mira", "report": "i-1-1", "notice": None, "address": BROWSER}
    assert noted[:3] == [{**of_report, "kind": kind} for kind in ("txt", "pdf", "json")]
    assert noted[3] == {**of_report, "by": "donald", "report": None, "notice": notice["notice_id"], "kind": "txt"}


def test_a_list_of_containers_as_a_file_is_noted_with_what_was_asked_for(client: httpx.Client, folder: Path) -> None:
    """With the number of rows that went out; a list that was refused is none."""
    before = len(bodies(folder, "audit"))
    answers = [saved(client, "donald", f"containers.csv{asked}") for asked in ("?q=DUC&sort=heard_newest", "?booking=none", "?sort=odd")]
    assert [answer.status_code for answer in answers] == [200, 200, 422]
    assert answers[0].headers["content-disposition"] == "attachment"
    assert [len(answer.text.splitlines()) for answer in answers[:2]] == [2, 1]
    until(lambda: len(bodies(folder, "audit")) == before + 2, "the records")
    noted = [{name: one.get(name) for name in ("act", "by", "kind", "containers", "q", "booking")} for one in bodies(folder, "audit")]
    known = {"act": "export", "by": "donald", "kind": "csv"}
    assert noted[before:] == [
        {**known, "containers": 1, "q": "DUC", "booking": None},
        {**known, "containers": 0, "q": None, "booking": "none"},
    ]
