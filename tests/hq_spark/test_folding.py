"""Goal: a state is the newest value of each signal by order time, in whatever order, pieces and repetitions readings come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hq.analytics.folding import STATES, fold_readings, merge_states
from hq.spark_rows import widen
from streams.model.identifiers import Origin
from streams.model.records import Batch, Record, to_batch
from tests.support.spark_fleet import BOXES, NOON_MS

ORIGINS = (Origin("albatross", 5), Origin("singapore", 3))
Said = tuple[int, int, float | None, int | None, str | None]

saying = st.tuples(
    st.integers(0, 2),
    st.integers(0, 3),
    st.one_of(st.none(), st.floats(-30, 30)),
    st.one_of(st.none(), st.integers(0, 9)),
    st.one_of(st.none(), st.sampled_from(["G1", "G2"])),
)


def table(said: list[Said], origin: Origin, first: int) -> pa.Table:
    records = []
    for box, _, return_c, battery_mv, gateway in said:
        signals: dict[str, Any] = {"return_c": return_c, "battery_mv": battery_mv, "gateway": gateway}
        records.append(Record(BOXES[box], "D", NOON_MS, {name: value for name, value in signals.items() if value is not None}))
    times = pa.array([NOON_MS + at for _, at, *_ in said], pa.int64())
    stamped = to_batch(records).append_column("offset", pa.array(np.arange(first, first + len(said))))
    stamped = stamped.append_column("received_at_ms", times).append_column("order_at_ms", times)
    return pa.Table.from_batches([widen(Batch("containers", origin, stamped))])


def plainly(parts: list[pa.Table]) -> dict[str, dict[str, Any]]:
    newest: dict[str, dict[str, Any]] = {}
    for row in (row for part in parts for row in part.to_pylist() if (row["return_c"], row["battery_mv"]) != (None, None)):
        key = (row["order_at_ms"], row["origin"], row["offset"])
        state = newest.setdefault(row["topic"], {"changed_at": key})
        state["changed_at"] = max(state["changed_at"], key)
        for name in ("return_c", "battery_mv", "gateway"):
            if row[name] is not None and (name not in state or key > state[name][:3]):
                state[name] = (*key, row[name])
    return newest


def said_of(states: pa.Table) -> dict[str, dict[str, Any]]:
    names = ("changed_at", "return_c", "battery_mv", "gateway")
    return {row["topic"]: {name: tuple(row[name].values()) for name in names if row[name] is not None} for row in states.to_pylist()}


@settings(deadline=None, max_examples=40)
@given(st.lists(saying, min_size=1, max_size=12), st.lists(saying, max_size=12), st.randoms())
def test_pieces_in_any_order_and_twice_make_the_same_state(first: list[Said], second: list[Said], chance: Any) -> None:
    whole = [table(first, ORIGINS[0], 0), *([table(second, ORIGINS[1], 0)] if second else [])]
    pieces = [part.slice(at, 1) for part in whole for at in range(part.num_rows)]
    repeated = [*pieces, *chance.sample(pieces, len(pieces) // 2)]
    chance.shuffle(repeated)
    states = STATES.empty_table()
    for piece in repeated:
        states = merge_states(pa.concat_tables([states, fold_readings(piece)]))
    assert said_of(states) == plainly(whole)
    assert states.equals(fold_readings(pa.concat_tables(whole)))


def test_a_ships_two_topics_make_one_state_and_nothing_else_makes_any() -> None:
    place = Record("9321483.location", "GNSS", NOON_MS, {"latitude_deg": 1.0})
    air = Record("9321483.environment", "MET", NOON_MS + 1, {"roll_deg": 2.0})
    tables = []
    for stream, records in (("ships", [place, air]), ("events", [Record(BOXES[0], None, NOON_MS)])):
        times = pa.array([NOON_MS + at for at in range(len(records))], pa.int64())
        stamped = to_batch(records).append_column("offset", pa.array(np.arange(len(records))))
        stamped = stamped.append_column("received_at_ms", times).append_column("order_at_ms", times)
        tables.append(pa.Table.from_batches([widen(Batch(stream, ORIGINS[0], stamped))]))
    (state,) = fold_readings(pa.concat_tables(tables)).to_pylist()
    assert (state["topic"], state["kind"], state["latitude_deg"]["value"], state["roll_deg"]["value"]) == ("9321483", "ship", 1.0, 2.0)


def test_a_reading_dated_years_ahead_does_not_stay_the_newest() -> None:
    """A ship dates one reading 2199 under her own key: what others say ten minutes after it was taken in is newer."""
    years = 173 * 365 * 86_400_000
    ahead, after = table([(0, years, 1.0, None, None)], ORIGINS[0], 0), table([(0, 700_000, 2.0, None, None)], ORIGINS[1], 0)
    column = ahead.schema.get_field_index("admitted_at_ms")
    ahead = ahead.set_column(column, ahead.schema.field(column), pa.array([NOON_MS]))
    [state] = merge_states(pa.concat_tables([fold_readings(ahead), fold_readings(after)])).to_pylist()
    assert state["return_c"]["value"] == 2.0
    [state] = fold_readings(ahead).to_pylist()
    assert state["changed_at"]["at"] == NOON_MS + 600_000


def test_what_a_tracker_says_whose_clock_fell_back_is_the_newest() -> None:
    """It fell back by 90 days: its readings are flagged, and are of when they were received, but not after they came here."""
    before, after = table([(0, 0, 4.0, None, None)], ORIGINS[0], 0), table([(0, 3_600_000, 18.0, None, None)], ORIGINS[0], 1)
    fallen_at_ms = NOON_MS - 90 * 86_400_000
    for name, value in (("order_at_ms", fallen_at_ms), ("device_at_ms", fallen_at_ms), ("body", '{"flags":["clock_back"]}')):
        column = after.schema.get_field_index(name)
        after = after.set_column(column, after.schema.field(column), pa.array([value]))
    [state] = merge_states(pa.concat_tables([fold_readings(after), fold_readings(before)])).to_pylist()
    assert (state["return_c"]["value"], state["changed_at"]["at"]) == (18.0, NOON_MS + 3_600_000)
    column = after.schema.get_field_index("admitted_at_ms")
    after = after.set_column(column, after.schema.field(column), pa.array([NOON_MS]))
    [state] = fold_readings(after).to_pylist()
    assert state["changed_at"]["at"] == NOON_MS + 600_000
