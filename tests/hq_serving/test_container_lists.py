"""Goal: a list of containers is whole and in the order that was asked for, page by page and as a file, in both databases alike."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from cargo.vocabulary.trade_codes import make_container
from hq.api.container_lists import FILE_ROWS_AT_ONCE
from streams.model.records import Record
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, SHIP, Fleet, booking, fill, ship
from tests.hq_serving.postgres import english_database
from tests.hq_serving.test_digests import digest

NEVER, AGES_H = [make_container("NEVU", serial) for serial in range(3)], (3, 1, 1, 1, 40, 2)
"""Booked boxes that nothing was ever heard of; hours since foreign ones were heard."""
FORMULA = "=HYPERLINK(1)"
SORTS = ("number", "place", "heard_oldest", "heard_newest")
INT_MAX, TEXT_MAX = (1 << 63) - 1, "\U0010ffff"
Items = list[dict[str, Any]]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The filled fleet with boxes of all ages, one that has a digest, and one that calls itself a formula."""
    folder = tmp_path_factory.mktemp("lists")
    sqlite = request.param == "sqlite"
    url = sqlite_url(folder) if sqlite else english_database(request.getfixturevalue("postgres"), "lists")
    fleet = Fleet(folder)
    fill(fleet)
    fleet.register(("booking", "@BK-N", booking("@BK-N", "ducks", [(number, NOW_MS - HOUR_MS, None) for number in NEVER])))
    for number, hours in zip(FOREIGN, AGES_H, strict=True):
        fleet.state("container", number, ("ship", SHIP), at_ms=NOW_MS - hours * HOUR_MS + 10, supply_c=-2.5, ambient_c="warm")
    fleet.state("container", FORMULA, None, at_ms=NOW_MS - 1)
    fleet.state("container", "ages", ("quay", "SGSIN"), at_ms=-(1 << 63))
    fleet.state("container", DUCKS[0], ("ship", SHIP), at_ms=NOW_MS - 20 * HOUR_MS, return_c=3.0)
    digest(fleet)
    fleet.alert("ship-one", FOREIGN[1], "a-second")
    fleet.alert("ship-one", FOREIGN[1], "a-third")
    fleet.alert("ship-one", FOREIGN[1], "a-third", state="cleared", at_ms=NOW_MS + 1)
    project(make_projector(fleet.hq_dir, url))
    with api_of(settings_for(fleet.hq_dir, folder, database_url=url)) as one:
        yield one
    fleet.close()


def page(client: httpx.Client, username: str = "mira", **asked: Any) -> dict[str, Any]:
    answer = client.get("/api/containers", params=asked, headers=log_in(client, username))
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def whole(client: httpx.Client, username: str = "mira", **asked: Any) -> Items:
    told = page(client, username, limit=500, **asked)
    assert told["next"] is None
    items: Items = told["items"]
    return items


def file(client: httpx.Client, username: str = "mira", **asked: Any) -> list[dict[str, str]]:
    answer = client.get("/api/containers.csv", params=asked, headers=log_in(client, username))
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/csv"), answer.text
    return list(csv.DictReader(io.StringIO(answer.text)))


def heard(box: dict[str, Any]) -> int | None:
    at_ms: int | None = (box["digest"] or box)["at_ms"]
    return at_ms


def rank(box: dict[str, Any], sort: str) -> tuple[Any, ...]:
    """What the order says of a box: the less, the earlier."""
    at_ms, place = heard(box), box["place"]
    match sort:
        case "place":
            return (place["kind"], place["id"], box["number"]) if place else (TEXT_MAX, TEXT_MAX, box["number"])
        case "heard_oldest":
            return (INT_MAX if at_ms is None else at_ms, box["number"])
        case "heard_newest":
            return (INT_MAX + 1 if at_ms is None else -at_ms, [-ord(letter) for letter in box["number"]])
    return (box["number"],)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("username", ["mira", "donald", "crew"])
def test_every_order_holds_every_box_once_on_pages_of_any_size(client: httpx.Client, username: str, sort: str) -> None:
    """Boxes of one time and of one place, boxes that are nowhere and those never heard too; with a filter as without one."""
    every = {box["number"] for box in whole(client, username)}
    told = whole(client, username, sort=sort)
    assert {box["number"] for box in told} == every
    assert [box["number"] for box in told] == [box["number"] for box in sorted(told, key=lambda box: rank(box, sort))]
    lists: tuple[tuple[int, dict[str, str]], ...] = ((2, {}), (7, {"q": "duc"}), (2, {"booking": "bk-1"}), (7, {"place": f"ship/{SHIP}"}))
    for limit, filters in lists:
        seen, cursor = list[str](), dict[str, Any]()
        while True:
            part = page(client, username, sort=sort, limit=limit, **filters, **cursor)
            seen += [box["number"] for box in part["items"]]
            if part["next"] is None:
                break
            cursor = {"cursor": part["next"]}
        assert seen == [box["number"] for box in whole(client, username, sort=sort, **filters)], (limit, filters)


