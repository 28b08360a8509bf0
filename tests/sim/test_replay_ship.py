"""Goal: `landfall sim replay FILE` into a running ship: every row exactly once in her log but for exact repeats, sparse rows and gaps kept;
the node's counts by outcome add up to the rows.

`recorded.csv` is made up in the shape of the real readings; where those are beside this checkout, all of them go the same way.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from intake.message_types import STORED, Outcome
from tests.support.aboard import ShipProcess, ship
from tests.support.forked import landfall
from tests.support.process import wait
from tests.support.sea import SHIP

OWN = Path(__file__).with_name("recorded.csv")
REAL = Path(__file__).parents[3] / "shared" / "data" / "schenker_sea_containers.csv"
REAL_ROWS = 14_753
NAMES = {
    "Latitude": "latitude_deg", "Longitude": "longitude_deg", "Temperature": "ambient_c", "Humidity": "humidity_pct", "GForce": "shock_g",
    "Tilt": "tilt_deg", "Light": "light_lx", "Door": "door_open", "Motion": "motion", "Active": "active", "Reverse": "reverse",
    "Sleep": "sleep", "Mount": "mount",
}  # fmt: skip
FLAGS = {"Door", "Motion", "Active", "Reverse", "Sleep", "Mount"}
Told = tuple[str, int, str]


@pytest.fixture
def aboard(tmp_path: Path) -> Iterator[ShipProcess]:
    """A ship on the wall's clock: to her the readings are years old."""
    with ship(tmp_path) as process:
        process.start()
        process.wait_ready()
        yield process


def replayed(file: Path, process: ShipProcess, folder: Path) -> str:
    """What the command says; it returns once all is acknowledged."""
    config = folder / "replay.toml"
    config.write_text(tomli_w.dumps({"intake": {"at": f"ship/{SHIP}", "port": process.mqtt_port}}))
    done = landfall("sim", "replay", file, "--config", config)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def rows_of(file: Path) -> list[Told]:
    """Device, time and fields of every row, read from the file by no code of the simulator's."""
    with file.open(newline="", encoding="utf-8") as lines:
        return [told(row) for row in csv.DictReader(lines)]


def told(row: dict[str, str]) -> Told:
    fields: dict[str, Any] = {"gateway": "SCHENKER"}
    for column, name in NAMES.items():
        if row[column]:
            fields[name] = bool(float(row[column])) if column in FLAGS else float(row[column])
    if accuracy := row["Accuracy"]:
        fields |= {"position_source": accuracy} if accuracy.startswith("cellid") else {"accuracy_m": float(accuracy)}
    at = datetime.fromisoformat(f"{row['Date']}T{row['Time_UTC']}+00:00").astimezone(UTC)
    return f"SCHENKER-{row['device']}", round(at.timestamp()) * 1_000, json.dumps(fields, sort_keys=True)


def kept(row: dict[str, Any]) -> Told:
    """The same of a record of the log: signals, unknown fields, and values that were refused but kept."""
    body = dict(row["body"] or {})
    body.pop("flags", None)
    fields = {**row["signals"], **body.pop("refused", {}), **body}
    fields = {name: float(value) if type(value) is int else value for name, value in fields.items()}
    return row["device"], row["device_at_ms"], json.dumps(fields, sort_keys=True)


def gaps(rows: list[Told]) -> dict[str, list[int]]:
    """By device, every time between two of its rows, ms."""
    times: dict[str, list[int]] = {}
    for device, at_ms, _ in sorted(rows):
        times.setdefault(device, []).append(at_ms)
    return {device: [later - earlier for earlier, later in pairwise(known)] for device, known in times.items()}


def check(file: Path, process: ShipProcess, folder: Path) -> list[Told]:
    """Replays the file twice; the ship's log has each of its rows once, field by field. Returns all rows of the file."""
    rows = rows_of(file)
    distinct = sorted(set(rows))
    said = replayed(file, process, folder)
    assert re.search(rf"{len(rows):,} .*, {len(rows):,} .*, {len(rows):,} acknowledged", said)
    assert f"{len(rows) - len(distinct):,} of them" in said
    stored = process.rows("containers")
    assert sorted(map(kept, stored)) == distinct
    assert gaps([kept(row) for row in stored]) == gaps(distinct)
    assert len({row["topic"] for row in stored}) == len({device for device, _, _ in rows})
    assert process.rows("exceptions") == []
    check_counts(process, len(rows), len(distinct))
    replayed(file, process, folder)
    assert len(process.rows("containers")) == len(distinct)
    check_counts(process, 2 * len(rows), len(distinct))
    return rows


def check_counts(process: ShipProcess, published: int, distinct: int) -> None:
    """The node's own counts by outcome add up to what came in: all that was published, and what MQTT brought once more; each row was stored
    once, the rest was there already."""
    answers: list[dict[str, Any]] = []

    def answered() -> bool:
        answers.extend(filter(None, [process.status()]))
        return bool(answers)

    wait(answered, process.tail)
    told = answers[-1]["intake"]
    counts = {outcome: told.get(outcome.name.lower(), 0) for outcome in Outcome}
    assert sum(counts.values()) == told["received"] >= published
    assert sum(counts[outcome] for outcome in STORED) == distinct
    assert counts[Outcome.REPEATED] == told["received"] - distinct


def test_every_row_of_a_recording_is_in_the_ships_log_once(aboard: ShipProcess, tmp_path: Path) -> None:
    rows = check(OWN, aboard, tmp_path)
    assert max(Counter(rows).values()) == 3, "an exact repeat is among them"
    assert any(json.loads(fields) == {"gateway": "SCHENKER"} for _, _, fields in rows), "a row that says nothing is among them"
    assert max(map(max, gaps(rows).values())) > 19 * 86_400_000, "a gap of weeks is among them"


@pytest.mark.long
@pytest.mark.skipif(not REAL.exists(), reason="the shared data is not beside this checkout")
def test_every_real_reading_is_in_the_ships_log_once(aboard: ShipProcess, tmp_path: Path) -> None:
    assert len(check(REAL, aboard, tmp_path)) == REAL_ROWS
