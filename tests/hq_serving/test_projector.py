"""The projector: every record a row, once, whatever is killed or dropped; and the same rows whenever it builds the store again."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from hq.serving import models as m
from hq.serving.database import ServingReader
from hq.serving.database_faults import DatabaseGone
from streams.model.identifiers import Position
from streams.model.records import Record, StoredRecord, body_text
from tests.hq_serving.conftest import make_projector, project, sqlite_url, table_rows
from tests.hq_serving.fleet import DUCKS, FOREIGN, NOW_MS, SHIP, Fleet, booking, fill


def test_every_record_becomes_rows_once(fleet: Fleet, tmp_path: Path) -> None:
    """What the logs hold is in the store, field by field, and projecting again adds nothing."""
    fill(fleet)
    fleet.append(
        "ship-one", "ships", [Record(f"{SHIP}.environment", "WEATHER", NOW_MS, {"roll_deg": -12.5, "wind_kn": 40.0}, {"maker": "A"})]
    )
    url = sqlite_url(tmp_path)
    assert project(make_projector(fleet.hq_dir, url)) > 0
    before = table_rows(url)
    assert project(make_projector(fleet.hq_dir, url)) == 0
    assert table_rows(url) == before
    assert before["rejected"] == []
    reader = ServingReader(url)
    with reader.snapshot() as connection:
        rows = connection.execute(select(m.Reading.__table__)).mappings().all()
    reader.close()
    log = fleet.logs["hq"]
    held = [row for stream in ("containers", "ships") for batch in log.read(stream, Position()) for row in batch.rows()]
    assert len(held) == 37
    assert {row.record.topic.partition(".")[2] for row in held} == {"", "location", "environment"}
    assert sorted(map(told, rows), key=str) == sorted(map(stored, held), key=str)


def told(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    """A row of `reading`."""
    at = (row["stream"], row["origin"], row["offset"], row["order_at_ms"], row["received_at_ms"])
    return (*at, row["topic"], row["device"], row["device_at_ms"], row["signals"], row["body"])


def stored(row: StoredRecord) -> tuple[Any, ...]:
    """What the row of a record must say."""
    at, one = row.coordinates, row.record
    body = None if one.body is None else body_text(one.body)
    where = (at.stream, str(at.origin), at.offset, row.order_at_ms, row.received_at_ms)
    return (*where, one.topic, one.device, one.device_at_ms, dict(one.signals), body)


def test_small_steps_and_one_step_give_the_same(fleet: Fleet, tmp_path: Path) -> None:
    """How the work is cut makes no difference to the rows."""
    fill(fleet)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path, "whole")))
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path, "cut"), step_records_max=1))
    assert table_rows(sqlite_url(tmp_path, "cut")) == table_rows(sqlite_url(tmp_path, "whole"))


def test_a_later_version_of_a_booking_replaces_its_spans(fleet: Fleet, tmp_path: Path) -> None:
    """A box taken off a booking is no longer its customer's."""
    fill(fleet)
    one = make_projector(fleet.hq_dir, sqlite_url(tmp_path))
    project(one)
    fleet.register(("booking", "BK-1", booking("BK-1", "ducks", [(DUCKS[0], NOW_MS, None)])), version=2)
    project(one)
    reader = ServingReader(sqlite_url(tmp_path))
    with reader.snapshot() as connection:
        spans = select(m.BookingContainer.container, m.BookingContainer.from_at_ms).where(m.BookingContainer.booking == "BK-1")
        assert connection.execute(spans).all() == [(DUCKS[0], NOW_MS)]
    reader.close()


