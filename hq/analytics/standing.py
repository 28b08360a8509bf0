"""The current state of every container and ship: each signal's newest value by order time, which late readings never move back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from cargo.loss.event_time import believed_at_ms, corrected_at_ms
from cargo.loss.reading_rows import is_topic, signs_of_life
from cargo.shore_rules.fleet_rules import ContainerReport
from cargo.shore_rules.ship_of_box import LOOK_BACK_MS, place_heard
from hq.analytics.folding import READ_COLUMNS, STATES, fold_readings, merge_states, state_keys, topics_of
from hq.analytics.writing import idempotent
from hq.delta_tables import HISTORY, HISTORY_WRITER, STATE
from hq.spark_rows import SIGNAL_FIELDS
from streams.commit_points import commit_point
from streams.model.identifiers import Origin
from streams.model.records import ADMITTED_AT, ORDER_AT, TOPIC, Record

WRITER = "analytics.state"
STATES_MAX = 200_000
PART_ROWS = 262_144
_SIGNALS = [f.name for f in SIGNAL_FIELDS]


@dataclass(frozen=True, slots=True)
class Changed:
    """States as of micro-batch `folded`, of the topics that changed since an earlier one."""

    states: pa.Table
    folded: int


class CurrentStates:
    """States as of the last micro-batch: the Delta table `state`, which is some micro-batches behind, and what has changed since.

    Folding the same readings in twice changes nothing: a state is a maximum. So a restart only has to fold in enough. The driver holds what
    has changed since the table was settled, and up to STATES_MAX states more, to save a look at the table. For one thread at a time.
    """

    def __init__(self, root: str) -> None:
        """The states after all micro-batches in the history."""
        self._root = root
        self._known = STATES.empty_table()
        self._changed: set[str] = set()
        self._writing: set[str] = set()
        self._folded = HISTORY.committed(root, HISTORY_WRITER)
        settled = STATE.committed(root, WRITER)
        history = HISTORY.dataset(root)
        if history is not None and self._folded is not None:
            since = ds.field("batch") > (-1 if settled is None else settled)
            for part in history.to_batches(columns=list(READ_COLUMNS), filter=since, batch_size=PART_ROWS):
                self.fold_in(pa.Table.from_batches([part]), self._folded)

    def fold_in(self, rows: pa.Table, batch: int) -> pa.Table:
        """The states of the things that `rows` (wide, of micro-batches up to `batch`) touch, these folded in; one row each, by key."""
        newest = fold_readings(rows.select(READ_COLUMNS))
        keys = state_keys(newest).combine_chunks()
        known = state_keys(self._known)
        is_touched = pc.is_in(known, keys)
        unknown = keys.filter(pc.invert(pc.is_in(keys, known.combine_chunks())))
        touched = merge_states(pa.concat_tables([newest, self._known.filter(is_touched), self._in_table(unknown)]))
        self._known = pa.concat_tables([self._known.filter(pc.invert(is_touched)), touched])
        self._changed.update(keys.to_pylist())
        self._folded = batch
        self._forget()
        return touched

    def take_changed(self) -> Changed:
        """The states that the table lacks, to be written into it (`settle_states`); then `wrote` is to be called, whether it succeeded."""
        self._writing = self._writing | self._changed
        self._changed = set()
        return Changed(self._only(self._writing), -1 if self._folded is None else self._folded)

    def wrote(self, *, succeeded: bool) -> None:
        """What `take_changed` gave last is in the table, or is not."""
        if not succeeded:
            self._changed |= self._writing
        self._writing = set()

    def _forget(self) -> None:
        """Keeps no more than the table lacks, once the states are too many to be held."""
        if self._known.num_rows > STATES_MAX:
            self._known = self._only(self._changed | self._writing)

    def _only(self, keys: set[str]) -> pa.Table:
        return self._known.filter(pc.is_in(state_keys(self._known), pa.array(sorted(keys), pa.string())))

    def _in_table(self, keys: pa.Array) -> pa.Table:
        """What the table says of the things with these keys."""
        table = STATE.dataset(self._root) if len(keys) else None
        if table is None:
            return STATES.empty_table()
        there = table.to_table(columns=STATES.names, filter=ds.field("topic").isin(topics_of(keys))).cast(STATES)
        return there.filter(pc.is_in(state_keys(there), keys))


def settle_states(spark: SparkSession, root: str, changed: Changed) -> None:
    """The Delta table `state` has `changed`."""
    if changed.states.num_rows:
        spark.createDataFrame(changed.states).createOrReplaceTempView("changed_states")
        with idempotent(spark, WRITER, changed.folded):
            spark.sql(
                f"MERGE INTO delta.`{STATE.path(root)}` t USING changed_states s ON t.topic = s.topic AND t.kind = s.kind "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
    commit_point("analytics.state")


def settled_places(root: str, disputed: Mapping[str, int], places: Mapping[str, str]) -> dict[str, str]:
    """The place of each of `disputed` (container → its newest report, UTC ms) by the history, the micro-batch at hand in it: where
    `cargo.shore_rules.ship_of_box` puts it. `places`: node name → `ship/<imo>` or `quay/<locode>`."""
    history = HISTORY.dataset(root) if disputed else None
    if history is None:
        return {}
    wanted = (ds.field("stream") == "containers") & ds.field(TOPIC).isin(sorted(disputed))
    rows = history.to_table(columns=list(READ_COLUMNS), filter=wanted & (ds.field(ORDER_AT) > min(disputed.values()) - LOOK_BACK_MS))
    rows = rows.filter(pa.array(signs_of_life(rows)))
    reports: dict[str, list[ContainerReport]] = {container: [] for container in disputed}
    believed = believed_at_ms(corrected_at_ms(rows), rows.column(ADMITTED_AT)).to_pylist()
    for container, at_ms, origin in zip(rows.column(TOPIC).to_pylist(), believed, rows.column("origin").to_pylist(), strict=True):
        if place := places.get(Origin.parse(origin).node):
            reports[container].append(ContainerReport(at_ms, place))
    return {container: place for container, heard in reports.items() if (place := place_heard(heard))}


def state_records(states: pa.Table, places: Mapping[str, str], settled: Mapping[str, str]) -> list[Record]:
    """The records of stream `states`, by topic and kind. `places`: node name → `ship/<imo>` or `quay/<locode>`, where its sensors are;
    `settled`: container → its place, where its newest reading alone does not decide it. A state whose topic is no valid topic is left out.
    """
    ordered = states.sort_by([("topic", "ascending"), ("kind", "ascending")]).to_pylist()
    return [_state_record(row, _place(row, places, settled)) for row in ordered if is_topic(row["topic"])]


def _place(row: Mapping[str, Any], places: Mapping[str, str], settled: Mapping[str, str]) -> str:
    if row["kind"] == "container" and row["topic"] in settled:
        return settled[row["topic"]]
    return places.get(Origin.parse(row["changed_at"]["origin"]).node, "")


def _state_record(row: Mapping[str, Any], place: str) -> Record:
    at_ms = row["changed_at"]["at"]
    kind, _, identity = place.partition("/")
    signals = {
        name: {"value": row[name]["value"], "at_ms": row[name]["at"]}
        for name in _SIGNALS
        if row[name] is not None and _tellable(row[name]["value"])
    }
    position = signals.get("latitude_deg")
    body = {
        "kind": row["kind"],
        "at_ms": at_ms,
        "place": {"kind": kind, "id": identity} if identity else None,
        "latitude_deg": signals["latitude_deg"]["value"] if position else None,
        "longitude_deg": signals["longitude_deg"]["value"] if position and "longitude_deg" in signals else None,
        "position_at_ms": position["at_ms"] if position else None,
        "signals": signals,
    }
    return Record(row["topic"], device_at_ms=at_ms, body=body)


def _tellable(value: Any) -> bool:
    """JSON has no word for what is no finite number."""
    return not isinstance(value, float) or math.isfinite(value)
