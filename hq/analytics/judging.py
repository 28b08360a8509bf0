"""The watch inside Spark: every ship's and every quay's whole history judged by the very rules that judge there (`cargo.loss.watch`), in
the time of the readings, and what it shows beside what was told when it came.

1 each place's readings in the order they came: the time each is of, by the place's trusted clock (`cargo.loss.event_time`)   2 the same in
the order of that time, with the registry's entries between them: what the watch makes of it   3 beside the history's alerts and records.
A place is one task, its readings flow through it: a cluster judges as many places at once as it has cores. Reads the tables, and writes
nothing: what is found late alarms nobody.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from cargo.loss.event_time import EventClock
from cargo.loss.reading_rows import is_topic, rows, signs_of_life
from cargo.loss.watch import learn, step
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.shore_rules.alert_comparison import EXCURSION, Compared, ReportedEpisode, Said, compare, episodes
from cargo.vocabulary.registry_entries import Booking, Entry, LoadList, Port, SizeType
from hq.analytics.overview import REGISTRY, read_entries
from hq.analytics.settings import AnalyticsSettings
from hq.delta_tables import HISTORY
from hq.spark_rows import READING_STREAMS, SIGNAL_FIELDS
from hq.spark_session import start_spark
from streams.model.errors import Misuse
from streams.model.records import BODY, DEVICE, DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC, read_body

LEAD_MS = 30 * 86_400_000
"""So long before the time that is asked about the readings begin: a watch has forgotten by then what left (`cargo.loss.state_pruner`)."""
PLACE, STREAM, AT, REACHED = "place", "stream", "at_ms", "reached_at_ms"
SETTLED = "settled"
"""What each place says last: up to when it has judged (UTC ms), and how many readings."""
MADE = pa.schema([(PLACE, pa.string()), (STREAM, pa.string()), (TOPIC, pa.string()), (AT, pa.int64()), (BODY, pa.string())])
MADE_DDL = f"{PLACE} string, {STREAM} string, {TOPIC} string, {AT} bigint, {BODY} string"
CAME_BY = (RECEIVED_AT, ORDER_AT, STREAM, "origin", OFFSET)
READ = (PLACE, *CAME_BY, TOPIC, DEVICE, DEVICE_AT, BODY, *(f.name for f in SIGNAL_FIELDS))
TAUGHT = (Booking, LoadList, Port, SizeType)
"""Of the registry what a watch goes by."""


@dataclass(frozen=True, slots=True)
class JudgementRequest:
    """What is to be judged: episodes of one container (None: all), that are not over before `since_ms`, by readings before `until_ms` (UTC
    ms; None: all there are)."""

    container: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How many readings were judged of each place, and up to when (UTC ms); and each episode as it shows and as it was told."""

    readings: Mapping[str, int]
    settled_at_ms: Mapping[str, int]
    compared: Sequence[Compared]


def judge_tables(settings: AnalyticsSettings, asked: JudgementRequest) -> Judgement:
    """The same in a Spark of its own, which ends with it: where the analytics run beside it, they go on. Raises Misuse where there is
    nothing to judge."""
    if HISTORY.dataset(settings.tables_dir) is None:
        raise Misuse(
            f"there are no tables in {settings.tables_dir}",
            hint="`landfall analytics` makes them; or give its settings with -c",
            code="tables_missing",
        )
    if not settings.places:
        raise Misuse(
            "the settings name no places", hint="write under [places] which ship or quay each node's sensors are on", code="places_missing"
        )
    spark = start_spark(settings.spark, settings.scratch_dir / "judge")
    try:
        return judge_histories(spark, settings.tables_dir, settings.places, asked)
    finally:
        spark.stop()


