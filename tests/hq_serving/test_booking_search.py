"""Containers by a booking's reference: all it ever had or will have, for staff; for a customer those of its own that it may see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from cargo.vocabulary.trade_codes import make_container
from hq.api.access import Sight, Viewer
from hq.serving.database import ServingReader
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, SHIP, Fleet, booking, fill
from tests.hq_serving.postgres import english_database

TWICE, LATER, AGAIN = (make_container("DUCU", serial) for serial in (300, 301, 302))
"""Boxes of the ducks' company: in two of its bookings one after the other; in one that has not begun; twice in one, which goes on a third
time."""
ODD = ("BB-1", "Bb-2", "bb-3", "BB4")
"""What sensors call themselves, as it came."""
DAY_MS = 24 * HOUR_MS
AGAIN_SPANS = ((-9, -8), (-7, -6), (2, None))
INDEX = "booking_container_of_reference"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The filled fleet, and boxes that were booked more than once or will be."""
    folder = tmp_path_factory.mktemp("booked")
    sqlite = request.param == "sqlite"
    url = sqlite_url(folder) if sqlite else english_database(request.getfixturevalue("postgres"), "booked")
    fleet = Fleet(folder)
    fill(fleet)
    spans = [(AGAIN, NOW_MS + since * DAY_MS, until and NOW_MS + until * DAY_MS) for since, until in AGAIN_SPANS]
    fleet.register(
        ("booking", "BK-A", booking("BK-A", "ducks", [(TWICE, NOW_MS - 48 * HOUR_MS, NOW_MS - 20 * HOUR_MS)])),
        ("booking", "BK-B", booking("BK-B", "ducks", [(TWICE, NOW_MS - 10 * HOUR_MS, None)])),
        ("booking", "BK-F", booking("BK-F", "ducks", [(LATER, NOW_MS + 10 * HOUR_MS, None), (TWICE, NOW_MS + DAY_MS, None)])),
        ("booking", "BK-R", booking("BK-R", "ducks", spans)),
        ("booking", "BK-W", booking("BK-W", "ducks", [(AGAIN, NOW_MS + since * DAY_MS, None) for since in (9, 8)])),
        ("booking", " bk-é_%", booking(" bk-é_%", "ducks", [(TWICE, NOW_MS - 60 * HOUR_MS, NOW_MS - 59 * HOUR_MS)])),
        ("booking", "ΝΑΎΛΟΣ-Straße", booking("ΝΑΎΛΟΣ-Straße", "ducks", [(TWICE, NOW_MS - 70 * HOUR_MS, NOW_MS - 69 * HOUR_MS)])),
    )
    fleet.state("container", TWICE, ("ship", SHIP), return_c=6.0)
    for number in ODD:
        fleet.state("container", number, ("ship", SHIP))
    project(make_projector(fleet.hq_dir, url))
    with api_of(settings_for(fleet.hq_dir, folder, database_url=url)) as one:
        yield one
    fleet.close()


def found(client: httpx.Client, username: str, reference: str, **more: Any) -> list[dict[str, Any]]:
    """The boxes that someone finds by a reference."""
    answer = client.get("/api/containers", params={"booking": reference, **more}, headers=log_in(client, username))
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def stands(item: dict[str, Any]) -> tuple[str, str, bool, bool]:
    """A box, by which booking it was found, and whether that has begun and ended for it."""
    by = item["found_by"]
    return item["number"], by["booking"], by["begun"], by["ended"]


@pytest.mark.parametrize("username", ["mira", "cleo"])
def test_staff_finds_all_that_a_booking_ever_had_or_will_have(client: httpx.Client, username: str) -> None:
    """Ended, current, not begun: each box as it is now, whosever it is by now, with the span by which it was found."""
    assert [stands(one) for one in found(client, username, "BK-1")] == [(number, "BK-1", True, False) for number in DUCKS[:4]]
    assert [stands(one) for one in found(client, username, "BK-A")] == [(TWICE, "BK-A", True, True)]
    assert [stands(one) for one in found(client, username, "BK-B")] == [(TWICE, "BK-B", True, False)]
    assert [stands(one) for one in found(client, username, "BK-F")] == [(TWICE, "BK-F", False, False), (LATER, "BK-F", False, False)]
    ended = found(client, username, "BK-2")
    assert [stands(one) for one in ended] == [(number, "BK-2", True, True) for number in DUCKS[4:]]
    assert ended[0]["found_by"] == {
        "booking": "BK-2",
        "from_at_ms": NOW_MS - 48 * HOUR_MS,
        "until_at_ms": NOW_MS - 2 * HOUR_MS,
        "begun": True,
        "ended": True,
    }
    for box in (*ended, *found(client, username, "BK-A")):
        del box["found_by"]
        assert client.get(f"/api/containers/{box['number']}", headers=log_in(client, username)).json()["container"] == box
    assert [(one["booking"], one["customer"]) for one in ended] == [("BK-9", "machines"), (None, None)]


