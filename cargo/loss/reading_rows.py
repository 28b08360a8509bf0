"""A reading as the rules hear it, and the quick way from the log's columns to such rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import compress

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cargo.vocabulary.position_fixes import COORDINATES, without_no_fixes
from cargo.vocabulary.reading_batches import believed
from cargo.vocabulary.reading_identity import HEARD_BY
from cargo.vocabulary.signals import SIGNALS

Value = bool | int | float | str
TOPIC_CHARS_MAX = 200
WILL, RETAINED = "will", "retained"
"""Flags in a reading's body: a tracker's last will, which others publish for it; a reading that a broker stored, since an unknown time."""
_NOT_NOW = frozenset({WILL, RETAINED})
CLOCK_BACK = "clock_back"
"""Flag of a reading whose device's clock fell back (`cargo.loss.event_time.TrackerClock`): the received time is its time."""
LOCATION, ENVIRONMENT, SHIP_LOG = ".location", ".environment", ".log"


class Heard(msgspec.Struct, frozen=True, gc=False):
    """One reading: its topic, its device, its time by the device's clock, the log's two times (UTC ms), and its signals.

    `coordinates`: where the record is stored, as text, or empty. Two readings are the same when topic, device, device time and signals
    are."""

    topic: str
    device: str = ""
    device_at_ms: int | None = None
    order_at_ms: int = 0
    received_at_ms: int = 0
    signals: Mapping[str, Value] = {}
    coordinates: str = ""

    def __lt__(self, other: Heard) -> bool:
        if self.topic != other.topic:
            return self.topic < other.topic
        return (self.key(), self.received_at_ms) < (other.key(), other.received_at_ms)

    def repeats(self, other: Heard) -> bool:
        """Return whether the two are the same reading."""
        return self.topic == other.topic and self.key() == other.key()

    def key(self) -> tuple[str, str, int, str]:
        """Return the reading's identity, which also orders readings of one instant."""
        at = self.order_at_ms if self.device_at_ms is None else self.device_at_ms
        return (self.topic, self.device, at, repr(sorted(self.signals.items())))


def is_topic(text: str) -> bool:
    """Return whether a text can be a topic (`streams.model.identifiers.check_topic`): 1 to TOPIC_CHARS_MAX printable characters."""
    return 0 < len(text) <= TOPIC_CHARS_MAX and text.isprintable()


def ship_topic(topic: str) -> str | None:
    """Return `location`, `environment`, `noon` or `log` when the topic is one of a ship's; None when it is a container's."""
    if "." not in topic:
        return None
    suffix = topic.rpartition(".")[2]
    return suffix if suffix in {"location", "environment", "noon", "log"} else None


def signs_of_life(records: pa.RecordBatch | pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return, for each row, whether its device sent it then: it has a signal that the device measured, and is no will and not retained.

    All other rows say nothing about now. Nobody can know whether a message from a broker is a will. So a message without a signal is no
    sign of life, whichever client published it. Without a column `body` there are no flags.
    """
    said = np.zeros(records.num_rows, np.bool_)
    for name in records.schema.names:
        if name not in HEARD_BY and not said.all() and (column := believed(name, _whole(records.column(name)))) is not None:
            said |= column.is_valid().to_numpy(zero_copy_only=False)
    return said & ~flagged(records, _NOT_NOW)


def is_sign_of_life(signals: Mapping[str, Value], body: str | None) -> bool:
    """Return whether one reading, with signals that can be true, is a sign of life as in `signs_of_life`."""
    measured = any(name in SIGNALS and name not in HEARD_BY for name in signals)
    return measured and (body is None or '"flags"' not in body or _NOT_NOW.isdisjoint(_flags(body)))


def flagged(records: pa.RecordBatch | pa.Table, flags: Set[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each row whether its body has one of `flags`. Without a column `body` there are none."""
    found = np.zeros(records.num_rows, np.bool_)
    if "body" in records.schema.names and (body := _whole(records.column("body"))).null_count < len(body):
        some = pc.match_substring(body, '"flags"').fill_null(False)
        for row in np.flatnonzero(some.to_numpy(zero_copy_only=False)):
            found[row] = not flags.isdisjoint(_flags(body[row].as_py()))
    return found


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _flags(body: str) -> list[str]:
    try:
        return msgspec.json.decode(body, type=_Flagged).flags
    except msgspec.MsgspecError:
        return []


class _Flagged(msgspec.Struct):
    flags: list[str] = []


def rows(records: pa.RecordBatch, stream: str = "", origin: str = "") -> Iterator[Heard]:
    """Yield the rows of a log's batch, in its order. Columns are found by name; a null is a signal the reading did not carry.

    Left out are columns that are no signals, values that can not be true, rows whose topic can not be one (no alert could be about it), and
    rows that are no sign of life.

    `stream` and `origin` go into the coordinates (`stream:origin:offset`), which stay empty without them."""
    names = set(records.schema.names)
    count = records.num_rows
    carried: list[dict[str, Value]] = [{} for _ in range(count)]
    columns = {name: column for name in records.schema.names if (column := believed(name, records.column(name))) is not None}
    if all(name in columns for name in COORDINATES):
        columns.update(zip(COORDINATES, without_no_fixes(*(columns[name] for name in COORDINATES)), strict=True))
    for name, column in columns.items():
        _fill(carried, name, column)
    topics = records.column("topic").to_pylist()
    devices = records.column("device").to_pylist() if "device" in names else [None] * count
    device_at = records.column("device_at_ms").to_pylist() if "device_at_ms" in names else [None] * count
    order_at = records.column("order_at_ms").to_pylist()
    received_at = records.column("received_at_ms").to_pylist()
    offsets = records.column("offset").to_pylist() if stream and "offset" in names else None
    lives = signs_of_life(records)
    for at in range(count):
        if not (lives[at] and is_topic(topics[at])):
            continue
        place = "" if offsets is None else f"{stream}:{origin}:{offsets[at]}"
        yield Heard(topics[at], devices[at] or "", device_at[at], order_at[at], received_at[at], carried[at], place)


def _fill(carried: list[dict[str, Value]], name: str, column: pa.Array) -> None:
    if column.null_count == 0:
        for signals, value in zip(carried, column.to_pylist(), strict=True):
            signals[name] = value
        return
    there = column.is_valid().to_pylist()
    for signals, value in zip(compress(carried, there), column.drop_null().to_pylist(), strict=True):
        signals[name] = value
