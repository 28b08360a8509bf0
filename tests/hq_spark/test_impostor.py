"""Goal: a sensor that calls itself by the number of another kind of thing is kept, and moves nothing but itself: from MQTT to the map."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
from sqlalchemy import select

from hq.analytics.standing import CurrentStates, state_records
from hq.serving import models as m
from hq.serving.database import ServingReader
from hq.spark_rows import widen
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.log import Append, Log
from streams.model.clock import StillClock
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import make_projector, project, sqlite_url
from tests.intake.stand import AT, BOX, Publisher, payload, stand

IMO = "9321483"
PLACES = {"ship-a": f"ship/{IMO}"}
SAID = (
    (f"landfall/ships/{IMO}/location", payload(0, latitude_deg=-30.0, longitude_deg=150.0)),
    (f"landfall/containers/{IMO}/reading", payload(1, latitude_deg=35.6, longitude_deg=139.8)),
    (f"landfall/containers/{BOX}/reading", payload(2, latitude_deg=-30.0, longitude_deg=150.0)),
    (f"landfall/ships/{BOX}/location", payload(3, latitude_deg=51.5, longitude_deg=0.1)),
)
"""A ship and a box, and after each an impostor of the other kind with its number, elsewhere."""


async def test_an_impostor_moves_neither_a_ship_nor_a_box(tmp_path: Path) -> None:
    async with stand(tmp_path, clock=StillClock(AT + 10_000)) as one:
        with Publisher(one.endpoint.port) as publisher:
            mids = {publisher.publish(topic, sent) for topic, sent in SAID}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        assert (len(one.rows("containers")), len(one.rows("ships"))) == (2, 2)
        batches = [pa.Table.from_batches([widen(batch)]) for name in ("ships", "containers") for batch in one.log.read(name, Position())]
    for order in (batches, batches[::-1]):
        standing = CurrentStates(str(tmp_path / "none"))
        states = [record for part in order for record in state_records(standing.fold_in(part, 0), PLACES, {})]
        where = {(one.body["kind"], one.topic): one.body["latitude_deg"] for one in states if one.body}
        assert where == {("ship", IMO): -30.0, ("container", IMO): 35.6, ("container", BOX): -30.0, ("ship", BOX): 51.5}
    log = FileLog(tmp_path / "log", tmp_path / "marker", "ship-a", BlockCodec(), StillClock(AT + 10_000))
    shown = drawn(log, states, tmp_path)
    assert shown["ship"] == {IMO: -30.0, BOX: 51.5}
    assert shown["container"] == {IMO: 35.6, BOX: -30.0}


def test_of_what_is_no_topic_no_state_is_told(tmp_path: Path) -> None:
    """A topic as raw columns bring it, of which no record can be made, ends nothing."""
    log = FileLog(tmp_path / "log", tmp_path / "marker", "ship-a", BlockCodec(), StillClock(AT + 10_000))
    rows = to_batch([Record(BOX, "T", AT, {"return_c": 4.0}), Record(BOX, "T", AT, {"return_c": 5.0})])
    log.append([Append("containers", rows.set_column(0, rows.schema.field(0), pa.array(["a\nb", BOX])))])
    wide = [pa.Table.from_batches([widen(batch)]) for batch in log.read("containers", Position())]
    states = state_records(CurrentStates(str(tmp_path / "none")).fold_in(pa.concat_tables(wide), 0), PLACES, {})
    assert [one.topic for one in states] == [BOX]
    log.close()


def drawn(log: Log, told: list[Record], folder: Path) -> dict[str, dict[str, float | None]]:
    """The latitudes of ships and boxes in a store projected from `log` with `told` in it."""
    log.append([Append("states", to_batch(told))])
    log.close()
    project(make_projector(folder / "log", sqlite_url(folder)))
    reader = ServingReader(sqlite_url(folder))
    with reader.snapshot() as connection:
        ships = {row.ship: row.latitude_deg for row in connection.execute(select(m.ShipState.__table__))}
        boxes = {row.container: row.latitude_deg for row in connection.execute(select(m.ContainerState.__table__))}
    reader.close()
    return {"ship": ships, "container": boxes}