def test_of_several_spans_in_one_booking_the_last_begun_is_told_else_the_next(client: httpx.Client) -> None:
    for reference, day in (("BK-R", -7), ("BK-W", 8)):
        (box,) = found(client, "mira", reference)
        assert box["found_by"]["from_at_ms"] == NOW_MS + day * DAY_MS, reference


def test_a_customer_finds_by_any_of_its_bookings_what_it_may_see(client: httpx.Client) -> None:
    """By the earlier booking too; as its right says and not as the box is now; nothing of a box that it has no right to yet."""
    for reference, ended in (("BK-A", True), ("BK-B", False)):
        (box,) = found(client, "donald", reference)
        assert stands(box) == (TWICE, reference, True, ended)
        assert (box["booking"], box["ended"]) == ("BK-B", False)
    parted = found(client, "donald", "BK-2")
    assert [stands(one) for one in parted] == [(number, "BK-2", True, True) for number in DUCKS[4:]]
    assert [(one["booking"], one["customer"], one["ended"]) for one in parted] == [("BK-2", "ducks", True)] * 2
    assert parted[0]["signals"]["return_c"]["value"] == 4.5, "what the next customer's box measures"
    listed = client.get("/api/containers", headers=log_in(client, "donald")).json()["items"]
    whole = {one["number"]: one for one in listed}
    for reference in ("BK-1", "BK-2", "BK-A", "BK-B", "BK-F", "BK-R", "BK-W"):
        for box in found(client, "donald", reference):
            del box["found_by"]
            assert box == whole[box["number"]], "found by a booking it is told otherwise than in the list"
    assert LATER not in whole
    assert [stands(one) for one in found(client, "donald", "BK-F")] == [(TWICE, "BK-F", False, False)]


def test_a_foreign_booking_finds_what_none_finds(client: httpx.Client) -> None:
    """Although they share a box: the machines' has one that the ducks' had before. A crew is told of no booking."""
    for username, reference in (("donald", "BK-9"), ("otto", "BK-2"), ("otto", "BK-F"), ("crew", "BK-1")):
        headers = log_in(client, username)
        foreign, none = (client.get("/api/containers", params={"booking": one}, headers=headers) for one in (reference, "BK-8"))
        assert (foreign.status_code, foreign.content) == (none.status_code, none.content), (username, reference)
        assert foreign.json()["items"] == []
    assert [stands(one) for one in found(client, "otto", "BK-9") if one["number"] in DUCKS] == [(DUCKS[4], "BK-9", True, False)]


@pytest.mark.parametrize("username", ["mira", "donald"])
@pytest.mark.parametrize("written", ["bk-a", " BK-A", "Bk-a\t ", "\u00a0bK-A"])
def test_a_reference_is_found_however_it_is_written(client: httpx.Client, username: str, written: str) -> None:
    assert [stands(one) for one in found(client, username, written)] == [(TWICE, "BK-A", True, True)]


def test_a_reference_is_found_whole_and_by_no_pattern(client: httpx.Client) -> None:
    """Nothing but the case of letters and outer blanks is passed over; blanks alone ask for no booking."""
    assert [one["found_by"]["booking"] for one in found(client, "mira", "BK-é_%")] == [" bk-é_%"]
    for other in ("BK", "BK-", "BK-_", "BK-%", "B K-A", "BK-A'"):
        assert found(client, "mira", other) == [], other
    every = client.get("/api/containers", headers=log_in(client, "mira")).json()["items"]
    assert found(client, "mira", "  ") == every
    assert all("found_by" not in one for one in every)


