"""Goal: a customer's box that two ships report by turns stays on its ship, however the records are cut and in whatever order they come."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from hq.serving import models as m
from hq.serving.database import ServingReader
from streams.log import Append
from streams.model.identifiers import Coordinates, Origin
from streams.model.records import SOURCE_OFFSET, SOURCE_STREAM, Record, to_batch
from tests.hq_serving.conftest import make_projector, project, sqlite_url
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, OTHER_SHIP, SHIP, Fleet, booking

BOX = DUCKS[0]
MINUTE_MS = 60_000
BEGIN_MS = NOW_MS - 6 * HOUR_MS
BY_TURNS = [(minute, "ship-one") for minute in range(0, 60, 5)] + [(60 + 5 * n, ("ship-two", "ship-one")[n % 2]) for n in range(31)]
"""Minutes and nodes: the first ship alone for an hour, then both; the newest report is the second ship's."""


def share(fleet: Fleet, reports: Sequence[tuple[int, str]]) -> None:
    """What Spark gives the customer: readings of the box with the node that took each in."""
    fleet.register(("booking", "BK-1", booking("BK-1", "ducks", [(BOX, BEGIN_MS, None)])))
    given = [
        Record(BOX, "TRK-1", BEGIN_MS + minute * MINUTE_MS, {"return_c": 4.0}, None, Coordinates("containers", Origin(node, 1), minute))
        for minute, node in reports
    ]
    fleet.logs["hq"].append([Append("customers/ducks", to_batch(given).drop_columns([SOURCE_STREAM, SOURCE_OFFSET]))])


def place(url: str) -> tuple[str | None, str | None]:
    """Where the customer sees the box."""
    c = m.CustomerContainer
    with closing(ServingReader(url)) as reader, reader.snapshot() as connection:
        row = connection.execute(select(c.place_kind, c.place_id).where(c.container == BOX)).one()
    return row.place_kind, row.place_id


@pytest.mark.parametrize("step_records_max", [1, 7, 20_000])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "newest first"])
def test_a_box_that_two_ships_report_by_turns_stays(fleet: Fleet, tmp_path: Path, step_records_max: int, order: int) -> None:
    share(fleet, BY_TURNS[::order])
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path), step_records_max))
    assert place(sqlite_url(tmp_path)) == ("ship", SHIP)


def test_a_box_that_was_carried_over_moves_an_hour_after_its_ship_last_reported_it(fleet: Fleet, tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    one = make_projector(fleet.hq_dir, url)
    last = BY_TURNS[-2][0]
    for minute, imo in ((last + 10, SHIP), (last + 59, SHIP), (last + 60, OTHER_SHIP)):
        share(fleet, [*BY_TURNS, (minute, "ship-two")])
        project(one)
        assert place(url) == ("ship", imo)
    share(fleet, [(last + 61, "singapore")])
    project(one)
    assert place(url) == ("quay", "SGSIN")


def test_an_end_of_the_booking_written_late_counts_for_the_place_too(fleet: Fleet, tmp_path: Path) -> None:
    """What the customer may no longer know does not place its box."""
    url = sqlite_url(tmp_path)
    one = make_projector(fleet.hq_dir, url)
    share(fleet, [*BY_TURNS, *((BY_TURNS[-2][0] + minute, "ship-two") for minute in (30, 90))])
    project(one)
    assert place(url) == ("ship", OTHER_SHIP)
    until_ms = BEGIN_MS + (BY_TURNS[-2][0] + 60) * MINUTE_MS
    fleet.register(("booking", "BK-1", booking("BK-1", "ducks", [(BOX, BEGIN_MS, until_ms)])), version=2)
    project(one)
    assert place(url) == ("ship", SHIP)