def judge_histories(spark: SparkSession, root: str, places: Mapping[str, str], asked: JudgementRequest) -> Judgement:
    """Everything that the tables below `root` hold, as asked. `places` as in the settings: what other nodes took in is not judged.

    What a place told of after the time up to which headquarters has its readings is left out: they are still on their way.
    """
    history = spark.read.format("delta").load(HISTORY.path(root)).withColumn(PLACE, _place_of(places))
    readings = _readings(history, asked)
    made = judged(readings, _entries(root, asked)).toArrow()
    settled = {row[PLACE]: row for row in made.filter(ds.field(STREAM) == SETTLED).to_pylist()}
    ends_at_ms = {_side(place): row[AT] for place, row in settled.items()}
    shown = episodes(_said(made, "alerts"), _said(made, "events"))
    told = _told(history, ends_at_ms)
    return Judgement(
        readings={place: json.loads(row[BODY])["readings"] for place, row in sorted(settled.items())},
        settled_at_ms={place: row[AT] for place, row in sorted(settled.items())},
        compared=compare(_wanted(shown, asked), _wanted([one for one in told if one.side in ends_at_ms], asked)),
    )


def judged(readings: DataFrame, entries: Sequence[Entry]) -> DataFrame:
    """What each place's watch makes of `readings` (READ) and the registry's `entries`: its alerts and records of excursions, and how far it
    came (MADE)."""
    came = readings.repartition(PLACE).sortWithinPartitions(PLACE, *CAME_BY)
    in_time = came.mapInArrow(put_in_time, came.schema).sortWithinPartitions(PLACE, ORDER_AT)
    return in_time.mapInArrow(partial(watch_over, tuple(entries)), MADE_DDL)