def test_boxes_never_heard_come_last_in_both_orders_of_time(client: httpx.Client) -> None:
    """And a digest counts as what it is: a word of that box, of its own time."""
    for sort in ("heard_oldest", "heard_newest"):
        told = whole(client, sort=sort)
        assert {box["number"] for box in told[-3:]} == set(NEVER), sort
        times = [heard(box) for box in told[:-3]]
        assert all(time is not None for time in times)
        assert times == sorted(times, key=lambda at_ms: at_ms or 0, reverse=sort == "heard_newest")
    aged = (FOREIGN[4], FOREIGN[0], FOREIGN[5], DUCKS[0], *FOREIGN[1:4])
    assert [box["number"] for box in whole(client, sort="heard_oldest") if box["number"] in aged] == list(aged)


def test_a_list_is_counted_on_request(client: httpx.Client) -> None:
    """All pages together, whatever page it is."""
    assert page(client, limit=2)["count"] is None
    for filters in ({}, {"booking": "bk-1"}, {"q": "nev", "sort": "heard_newest"}):
        first = page(client, limit=2, count=True, **filters)
        assert first["count"] == len(whole(client, **filters)) > 2
        assert page(client, limit=2, count=True, cursor=first["next"], **filters)["count"] == first["count"]


def test_a_cursor_belongs_to_its_order(client: httpx.Client) -> None:
    headers = log_in(client, "mira")
    cursors = {sort: page(client, sort=sort, limit=1)["next"] for sort in SORTS}
    for sort in SORTS:
        answers = {one: client.get("/api/containers", params={"sort": sort, "cursor": cursors[one]}, headers=headers) for one in SORTS}
        assert {one: answer.status_code for one, answer in answers.items()} == {one: 200 if one == sort else 400 for one in SORTS}


def test_open_alerts_are_counted_by_box(client: httpx.Client) -> None:
    told = {box["number"]: box["open_alerts"] for box in whole(client)}
    assert {number: count for number, count in told.items() if count} == {DUCKS[3]: 1, FOREIGN[0]: 1, FOREIGN[1]: 1}
    alone = client.get(f"/api/containers/{DUCKS[3]}", headers=log_in(client, "mira")).json()["container"]
    assert page(client, q=DUCKS[3])["items"] == [alone]


@pytest.mark.parametrize("username", ["mira", "donald", "crew"])
def test_the_file_has_every_row_in_the_order_asked_for(client: httpx.Client, username: str) -> None:
    for asked in ({"sort": "heard_newest"}, {"sort": "place"}, {"q": "duc"}, {"booking": "bk-1"}, {"q": "none at all"}):
        told = whole(client, username, **asked)
        assert [row["number"].lstrip("'") for row in file(client, username, **asked)] == [box["number"] for box in told], asked


def test_a_customers_file_has_its_own_boxes_alone(client: httpx.Client) -> None:
    assert {row["number"] for row in file(client, "donald")} == {*DUCKS, *NEVER}
    assert {row["customer"] for row in file(client, "donald")} == {"ducks"}
    assert file(client, "donald", booking="BK-9") == []


def test_the_files_cells_are_typed_and_no_formulas(client: httpx.Client) -> None:
    """What is not known is empty; a text is no number; times are UTC."""
    rows = {row["number"]: row for row in file(client)}
    assert f"'{FORMULA}" in rows
    never = rows[NEVER[0]]
    assert never["booking"] == "'@BK-N"
    assert [never[name] for name in ("place", "place_name", "last_heard_utc", "supply_c")] == [""] * 4
    other = rows[FOREIGN[1]]
    known = {"place": f"ship/{SHIP}", "place_name": "Big Blue One", "last_heard_utc": "2026-04-30 23:00:00.010", "digest_of": ""}
    assert known.items() <= other.items()
    assert [other[name] for name in ("supply_c", "ambient_c", "return_c", "open_alerts")] == ["-2.5", "", "", "1"]
    by_digest = rows[DUCKS[0]]
    assert (by_digest["digest_of"], by_digest["return_c"]) == ("ship-one", "3")
    assert all(one.keys() == other.keys() for one, other in pairwise(rows.values()))


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_file_of_more_rows_than_are_read_at_once_is_whole(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    """With one line of names, and each place's name."""
    url = sqlite_url(tmp_path) if store == "sqlite" else request.getfixturevalue("postgres").format("long_list")
    numbers = sorted(make_container("LNGU", serial) for serial in range(2 * FILE_ROWS_AT_ONCE + 1))
    with closing(Fleet(tmp_path)) as fleet:
        fleet.register(("ship", SHIP, ship(SHIP, "Big Blue One")))
        aboard = {"kind": "container", "place": {"kind": "ship", "id": SHIP}, "signals": {}}
        states = [Record(number, device_at_ms=NOW_MS, body={**aboard, "at_ms": NOW_MS - ago}) for ago, number in enumerate(numbers)]
        fleet.append("hq", "states", states)
        project(make_projector(fleet.hq_dir, url))
        with api_of(settings_for(fleet.hq_dir, tmp_path, database_url=url)) as client:
            rows = file(client, sort="heard_oldest")
    assert [row["number"] for row in rows] == numbers[::-1]
    assert {row["place_name"] for row in rows} == {"Big Blue One"}