def test_an_acknowledged_alert_keeps_who_did_it(fleet: Fleet, tmp_path: Path) -> None:
    """Acknowledgement comes from headquarters, the alert from the ship; the incident counts what is still open."""
    fill(fleet)
    fleet.alert("hq", DUCKS[3], "a-duck", state="acknowledged", at_ms=NOW_MS + 1, by="Mira", incident_id="i-1")
    fleet.alert("ship-one", FOREIGN[0], "a-foreign", state="retracted", at_ms=NOW_MS + 2, incident_id="i-1")
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    reader = ServingReader(sqlite_url(tmp_path))
    with reader.snapshot() as connection:
        noted = connection.execute(select(m.AlertRow.acknowledgement).where(m.AlertRow.alert_id == "a-duck")).scalar_one()
        assert noted is not None
        assert (noted["by"], noted["at_ms"], noted["severity"]) == ("Mira", NOW_MS + 1, "CRITICAL")
        incident = connection.execute(select(m.IncidentRow.__table__)).mappings().one()
    assert (incident["open_alerts"], incident["ship"], incident["bays"]) == (1, SHIP, [74])
    reader.close()


def test_a_loss_confirmed_aboard_is_confirmed_here_though_it_was_acknowledged_meanwhile(fleet: Fleet, tmp_path: Path) -> None:
    """The ship's word comes late, after an acknowledgement by who knew of a probable loss: status and incident are the ship's."""
    fill(fleet)
    fleet.alert("hq", DUCKS[3], "a-duck", state="acknowledged", at_ms=NOW_MS + 9, by="Mira", status="PROBABLE_OVERBOARD", incident_id="i-1")
    fleet.alert("ship-one", DUCKS[3], "a-duck", state="updated", at_ms=NOW_MS + 1, status="CONFIRMED_LOST", incident_id="i-1")
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    reader = ServingReader(sqlite_url(tmp_path))
    with reader.snapshot() as connection:
        asked = select(m.AlertRow.status, m.AlertRow.state, m.AlertRow.acknowledgement).where(m.AlertRow.alert_id == "a-duck")
        status, state, noted = connection.execute(asked).one()
    assert (status, state, noted["by"]) == ("CONFIRMED_LOST", "acknowledged", "Mira")
    reader.close()


def test_a_record_that_does_not_read_is_set_aside(fleet: Fleet, tmp_path: Path) -> None:
    """A poison record stops nothing, and is kept with its reason."""
    fleet.append("hq", "states", [Record("X", body={"kind": "container"}), Record("Y")])
    fleet.append("hq", "registry", [Record("moon/1", body={"type": "moon", "id": "1", "version": 1, "at_ms": 1, "by": "x", "value": {}})])
    fleet.state("container", DUCKS[0], ("quay", "SGSIN"))
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    told = table_rows(sqlite_url(tmp_path))
    assert len(told["rejected"]) == 3
    assert len(told["container_state"]) == 1


def test_a_deleted_database_is_made_again_identical(fleet: Fleet, tmp_path: Path) -> None:
    """The file goes while projector and reader have it open: the reader says so, and afterwards all is as it was."""
    fill(fleet)
    url = sqlite_url(tmp_path)
    one = make_projector(fleet.hq_dir, url)
    one.start()
    one.step()
    before = table_rows(url)
    reader = ServingReader(url)
    with reader.snapshot() as connection:
        assert connection.execute(select(m.Projection.ready_wall_at_ms)).scalar() is not None
    (tmp_path / "serving.db").unlink()
    with pytest.raises(DatabaseGone), reader.snapshot():
        pass
    with pytest.raises(DatabaseGone):
        one.step()
    one.start()
    one.step()
    assert table_rows(url) == before
    with reader.snapshot() as connection:
        assert connection.execute(select(func.count()).select_from(m.Reading)).scalar() == 36
    reader.close()
    one.database.close()


def test_a_reader_that_is_closed_within_a_snapshot_leaves_no_connection_open(fleet: Fleet, tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    project(make_projector(fleet.hq_dir, url))
    reader = ServingReader(url)
    with reader.snapshot() as connection:
        opened = connection.connection.driver_connection
        reader.close()
        assert connection.execute(select(func.count()).select_from(m.Reading)).scalar() == 0, "the snapshot goes on"
    assert opened is not None
    with pytest.raises(sqlite3.ProgrammingError):
        opened.execute("SELECT 1")
