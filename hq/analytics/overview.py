"""What a micro-batch holds, learned in one pass: how many records, how far each origin came, and the registry entries among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from cargo.errors import Unreadable
from cargo.registry import Entry, parse_entry
from hq.wide import IDENTITY
from streams.records import BODY, DEVICE_AT, OFFSET, ORDER_AT
from streams.words import Origin, Position


@dataclass(frozen=True, slots=True)
class Overview:
    """`reached`: per stream the Position after it. `newest_at_ms`: greatest order time (UTC ms), None when empty.

    `device_at_ms`: least and greatest device time of readings that could be repeats. `unreadable`: registry bodies that say nothing, and
    why.
    """

    count: int
    reached: dict[str, Position]
    newest_at_ms: int | None
    device_at_ms: tuple[int, int] | None
    entries: tuple[Entry, ...]
    unreadable: tuple[tuple[str, str], ...]


def overview(rows: DataFrame) -> Overview:
    """The overview of wide `rows` (persisted)."""
    repeatable_at = sf.when(sf.col(IDENTITY).isNotNull(), sf.col(DEVICE_AT))
    lines = (
        rows.groupBy("stream", "origin")
        .agg(
            sf.count("*").alias("count"),
            sf.max(OFFSET).alias("last"),
            sf.max(ORDER_AT).alias("newest"),
            sf.min(repeatable_at).alias("low"),
            sf.max(repeatable_at).alias("high"),
            sf.collect_list(sf.when(sf.col("stream") == "registry", sf.col(BODY))).alias("bodies"),
        )
        .toArrow()
        .to_pylist()
    )
    reached: dict[str, dict[Origin, int]] = {}
    for line in lines:
        reached.setdefault(line["stream"], {})[Origin.parse(line["origin"])] = line["last"] + 1
    entries, unreadable = read_entries(body for line in lines for body in line["bodies"])
    return Overview(
        sum(line["count"] for line in lines),
        {stream: Position(offsets) for stream, offsets in reached.items()},
        max((line["newest"] for line in lines), default=None),
        (
            min(line["low"] for line in lines if line["low"] is not None),
            max(line["high"] for line in lines if line["high"] is not None),
        )
        if any(line["low"] is not None for line in lines)
        else None,
        entries,
        unreadable,
    )


def read_entries(bodies: Iterable[str]) -> tuple[tuple[Entry, ...], tuple[tuple[str, str], ...]]:
    """The entries that registry bodies hold, and those bodies that hold none with the reason."""
    entries: list[Entry] = []
    unreadable: list[tuple[str, str]] = []
    for body in bodies:
        try:
            entries.append(parse_entry(body))
        except Unreadable as problem:
            unreadable.append((body, str(problem)))
    return tuple(entries), tuple(unreadable)
