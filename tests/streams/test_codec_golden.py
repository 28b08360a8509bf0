"""Goal: a block written by any version is read by all later ones. The bytes of each codec version are pinned here for good.

A golden file is never written anew. Where the writer chooses otherwise among what the format offers, and for a form that joins codec 2
before its first release, a file joins the others; after that a change of the encoding is a new codec number with files of its own.
"""

from __future__ import annotations

import math
from hashlib import sha256
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
WRITTEN = {"few": "few", "many": "many-3", "groups": "groups-3", "names": "names"}
"""The file that holds what is written now: where the writer chooses otherwise among what the format offers, a file joins the others."""

PINNED = {
    "few": "cf85f272adaea1882abf720d26e66cebdb49abb82cad5dfc42fa1a3779b8dccf",
    "groups-2": "a339fbc74c7a73dca41d409373882ca748811c32877b797081bf035ef59459b4",
    "groups-3": "86db8a1e07223d008069423fe55d0f7c9c11caac7c4620d520d2619f7ecd05d8",
    "groups": "4fbde75b57ac7d8908124bc9245fc37c23fa1c9c73c0712bdd42e5fbbf479e04",
    "many-2": "c66be1a236e79f5ad5a9a9186beabe881dfbd67b94c842c80ccb8805f51a7fe3",
    "many-3": "8fa0a43f480856972077b8480804a3f9552f3c00c5283960ba19547fba9c83ff",
    "many": "fb70af0c62aea6db11ab0de1486302beaf9659365ad3203e7891994875cb3ff6",
    "names": "23594b3d00ee27ce2c34693e494df6cb7c65ad68116e62806f4c03d8172e4e17",
}
"""SHA-256 of every file. A line may join these; one that changes is a block that somebody wrote and nobody may be able to read."""


def files() -> list[str]:
    """All that was ever written of codec 2."""
    return sorted(path.stem.removeprefix("codec-2-") for path in FOLDER.glob("codec-2-*.block"))


def test_no_golden_file_was_written_anew() -> None:
    found = {name: sha256((FOLDER / f"codec-2-{name}.block").read_bytes()).hexdigest() for name in files()}
    assert found == PINNED


@pytest.mark.parametrize("name", files())
def test_blocks_of_codec_2_are_read(name: str) -> None:
    block = Block.from_bytes((FOLDER / f"codec-2-{name}.block").read_bytes())
    rows = stamped(CASES[name.partition("-")[0]](), first=41)
    assert (block.stream, block.origin, block.first, block.codec) == ("containers", SHIP, 41, 2)
    assert CODEC.decode(block).select(rows.schema.names).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("name", CASES)
def test_codec_2_writes_these_very_bytes(name: str) -> None:
    """With the libraries of the lock. Where only choices changed and the old are still read, a file may join them."""
    block = CODEC.encode("containers", SHIP, stamped(CASES[name](), first=41))
    assert block.to_bytes() == (FOLDER / f"codec-2-{WRITTEN[name]}.block").read_bytes()