def put_in_time(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The readings of one place after another, each place's in the order they came, with the order time that its watch takes each to be
    of: a device's clock that is hours behind is put right. What no watch hears (`rows`) is left out."""
    place, ship, clock = "", "", EventClock()
    for came in batches:
        heard = signs_of_life(came) & np.array([is_topic(topic) for topic in came.column(TOPIC).to_pylist()], np.bool_)
        batch, at_ms = came.filter(pa.array(heard)), []
        for name, row in zip(batch.column(PLACE).to_pylist(), rows(batch), strict=True):
            if name != place:
                place, ship, clock = name, f"{_watch_at(name).ship}.", EventClock()
            at_ms.append(clock.hear(row, from_ship=row.topic.startswith(ship)))
            clock.arrive(clock.arrived_at_ms)
        at = batch.schema.get_field_index(ORDER_AT)
        yield batch.set_column(at, batch.schema.field(at), pa.array(at_ms, pa.int64()))


def watch_over(entries: Sequence[Entry], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the watches make of the readings of one place after another, each place's in order of time."""
    watch: PlaceWatch | None = None
    for batch in batches:
        first = 0
        for name, run in groupby(batch.column(PLACE).to_pylist()):
            count = sum(1 for _ in run)
            if watch is None or watch.name != name:
                if watch is not None:
                    yield watch.ended()
                watch = PlaceWatch(name, entries)
            yield watch.hears(batch.slice(first, count))
            first += count
    if watch is not None:
        yield watch.ended()


class PlaceWatch:
    """The watch of one ship or quay over its history."""

    def __init__(self, name: str, entries: Sequence[Entry]) -> None:
        """Nothing was heard yet. `name`: `ship/<imo>` or `quay/<locode>`; `entries`: the registry's, in order of time."""
        self.name = name
        self._state = WatchState(WatchSettings(_watch_at(name)))
        self._due = deque(entries)
        self._readings = 0

    def hears(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """What follows from the next readings, in order of time: each is judged by the registry as it then was."""
        heard, first, made = list(rows(records)), 0, WatchOutcome()
        self._readings += len(heard)
        while first < len(heard):
            known = []
            while self._due and self._due[0].at_ms <= heard[first].order_at_ms:
                known.append(self._due.popleft())
            made.add(learn(self._state, known))
            ends = bisect_left(heard, self._due[0].at_ms, first, key=lambda row: row.order_at_ms) if self._due else len(heard)
            made.add(step(self._state, heard[first:ends]))
            first = ends
        said = [("alerts", one) for one in made.alerts]
        said += [("events", one) for one in made.events if one.body["event"] == EXCURSION]
        return _rows([(self.name, stream, one.topic, one.at_ms, _text(one.body)) for stream, one in said])

    def ended(self) -> pa.RecordBatch:
        """Up to when all is decided, and of how many readings."""
        return _rows([(self.name, SETTLED, self.name, self._state.memory.settled_at_ms, _text({"readings": self._readings}))])


def _readings(history: DataFrame, asked: JudgementRequest) -> DataFrame:
    """The readings of the places that are asked about: all of a place's, for a box is late or not beside the others. A ship's position
    comes while her boxes' readings wait on board: of her own none is taken that is newer than theirs, else all would be silent."""
    found = history.filter(sf.col(STREAM).isin(sorted(READING_STREAMS)) & sf.col(PLACE).isNotNull())
    if asked.container is not None:
        heard_by = [row[PLACE] for row in found.filter(sf.col(TOPIC) == asked.container).select(PLACE).distinct().collect()]
        found = found.filter(sf.col(PLACE).isin(heard_by))
    if asked.since_ms is not None:
        found = found.filter(sf.col(ORDER_AT) >= asked.since_ms - LEAD_MS)
    if asked.until_ms is not None:
        found = found.filter(sf.col(ORDER_AT) < asked.until_ms)
    reached = found.filter(sf.col(STREAM) == "containers").groupBy(PLACE).agg(sf.max(RECEIVED_AT).alias(REACHED))
    return found.join(sf.broadcast(reached), PLACE).filter(sf.col(RECEIVED_AT) <= sf.col(REACHED)).select(*READ)


def _entries(root: str, asked: JudgementRequest) -> list[Entry]:
    """What watches go by of the registry, in order of time."""
    history = HISTORY.dataset(root)
    bodies = [] if history is None else history.to_table(columns=[BODY], filter=ds.field(STREAM) == REGISTRY).column(BODY).to_pylist()
    entries, _ = read_entries(bodies)
    taught = [one for one in entries if isinstance(one.value, TAUGHT) and (asked.until_ms is None or one.at_ms < asked.until_ms)]
    return sorted(taught, key=lambda one: (one.at_ms, one.version, one.topic))


def _told(history: DataFrame, ends_at_ms: Mapping[str, int]) -> list[ReportedEpisode]:
    """The episodes that were told up to these times, by whose word it is."""
    of_excursion = (sf.col(STREAM) == "events") & (sf.get_json_object(BODY, "$.event") == EXCURSION)
    said = history.filter((sf.col(STREAM) == "alerts") | of_excursion).select(STREAM, TOPIC, BODY).toArrow()
    latest = max(ends_at_ms.values(), default=0)

    def by_then(body: Mapping[str, object], when: str, side: str) -> bool:
        at_ms = body.get(when)
        return isinstance(at_ms, int) and at_ms <= ends_at_ms.get(side, latest)

    alerts = [one for one in _said(said, "alerts") if by_then(one[1], AT, str(one[1].get("alert_id")).rpartition("-")[0])]
    events = [one for one in _said(said, "events") if by_then(one[1], "updated_at_ms", str(one[1].get("ship") or one[1].get("place")))]
    return episodes(alerts, events)


def _wanted(found: Iterable[ReportedEpisode], asked: JudgementRequest) -> list[ReportedEpisode]:
    return [
        one
        for one in found
        if asked.container in (None, one.topic) and (asked.since_ms is None or one.until_at_ms is None or one.until_at_ms >= asked.since_ms)
    ]


def _said(records: pa.Table, stream: str) -> list[Said]:
    said: list[Said] = []
    for row in records.filter(ds.field(STREAM) == stream).select([TOPIC, BODY]).to_pylist():
        try:
            said.append((row[TOPIC], read_body(row[BODY])))
        except ValueError:
            continue  # any node may have written anything: who reads it into pages tells of it
    return said


def _place_of(places: Mapping[str, str]) -> Column:
    named = [sf.lit(text) for pair in sorted(places.items()) for text in pair]
    return sf.element_at(sf.create_map(*named), sf.substring_index("origin", "@", 1)) if named else sf.lit(None).cast("string")


def _watch_at(name: str) -> WatchPlace:
    kind, _, identity = name.partition("/")
    return WatchPlace(name, ship=identity) if kind == "ship" else WatchPlace(name, port=identity)


def _side(name: str) -> str:
    return _watch_at(name).side


def _text(body: Mapping[str, object]) -> str:
    return msgspec.json.encode(body).decode()


def _rows(made: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(MADE.names, one, strict=True)) for one in made], schema=MADE)
