"""A reading as the rules hear it, and the quick way from the log's columns to such rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress

import msgspec
import pyarrow as pa

from cargo.readings import believed

Value = bool | int | float | str
TOPIC_CHARS_MAX = 200
LOCATION, ENVIRONMENT, SHIP_LOG = ".location", ".environment", ".log"


class Heard(msgspec.Struct, frozen=True, gc=False):
    """One reading: its topic, who measured it and when by the device's clock, the log's two times (UTC ms), and the signals it carried.

    `coordinates`: where the record stands, as text, or empty. Two readings are the same when topic, device, device time and signals are.
    """

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
        """Whether the two are the same reading."""
        return self.topic == other.topic and self.key() == other.key()

    def key(self) -> tuple[str, str, int, str]:
        """The reading's identity, which also orders readings of one instant."""
        at = self.order_at_ms if self.device_at_ms is None else self.device_at_ms
        return (self.topic, self.device, at, repr(sorted(self.signals.items())))


def is_topic(text: str) -> bool:
    """Whether records can be of it (`streams.words.check_topic`): 1 to TOPIC_CHARS_MAX printable characters."""
    return 0 < len(text) <= TOPIC_CHARS_MAX and text.isprintable()


def ship_topic(topic: str) -> str | None:
    """`location`, `environment`, `noon` or `log` when the topic is one of a ship's; None when it is a container's."""
    if "." not in topic:
        return None
    suffix = topic.rpartition(".")[2]
    return suffix if suffix in {"location", "environment", "noon", "log"} else None


def rows(records: pa.RecordBatch, stream: str = "", origin: str = "") -> Iterator[Heard]:
    """The rows of a log's batch, in its order. Columns are found by name; a null is a signal the reading did not carry; columns that are no
    signals are left out, values that can not be true, and rows of a topic that is none: no alert could be told of it.

    `stream` and `origin` go into the coordinates (`stream:origin:offset`), which stay empty without them.
    """
    names = set(records.schema.names)
    count = records.num_rows
    carried: list[dict[str, Value]] = [{} for _ in range(count)]
    for name in records.schema.names:
        if (column := believed(name, records.column(name))) is not None:
            _fill(carried, name, column)
    topics = records.column("topic").to_pylist()
    devices = records.column("device").to_pylist() if "device" in names else [None] * count
    device_at = records.column("device_at_ms").to_pylist() if "device_at_ms" in names else [None] * count
    order_at = records.column("order_at_ms").to_pylist()
    received_at = records.column("received_at_ms").to_pylist()
    offsets = records.column("offset").to_pylist() if stream and "offset" in names else None
    for at in range(count):
        if not is_topic(topics[at]):
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
