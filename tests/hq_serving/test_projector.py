"""The projector: every record a row, once, whatever is killed or dropped; and the same rows whenever it builds the store again."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select

from hq.serving import models as m
from hq.serving.database import DatabaseGone, ServingReader
from streams.records import Record
from tests.hq_serving.conftest import make_projector, project, sqlite_url, table_rows
from tests.hq_serving.fleet import DUCKS, FOREIGN, NOW_MS, SHIP, Fleet, booking, fill


def test_every_record_becomes_rows_once(fleet: Fleet, tmp_path: Path) -> None:
    """What the logs hold is in the store, field by field, and projecting again adds nothing."""
    fill(fleet)
    url = sqlite_url(tmp_path)
    assert project(make_projector(fleet.hq_dir, url)) > 0
    before = table_rows(url)
    assert project(make_projector(fleet.hq_dir, url)) == 0
    assert table_rows(url) == before
    assert before["rejected"] == []
    reader = ServingReader(url)
    with reader.snapshot() as connection:
        rows = connection.execute(select(m.Reading.__table__).where(m.Reading.topic == DUCKS[0])).mappings().all()
        assert connection.execute(select(func.count()).select_from(m.Reading)).scalar() == 36
    held = [
        row
        for origin in fleet.logs["hq"].ledger("containers")
        for batch in fleet.logs["hq"].run("containers", origin, 0, 1000)
        for row in batch.rows()
        if row.record.topic == DUCKS[0]
    ]
    assert [
        (r["origin"], r["offset"], r["order_at_ms"], r["received_at_ms"], r["device"], r["device_at_ms"], r["signals"]) for r in rows
    ] == [
        (
            str(h.coordinates.origin),
            h.coordinates.offset,
            h.order_at_ms,
            h.received_at_ms,
            h.record.device,
            h.record.device_at_ms,
            h.record.signals,
        )
        for h in held
    ]
    assert {r["body"] for r in rows} == {'{"firmware":"1.2"}'}
    reader.close()


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
        assert connection.execute(select(m.Alert.acknowledged_by).where(m.Alert.alert_id == "a-duck")).scalar() == "Mira"
        incident = connection.execute(select(m.Incident.__table__)).mappings().one()
    assert (incident["open_alerts"], incident["ship"], incident["bays"]) == (2, SHIP, [74])
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
