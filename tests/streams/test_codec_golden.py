"""Goal: a block written by a released version is read by all later ones. The bytes of the codec are pinned here.

Once codec 2 is released its files stay as they are: a change of the encoding is a new codec number with files of its own.
"""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from streams.codec import BlockCodec
from streams.model.block import Block
from streams.model.identifiers import Coordinates, Origin
from streams.model.records import Record, Value, to_batch
from tests.streams.logkit import NOW_MS, SHIP, stamped

FOLDER = Path(__file__).parent / "golden"
CODEC = BlockCodec()
CONTAINERS = ["MSKU1234565", "CSQU3054383", "TGHU7590530", "9321483.location", "MSKU1234567"]


def few() -> pa.RecordBatch:
    """Every kind of column there is, in a handful of rows."""
    signals: list[dict[str, Value]] = [
        {"return_c": 4.2, "supply_c": 3.9, "power_on": True, "battery_mv": 3912, "gateway": "GW-3", "raw": math.pi},
        {"return_c": -0.5, "supply_c": -0.6, "power_on": False, "battery_mv": -(1 << 63), "raw": -0.0},
        {"gateway": "é ☃", "note": ""},
        {},
        {"return_c": 1e300, "latitude_deg": 35.44321, "longitude_deg": 139.63802},
    ]
    return to_batch(
        [
            Record(
                topic,
                f"TRK-{place:05}" if place else None,
                NOW_MS + 977 * place if place != 3 else None,
                given,
                {"place": place} if place % 2 else None,
            )
            for place, (topic, given) in enumerate(zip(CONTAINERS, signals, strict=True))
        ]
    )


def many() -> pa.RecordBatch:
    """Enough rows for storage by topic, with a source and a neighbour that predicts."""
    return to_batch(
        [
            Record(
                CONTAINERS[place % 3],
                f"TRK-{place % 3:05}",
                NOW_MS + 60_000 * place,
                {"supply_c": (place * 7 % 30) / 10, "return_c": (place * 7 % 30 + 8 + place % 2) / 10, "rssi_dbm": -70 - place % 9},
                source=Coordinates("containers", Origin("ship-b", 77), place * 2),
            )
            for place in range(1500)
        ]
    )


def groups() -> pa.RecordBatch:
    """More rows than one group has, of containers and of others, one of them in both groups."""
    topics = [*CONTAINERS, *(f"{number}.location" for number in range(9_000_000, 9_000_400))]
    return to_batch(
        [
            Record(
                topics[place % 3 if place % 4 else place % len(topics)],
                f"TRK-{place % 3:05}",
                NOW_MS + 60_000 * place,
                {"supply_c": (place * 7 % 30) / 10, "door_open": place % 50 == 0},
                {"place": place} if place % 1000 == 0 else None,
            )
            for place in range(9000)
        ]
    )


def names() -> pa.RecordBatch:
    """Numbered names of five digits and, where the numbers need them, of six and seven, in one group and in two."""
    return to_batch([Record(f"{place * place}.location", f"TRK-{place * 7919 % 1_200_000:05}", NOW_MS + place) for place in range(5000)])


CASES = {"few": few, "many": many, "groups": groups, "names": names}


def golden(name: str) -> bytes:
    """The pinned bytes of a case."""
    return (FOLDER / f"codec-2-{name}.block").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_blocks_of_codec_2_are_read(name: str) -> None:
    block = Block.from_bytes(golden(name))
    rows = stamped(CASES[name](), first=41)
    assert (block.stream, block.origin, block.first, block.codec) == ("containers", SHIP, 41, 2)
    assert CODEC.decode(block).select(rows.schema.names).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("name", CASES)
def test_codec_2_writes_these_very_bytes(name: str) -> None:
    """With the libraries of the lock."""
    assert CODEC.encode("containers", SHIP, stamped(CASES[name](), first=41)).to_bytes() == golden(name)
