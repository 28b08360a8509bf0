"""A reading that two nodes took in is one reading of the store: one row, the same in whatever order the records come, and counted once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import RowMapping, select

from hq.serving import models as m
from hq.serving.database import ServingReader
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, table_rows
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, Fleet, fill

AT_MS = NOW_MS - HOUR_MS
BOX = DUCKS[0]
NODES = ("ship-one", "singapore")
ORDERS = (NODES, NODES[::-1])
Store = Callable[[str], str]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Addresses of stores of this test by name."""
    if request.param == "sqlite":
        return lambda name: sqlite_url(tmp_path, name)
    postgres: str = request.getfixturevalue("postgres")
    return lambda name: postgres.format(tmp_path.name.replace("-", "_") + name)


def told(gateway: str, warmer_c: float = 0.0, flags: tuple[str, ...] = ()) -> Record:
    """What a tracker said, heard through `gateway`."""
    body = {"firmware": "1.2"} | ({"flags": list(flags)} if flags else {})
    return Record(BOX, "TRK-x", AT_MS, {"return_c": 4.0 + warmer_c, "gateway": gateway}, body)


def take_in(fleet: Fleet, order: tuple[str, ...], wait_ms: int = 60_000) -> None:
    """The same reading taken in at each node of `order`, `wait_ms` apart."""
    for node in order:
        fleet.append(node, "containers", [told(node)])
        fleet.clock.at_ms += wait_ms


def readings(url: str) -> list[RowMapping]:
    with closing(ServingReader(url)) as reader, reader.snapshot() as connection:
        return list(connection.execute(select(m.Reading.__table__)).mappings())


def counted(url: str) -> tuple[int | None, dict[str, int]]:
    """How many readings the store says it has, and how many records of each stream were projected."""
    with closing(ServingReader(url)) as reader, reader.snapshot() as connection:
        records = {row.stream: row.records for row in connection.execute(select(m.StreamAge.stream, m.StreamAge.records))}
        return connection.execute(select(m.Projection.readings)).scalar(), records


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_what_two_nodes_took_in_is_one_row_of_the_first_received(fleet: Fleet, store: Store, order: tuple[str, ...]) -> None:
    """Whichever of the two came in first, and whether the store saw them in one step or each in its own."""
    take_in(fleet, order)
    steps, whole = store("steps"), store("whole")
    project(make_projector(fleet.hq_dir, steps, step_records_max=1))
    project(make_projector(fleet.hq_dir, whole))
    (row,) = readings(whole)
    assert row["origin"].startswith(order[0])
    assert row["signals"]["gateway"] == order[0]
    assert row["received_at_ms"] == NOW_MS
    assert counted(whole) == (1, {"containers": 2})
    assert table_rows(steps) == table_rows(whole)
    assert counted(steps) == counted(whole)


@pytest.mark.parametrize("wait_ms", [0, 60_000])
def test_what_came_to_headquarters_late_replaces_what_was_received_later(fleet: Fleet, store: Store, wait_ms: int) -> None:
    """The one received first lies on its ship until the other one is long projected: the store ends as one built anew. With equal received
    times the origin decides."""
    first = fleet.logs["ship-one"].append([Append("containers", to_batch([told("ship-one")]))])[0]
    fleet.clock.at_ms += wait_ms
    live = make_projector(fleet.hq_dir, store("live"))
    fleet.append("singapore", "containers", [told("singapore")])
    project(live)
    assert [row["origin"].startswith("singapore") for row in readings(store("live"))] == [True]
    blocks = list(fleet.logs["ship-one"].blocks("containers", first.origin, first.first, first.first + first.count))
    fleet.logs["hq"].admit(blocks)
    project(live)
    project(make_projector(fleet.hq_dir, store("anew")))
    assert [row["origin"].startswith("ship-one") for row in readings(store("live"))] == [True]
    assert table_rows(store("live")) == table_rows(store("anew"))
    assert counted(store("live")) == counted(store("anew")) == (1, {"containers": 2})


def test_what_differs_is_no_repeat(fleet: Fleet, store: Store) -> None:
    """Another value, another device time, no device: each its own row. Our own flags and who heard it make no other reading."""
    nameless = Record(BOX, None, AT_MS, {"return_c": 4.0})
    timeless = Record(BOX, "TRK-x", None, {"return_c": 4.0})
    later = Record(BOX, "TRK-x", AT_MS + 1, {"return_c": 4.0}, {"firmware": "1.2"})
    for node in NODES:
        fleet.append(node, "containers", [nameless, timeless])
    fleet.append("ship-one", "containers", [told("a"), told("b", 0.25), later, told("a")])
    fleet.append("singapore", "containers", [told("c", flags=("clock",)), told("a", 0.5)])
    project(make_projector(fleet.hq_dir, store("differs")))
    assert len(readings(store("differs"))) == 2 * len(NODES) + 4
    assert counted(store("differs")) == (8, {"containers": 10})


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_timeline_and_counts_have_it_once(fleet: Fleet, tmp_path: Path, order: tuple[str, ...]) -> None:
    """Through the API, with all the rest of a fleet around it; a customer is told no count."""
    fill(fleet)
    one = make_projector(fleet.hq_dir, sqlite_url(tmp_path))
    project(one)
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        before, received = timeline(client), status(client)
        assert received["readings"] == records(received)
        take_in(fleet, order)
        project(one)
        after, now = timeline(client), status(client)
        assert client.get("/api/status", headers=log_in(client, "donald")).json()["readings"] is None
    new = [item for item in after if item not in before]
    assert [(item["device"], item["device_at_ms"], item["signals"]["gateway"]) for item in new] == [("TRK-x", AT_MS, order[0])]
    assert len(after) == len(before) + 1
    assert (now["readings"], records(now)) == (received["readings"] + 1, records(received) + 2)


def timeline(client: httpx.Client) -> list[dict[str, Any]]:
    """The box's readings, as operations see them."""
    answer = client.get(f"/api/containers/{BOX}/timeline", params={"limit": 500}, headers=log_in(client, "mira"))
    return [item for item in answer.raise_for_status().json()["items"] if item["kind"] == "reading"]


def status(client: httpx.Client) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/api/status", headers=log_in(client, "mira")).raise_for_status().json()
    return answer


def records(told: dict[str, Any]) -> int:
    """How many records of readings were projected."""
    return sum(one["records"] for one in told["streams"] if one["stream"] in ("containers", "ships"))
