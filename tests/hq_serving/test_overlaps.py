"""Bookings that have one box at one time, through the API and in the serving database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hq.api.entry_parser import GivenEntry, Unacceptable
from hq.api.registrar import Registrar, RegistryReceipt
from landfall.storage.file_log import FileLogReader
from landfall.transport.http_client import AppendDoor
from streams.codec import BlockCodec
from streams.model.clock import StillClock
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, still_clock, until
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, Fleet, booking, customer
from tests.hq_serving.test_registry import Headquarters, Overtaken, running_node

BOX, BEGAN_MS, MOVED_MS = DUCKS[0], NOW_MS - 6 * HOUR_MS, NOW_MS - 2 * HOUR_MS
CUSTOMERS = [("customer", name, customer(name.title(), (1, 2, 3))) for name in ("ducks", "machines")]


@pytest.fixture
def hq(tmp_path: Path) -> Iterator[Headquarters]:
    with running_node(tmp_path) as door, api_of(settings_for(tmp_path / "log", tmp_path, door)) as client:
        yield Headquarters(tmp_path, client, door)


def booked(reference: str, shipper: str, since_ms: int, until_ms: int | None, **more: Any) -> tuple[str, str, dict[str, Any]]:
    value = booking(reference, shipper, [(BOX, since_ms, until_ms)])
    value["containers"][0] |= more
    return "booking", reference, value


def spans(hq: Headquarters) -> list[tuple[str, int, list[tuple[int, int | None]]]]:
    """Of every version of a booking in the log: which, and its spans."""
    told = [one for one in hq.bodies("registry") if one["type"] == "booking"]
    return [(one["id"], one["version"], [(box["from_at_ms"], box["until_at_ms"]) for box in one["value"]["containers"]]) for one in told]


def test_a_later_booking_ends_another_customers_open_span_and_the_clerk_sees_it(hq: Headquarters) -> None:
    """The other booking's new version comes first in the log; the same again, of either, changes nothing and says it again."""
    first, second = booked("BK-1", "ducks", BEGAN_MS, None), booked("BK-2", "machines", MOVED_MS, None)
    assert hq.write(*CUSTOMERS, first).json()["ended"] == []
    answer = hq.write(second).json()
    ended = {"booking": "BK-1", "customer": "ducks", "container": BOX, "until_at_ms": MOVED_MS, "by": "BK-2", "version": 2}
    assert (answer["written"], answer["ended"]) == (1, [ended])
    whole = [("BK-1", 1, [(BEGAN_MS, None)]), ("BK-1", 2, [(BEGAN_MS, MOVED_MS)]), ("BK-2", 1, [(MOVED_MS, None)])]
    assert spans(hq) == whole
    again = hq.write(second).json()
    assert (again["written"], again["unchanged"], again["ended"]) == (0, 1, [])
    again = hq.write(first).json()
    assert (again["written"], again["unchanged"], again["ended"]) == (0, 1, [ended])
    assert spans(hq) == whole

    def noted() -> list[list[str]]:
        return [one["entries"] for one in hq.bodies("audit") if one["act"] == "registry"]

    until(lambda: len(noted()) == 2, "the writes that changed something")
    assert noted()[1] == ["booking/BK-1 v2", "booking/BK-2 v1"]


def test_two_customers_have_no_box_at_one_time_unless_both_spans_are_shared(hq: Headquarters) -> None:
    """Refused are all of them together, and nothing of the request is written; shared, each has its own span whole."""
    assert hq.write(*CUSTOMERS, booked("BK-1", "ducks", BEGAN_MS, NOW_MS)).status_code == 200
    late = booked("BK-2", "machines", MOVED_MS, None, shared=True)
    answer = hq.write(("customer", "cogs", customer("Cogs", (1, 2, 3))), late)
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert (problem["entry"], problem["id"], BOX in problem["problem"], "BK-1" in problem["problem"]) == (1, "BK-2", True, True)
    assert len(hq.bodies("registry")) == 3
    both = hq.write(booked("BK-1", "ducks", BEGAN_MS, NOW_MS, shared=True), late)
    assert (both.status_code, both.json()["ended"]) == (200, [])
    assert spans(hq)[1:] == [("BK-1", 2, [(BEGAN_MS, NOW_MS)]), ("BK-2", 1, [(MOVED_MS, None)])]


