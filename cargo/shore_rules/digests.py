"""A digest: one line that sums up the readings of one container in one window. Many boxes are folded at once, by columns.

Its values are columns, as a reading's are (`DIGEST_SIGNALS`): least, mean and greatest of each temperature; the last state of door and
power, and how many readings had the door open or the power off; the largest shock; the last position and battery; the number of readings,
and the longest silence. A signal that was not received has no value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cargo.loss.event_time import corrected_at_ms
from cargo.loss.reading_rows import signs_of_life
from cargo.vocabulary.reading_batches import believed

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Known: TypeAlias = tuple[Flags, Floats]

FROM, UNTIL, READINGS, SILENCE = "from_at_ms", "until_at_ms", "readings", "silence_max_s"
AIRS = ("setpoint", "supply", "return", "ambient")
SHOCK_MAX, SHOCKS, DOOR_OPEN, POWER_OFF = "shock_max_g", "shocks", "door_open_readings", "power_off_readings"
LAST: Mapping[str, tuple[pa.DataType, int]] = {
    "door_open": (pa.bool_(), 0),
    "power_on": (pa.bool_(), 0),
    "battery_mv": (pa.int64(), 0),
    "latitude_deg": (pa.float64(), 3),
    "longitude_deg": (pa.float64(), 3),
}
"""Signals whose last value is reported: its type, and its number of decimals (0.001° is 111 m)."""
SHOCK_G = 2.0
"""Minimum of a blow that counts as a shock, g (DOMAIN: shocks > 2 g are what handling makes)."""
MEAN_DECIMALS = 1
"""Number of decimals of a mean. Sensors measure to 0.1 °C: more decimals would be bytes without information."""
MINUTE_MS = 60_000
_NEVER_MS = -(1 << 62)
_LEAST, _GREATEST = np.inf, -np.inf
_SUMS = (READINGS, SHOCKS, DOOR_OPEN, POWER_OFF)
DIGEST_SIGNALS = (
    *(FROM, UNTIL, READINGS, SILENCE),
    *(f"{air}_{part}_c" for air in AIRS for part in ("min", "mean", "max")),
    *(SHOCK_MAX, SHOCKS, DOOR_OPEN, POWER_OFF),
    *LAST,
)
"""Columns of a digest: its window (UTC ms, the end excluded), and the values in it. Silence in whole minutes."""


class DigestFold:
    """Readings of one window, folded as they come. It holds some numbers a box, however many readings there are."""

    def __init__(self, from_at_ms: int) -> None:
        """Begin the window at `from_at_ms` (UTC ms, by when readings were received)."""
        self.from_at_ms = from_at_ms
        self._boxes: dict[str, int] = {}
        self._of: dict[str, Floats | Ints] = {}

    @property
    def boxes(self) -> int:
        """Number of containers with readings."""
        return len(self._boxes)

    @property
    def readings(self) -> int:
        """Number of readings."""
        return int(self._of[READINGS].sum()) if self._boxes else 0

    def take(self, records: pa.RecordBatch) -> None:
        """Add these readings: rows of a log, in the order of their reception, not before those added already.

        Rows that are no sign of life are left out."""
        records = records.filter(pa.array(signs_of_life(records)))
        if not records.num_rows:
            return
        box = self._numbers(records.column("topic"))
        at_ms: Ints = corrected_at_ms(records).to_numpy()
        np.maximum.at(self._one("newest", _NEVER_MS), box, at_ms)
        self._one(READINGS, 0)[:] += np.bincount(box, minlength=self.boxes)
        self._silences(box, records.column("received_at_ms").to_numpy())
        for air in AIRS:
            self._temperature(air, box, _known(records, f"{air}_c"))
        self._shock(box, _known(records, "shock_g"))
        for name, said, counted in (("door_open", 1.0, DOOR_OPEN), ("power_on", 0.0, POWER_OFF)):
            if (known := _known(records, name)) is not None:
                self._one(counted, 0)[:] += np.bincount(box[known[0]], known[1][known[0]] == said, self.boxes).astype(np.int64)
        for name in LAST:
            self._last(name, box, at_ms, _known(records, name))

    def lines(self, until_at_ms: int) -> pa.RecordBatch:
        """Return one record a container, by number, in the form an appender takes; the window ends before `until_at_ms`.

        The time of each is that of the last reading by its corrected time, in whole minutes before it: the reading itself, when it comes,
        is newer."""
        numbers = sorted(self._boxes)
        at = np.array([self._boxes[number] for number in numbers], np.int64)
        whole = {
            FROM: np.full(len(at), self.from_at_ms, np.int64),
            UNTIL: np.full(len(at), until_at_ms, np.int64),
            READINGS: self._one(READINGS, 0)[at],
            SILENCE: self._longest_silence_s(until_at_ms)[at],
        }
        columns: dict[str, pa.Array] = {
            "topic": pa.array(numbers, pa.string()),
            "device": pa.nulls(len(at), pa.string()),
            "device_at_ms": pa.array(self._one("newest", _NEVER_MS)[at] // MINUTE_MS * MINUTE_MS, pa.int64()),
            "body": pa.nulls(len(at), pa.string()),
            **{name: pa.array(values, pa.int64()) for name, values in whole.items()},
            **{name: column.take(pa.array(at)) for name, column in self._partly().items()},
        }
        present_columns = {name: column for name, column in columns.items() if name not in DIGEST_SIGNALS or column.null_count < len(at)}
        fields = [pa.field(name, column.type, nullable=name != "topic") for name, column in present_columns.items()]
        return pa.RecordBatch.from_arrays(list(present_columns.values()), schema=pa.schema(fields))

    def _numbers(self, topics: pa.Array) -> Ints:
        """Return the number of each row's box; new boxes get a number, and room."""
        coded = pc.dictionary_encode(topics)
        numbers = np.array([self._boxes.setdefault(topic, len(self._boxes)) for topic in coded.dictionary.to_pylist()], np.int64)
        return np.asarray(numbers[coded.indices.to_numpy()], np.int64)

    def _one(self, name: str, empty: float) -> Floats | Ints:
        """Return one value a box, `empty` where nothing was received yet. Whole numbers stay whole."""
        held = self._of.get(name)
        have = 0 if held is None else len(held)
        if held is None or have < self.boxes:
            room = np.full(max(self.boxes, 2 * have), empty)
            if held is not None:
                room[:have] = held
            held = self._of[name] = room
        return held[: self.boxes]

    def _silences(self, box: Ints, received_at_ms: Ints) -> None:
        by_box = np.argsort(box, kind="stable")
        boxes, at_ms = box[by_box], received_at_ms[by_box]
        first, last = _ends(boxes)
        before_ms = np.empty_like(at_ms)
        before_ms[1:] = at_ms[:-1]
        heard = self._one("heard", self.from_at_ms)
        before_ms[first] = heard[boxes[first]]
        np.maximum.at(self._one(SILENCE, 0), boxes, at_ms - before_ms)
        heard[boxes[last]] = at_ms[last]

    def _longest_silence_s(self, until_at_ms: int) -> Ints:
        to_the_end_ms = until_at_ms - self._one("heard", self.from_at_ms)
        minutes: Ints = np.maximum(self._one(SILENCE, 0), to_the_end_ms).astype(np.int64) // MINUTE_MS
        return minutes * 60

    def _temperature(self, air: str, box: Ints, known: Known | None) -> None:
        if known is not None:
            boxes, values = box[known[0]], known[1][known[0]]
            np.minimum.at(self._one(f"{air}_min_c", _LEAST), boxes, values)
            np.maximum.at(self._one(f"{air}_max_c", _GREATEST), boxes, values)
            self._one(f"{air} sum", 0.0)[:] += np.bincount(boxes, values, self.boxes)
            self._one(f"{air} count", 0)[:] += np.bincount(boxes, minlength=self.boxes)

    def _shock(self, box: Ints, known: Known | None) -> None:
        if known is not None:
            boxes, values = box[known[0]], known[1][known[0]]
            np.maximum.at(self._one(SHOCK_MAX, _GREATEST), boxes, values)
            self._one(SHOCKS, 0)[:] += np.bincount(boxes[values >= SHOCK_G], minlength=self.boxes)

    def _last(self, name: str, box: Ints, order_at_ms: Ints, known: Known | None) -> None:
        if known is None or not known[0].any():
            return
        boxes, at_ms, values = box[known[0]], order_at_ms[known[0]], known[1][known[0]]
        by_time = np.lexsort((at_ms, boxes))
        newest = by_time[_ends(boxes[by_time])[1]]
        last_at_ms = self._one(f"{name} at", _NEVER_MS)
        newest = newest[at_ms[newest] >= last_at_ms[boxes[newest]]]
        last_at_ms[boxes[newest]] = at_ms[newest]
        self._one(name, np.nan)[boxes[newest]] = values[newest]

    def _partly(self) -> dict[str, pa.Array]:
        """Return the columns of signals that not every box reports."""
        found: dict[str, pa.Array] = {}
        for air in AIRS:
            if f"{air} count" in self._of:
                count = self._one(f"{air} count", 0)
                mean = self._one(f"{air} sum", 0.0) / np.maximum(count, 1)
                parts = {
                    "min": self._one(f"{air}_min_c", _LEAST),
                    "mean": np.round(mean, MEAN_DECIMALS) + 0.0,  # no minus zero
                    "max": self._one(f"{air}_max_c", _GREATEST),
                }
                found |= {f"{air}_{part}_c": pa.array(values, pa.float64(), mask=count == 0) for part, values in parts.items()}
        if SHOCK_MAX in self._of:
            largest_g = self._one(SHOCK_MAX, _GREATEST)
            unfelt = np.isneginf(largest_g)
            found[SHOCK_MAX] = pa.array(largest_g, pa.float64(), mask=unfelt)
            found[SHOCKS] = pa.array(self._one(SHOCKS, 0), pa.int64(), mask=unfelt)
        for name, (kind, decimals) in LAST.items():
            if name in self._of:
                values = self._one(name, np.nan)
                unknown = np.isnan(values)
                rounded = np.round(np.where(unknown, 0.0, values), decimals) + 0.0
                found[name] = pa.array(rounded, pa.float64(), mask=unknown).cast(kind)
                for counted, of in ((DOOR_OPEN, "door_open"), (POWER_OFF, "power_on")):
                    if of == name:
                        found[counted] = pa.array(self._one(counted, 0), pa.int64(), mask=unknown)
        return found


def _known(records: pa.RecordBatch, name: str) -> Known | None:
    """Return which rows carry this signal, and the values; None when no row has a value that can be true."""
    column = believed(name, records.column(name)) if name in records.schema.names else None
    if column is None:
        return None
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.isfinite(values), values


def _ends(ordered: Ints) -> tuple[Ints, Ints]:
    """Return the first and the last index of each run of equal numbers."""
    changes = np.flatnonzero(ordered[1:] != ordered[:-1])
    return np.concatenate(([0], changes + 1)), np.concatenate((changes, [len(ordered) - 1]))
