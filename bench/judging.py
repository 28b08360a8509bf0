"""Readings per second that the watch inside Spark judges: the histories of several ships, from headquarters' table to the comparison.

`python -m bench.judging [containers] [hours] [ships]`: one reading per container and hour, shared out to the ships, in a table as the
analytics leave it; then what `landfall judge` does, twice, the second time with Spark warm. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from bench.readings import fleet_readings
from cargo.identifiers import make_imo
from hq.analytics.judging import Asked, judge_histories
from hq.spark import SparkSettings, start_spark
from hq.tables import HISTORY
from hq.wide import WIDE
from streams.records import OFFSET, ORDER_AT, RECEIVED_AT

MEMORY = "4g"


def written(root: Path, readings: pa.RecordBatch, ships: int) -> dict[str, str]:
    """The readings are in the table, each ship's taken in by her node as they were measured; which node is whose."""
    numbers = sorted(set(readings.column("topic").to_pylist()))
    node_of = {number: f"node-{at % ships}" for at, number in enumerate(numbers)}
    at_ms = readings.column("device_at_ms")
    columns = {name: readings.column(name) for name in readings.schema.names if name in WIDE.names}
    columns |= {ORDER_AT: at_ms, RECEIVED_AT: at_ms, OFFSET: pa.array(range(readings.num_rows), pa.int64())}
    columns["stream"] = pa.array(["containers"] * readings.num_rows)
    columns["origin"] = pa.array([f"{node_of[number]}@1" for number in readings.column("topic").to_pylist()])
    rows = pa.table({f.name: columns.get(f.name, pa.nulls(readings.num_rows, f.type)) for f in WIDE})
    write_deltalake(HISTORY.path(str(root)), rows)
    return {f"node-{at}": f"ship/{make_imo(900_000 + at)}" for at in range(ships)}


def main(containers: int = 4_000, hours: int = 100, ships: int = 8) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        places = written(root, fleet_readings(containers, hours), ships)
        spark = start_spark(SparkSettings(driver_memory=MEMORY, shuffle_partitions=ships), root / "scratch")
        found: dict[str, float] = {"readings": containers * hours, "ships": ships}
        for run in ("first", "warm"):
            began_s = time.perf_counter()
            judgement = judge_histories(spark, str(root), places, Asked())
            took_s = time.perf_counter() - began_s
            judged = sum(judgement.readings.values())
            if judged != containers * hours:
                raise RuntimeError(f"{judged} of {containers * hours} readings were judged")
            found |= {f"{run}_s": round(took_s, 1), f"{run}_readings_s": round(judged / took_s)}
        spark.stop()
    found["episodes"] = len(judgement.compared)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