def test_of_two_registrars_at_once_one_is_refused_or_sees_the_others_booking(hq: Headquarters) -> None:
    """Goal: what came between look and append is looked at: a closed span refuses the late booking, an open one is ended by it."""
    clock = StillClock(NOW_MS)

    def wanted(reference: str, shipper: str, since_ms: int, until_ms: int | None, box: str = BOX) -> GivenEntry:
        return GivenEntry(*booked(reference, shipper, since_ms, until_ms, container=box))

    def write(reader: FileLogReader, between: GivenEntry, late: GivenEntry) -> RegistryReceipt:
        def other() -> None:
            Registrar(reader, AppendDoor(hq.door, "door"), clock).write([between], "Otto")

        return Registrar(reader, Overtaken(hq.door, other), clock).write([late], "Cleo")

    assert hq.write(*CUSTOMERS).status_code == 200
    with closing(FileLogReader(hq.folder / "log", BlockCodec())) as reader:
        with pytest.raises(Unacceptable):
            write(reader, wanted("BK-1", "ducks", BEGAN_MS, NOW_MS), wanted("BK-2", "machines", MOVED_MS, None))
        assert [reference for reference, *_ in spans(hq)] == ["BK-1"]
        other = DUCKS[1]
        receipt = write(reader, wanted("BK-3", "ducks", BEGAN_MS, None, other), wanted("BK-4", "machines", MOVED_MS, None, other))
    assert [(one.id, one.version) for one in receipt.others] == [("BK-3", 2)]
    assert spans(hq)[1:] == [("BK-3", 1, [(BEGAN_MS, None)]), ("BK-3", 2, [(BEGAN_MS, MOVED_MS)]), ("BK-4", 1, [(MOVED_MS, None)])]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_box_twice_in_a_booking_is_seen_whole(store: str, swapped: bool, fleet: Fleet, request: pytest.FixtureRequest) -> None:
    """Also in a log of before: the first row won, and with the rows swapped the owner saw 3 of 6 readings."""
    url = sqlite_url(fleet.root) if store == "sqlite" else request.getfixturevalue("postgres").format(f"twice{int(swapped)}")
    rows = [(BOX, BEGAN_MS, None), (BOX, BEGAN_MS, BEGAN_MS + HOUR_MS)]
    fleet.register(*CUSTOMERS, ("booking", "BK-1", booking("BK-1", "ducks", rows[::-1] if swapped else rows)))
    fleet.share("ducks", "ship-one", fleet.readings("ship-one", [BOX], 3, BEGAN_MS) + fleet.readings("ship-one", [BOX], 3, MOVED_MS))
    project(make_projector(fleet.hq_dir, url))
    with api_of(settings_for(fleet.hq_dir, fleet.root, database_url=url), still_clock()) as client:
        told = client.get(f"/api/containers/{BOX}/timeline", headers=log_in(client, "donald")).json()
    assert len([one for one in told["items"] if one["kind"] == "reading"]) == 6


@pytest.mark.parametrize(("shared", "seen"), [(False, (3, 3)), (True, (6, 3))])
def test_each_customer_sees_its_own_span(shared: bool, seen: tuple[int, int], fleet: Fleet) -> None:
    """Of six readings, three before and three after another customer's booking begins; Spark gave all of them to the first, before."""
    more = {"shared": True} if shared else {}
    fleet.register(*CUSTOMERS, booked("BK-1", "ducks", BEGAN_MS, None, **more))
    readings = fleet.readings("ship-one", [BOX], 3, BEGAN_MS) + fleet.readings("ship-one", [BOX], 3, MOVED_MS)
    fleet.share("ducks", "ship-one", readings)
    project(make_projector(fleet.hq_dir, sqlite_url(fleet.root)))
    fleet.register(booked("BK-1", "ducks", BEGAN_MS, None if shared else MOVED_MS, **more), version=2)
    fleet.register(booked("BK-2", "machines", MOVED_MS, None, **more))
    fleet.share("machines", "ship-one", readings[3:])
    project(make_projector(fleet.hq_dir, sqlite_url(fleet.root)))
    with api_of(settings_for(fleet.hq_dir, fleet.root), still_clock()) as client:
        told = [client.get(f"/api/containers/{BOX}/timeline", headers=log_in(client, who)).json()["items"] for who in ("donald", "otto")]
    assert tuple(len([one for one in items if one["kind"] == "reading"]) for items in told) == seen