@pytest.mark.parametrize("written", ["ναύλοσ-STRASSE", "ΝΑΥ\u0301ΛΟΣ-straße ", "ναύλος-Straße"])
def test_letters_of_every_alphabet_are_found_in_either_case(client: httpx.Client, written: str) -> None:
    """By the whole reference, and by how it begins; also as a keyboard writes it that types an accent beside its letter."""
    reference = "ΝΑΎΛΟΣ-Straße"
    assert [one["found_by"]["booking"] for one in found(client, "mira", written)] == [reference]
    for begins in (written, written.strip()[:8]):
        told = client.get("/api/bookings", params={"q": begins}, headers=log_in(client, "donald")).json()["items"]
        assert [one["reference"] for one in told] == [reference], begins


@pytest.mark.parametrize(
    ("path", "q", "known"),
    [
        *(("bookings", q, ["BK-A", "BK-B", "BK-F", "BK-R", "BK-W", " bk-é_%", "BK-1", "BK-2", "BK-9"]) for q in ("bk-", "BK-")),
        *(("bookings", q, []) for q in ("bk_", "b%", "BKA")),
        *(("containers", q, list(ODD)) for q in ("bb", "BB", "bB")),
        *(("containers", q, ["BB-1"]) for q in ("bb-1", "Bb-1")),
        *(("containers", q, ["BB4"]) for q in ("bb4", "b b-4")),
        *(("containers", q, []) for q in ("bb_", "b%", "b\U0010ffff")),
    ],
)
def test_a_list_is_searched_by_how_its_keys_begin_in_either_case(client: httpx.Client, path: str, q: str, known: list[str]) -> None:
    answer = client.get(f"/api/{path}", params={"q": q, "limit": 500}, headers=log_in(client, "mira"))
    key = "number" if path == "containers" else "reference"
    assert [one[key] for one in answer.raise_for_status().json()["items"]] == sorted(known)


def test_a_booking_is_searched_together_with_number_place_and_page(client: httpx.Client) -> None:
    numbers = [one["number"] for one in found(client, "mira", "bk-1", limit=3)]
    first = client.get("/api/containers", params={"booking": "bk-1", "limit": 3}, headers=log_in(client, "mira")).json()
    numbers += [one["number"] for one in found(client, "mira", "bk-1", cursor=first["next"])]
    assert numbers == list(DUCKS[:4])
    assert [one["number"] for one in found(client, "mira", "bk-2", q=DUCKS[5][:10])] == [DUCKS[5]]
    assert [one["number"] for one in found(client, "mira", "bk-2", place="quay/SGSIN")] == [DUCKS[5]]


VIEWERS = (Viewer("mira", "operations", "Mira"), Viewer("donald", "customer", "Donald", customer="ducks"))


def plan(url: str, viewer: Viewer) -> str:
    """How the store looks for a booking's boxes, however few there are to go through."""
    with closing(ServingReader(url)) as reader, reader.snapshot() as connection:
        asked = str(Sight(viewer, NOW_MS).booked("bk-1").compile(connection, compile_kwargs={"literal_binds": True}))
        sqlite = connection.dialect.name == "sqlite"
        if not sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        told = connection.execute(text(f"EXPLAIN {'QUERY PLAN ' if sqlite else ''}{asked}".replace(":", "\\:")))
        return "\n".join(str(row[-1]) for row in told)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> tuple[str, str]:
    """The filled fleet in SQLite and in PostgreSQL."""
    folder = tmp_path_factory.mktemp("looked")
    with closing(Fleet(folder)) as fleet:
        fill(fleet)
        for url in (made := (sqlite_url(folder), postgres.format("looked"))):
            project(make_projector(fleet.hq_dir, url))
    return made


@pytest.mark.parametrize("viewer", VIEWERS, ids=["staff", "customer"])
def test_a_bookings_boxes_are_looked_up_and_not_picked_from_all(stores: tuple[str, str], viewer: Viewer) -> None:
    """In both stores, for both; a customer's by its own name too, so that a foreign booking's spans are not even read."""
    sqlite, postgresql = stores
    told = plan(sqlite, viewer)
    assert f"USING INDEX {INDEX} (folded=?{' AND customer=?' if viewer.customer else ''})" in told, told
    assert not re.findall("SCAN (?:booking_container|container_state|custody|customer_container)", told), told
    told = plan(postgresql, viewer)
    assert INDEX in told, told
    assert "Seq Scan" not in told, told
