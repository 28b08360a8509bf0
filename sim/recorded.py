"""Recorded readings of real trackers (a CSV of DB Schenker's sea containers) as payloads of ours, row by row, as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from cargo.vocabulary.trade_codes import make_container
from landfall.system.text_files import ENCODING
from streams.model.errors import Misuse

COLUMNS = ("device", "Date", "Time_UTC", "Latitude", "Longitude", "Accuracy", "Temperature", "Humidity", "GForce", "Tilt", "Door", "Light")
"""Columns that the file must have: docs/guide/simulator.md."""
OWNER = "SCHU"
_NUMBERS = {
    "Latitude": "latitude_deg",
    "Longitude": "longitude_deg",
    "Temperature": "ambient_c",
    "Humidity": "humidity_pct",
    "GForce": "shock_g",
    "Tilt": "tilt_deg",
    "Light": "light_lx",
}
_FLAGS = {"Door": "door_open", "Motion": "motion", "Active": "active", "Reverse": "reverse", "Sleep": "sleep", "Mount": "mount"}
"""The last four are no signals of ours: a node keeps them as they are."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One row: when its device measured it (UTC ms), the container that stands for the device, and the MQTT topic and payload."""

    at_ms: int
    container: str
    topic: str
    payload: bytes


def read_recorded(path: Path) -> list[Recorded]:
    """Return all rows in order of time, rows of one instant in the file's order; duplicates, gaps and sparse rows as they are. Each device
    is given a valid container number, in order of its name. An accuracy that is no number (`cellid`) gives the source of the position, and
    is kept as `position_source`. Raises Misuse when the file is missing, lacks a column, or a line does not read."""
    rows = dict(_rows(path))
    devices = sorted({row["device"] for row in rows.values()})
    containers = {device: make_container(OWNER, 100_001 + number) for number, device in enumerate(devices)}
    recorded = [_recorded(row, containers[row["device"]], line, path) for line, row in rows.items()]
    return sorted(recorded, key=lambda row: row.at_ms)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row, and the number of the line on which it ends."""
    try:
        text = path.read_bytes().decode(ENCODING)
    except OSError as problem:
        raise Misuse(
            f"{path} can not be read: {problem.strerror}", hint="give the path of the recorded readings", code="file_unavailable"
        ) from problem
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        raise Misuse(
            f"line {line} of {path} is not UTF-8", hint="save the file as UTF-8 text, and look at that line", code="recorded_unreadable"
        ) from problem
    table = csv.reader(io.StringIO(text, newline=""))
    try:
        names = next(table, [])
        missing = [name for name in COLUMNS if name not in names]
        if missing:
            raise Misuse(
                f"{path} has no column {', '.join(missing)}", hint="give the columns of docs/guide/simulator.md", code="columns_missing"
            )
        for fields in filter(None, table):
            if len(fields) != len(names):
                raise _misread(path, table.line_num, f"it has {len(fields)} fields, and the first line names {len(names)}")
            yield table.line_num, dict(zip(names, fields, strict=True))
    except csv.Error as problem:
        raise _misread(path, table.line_num, str(problem)) from problem


def _misread(path: Path, line: int, why: str) -> Misuse:
    return Misuse(f"line {line} of {path} does not read: {why}", hint="fix or remove that line", code="recorded_unreadable")


def _recorded(row: dict[str, str], container: str, line: int, path: Path) -> Recorded:
    try:
        at = datetime.strptime(f"{row['Date']} {row['Time_UTC']}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        payload = dict(_payload(row, round(at.timestamp() * 1_000)))
    except ValueError as problem:
        raise _misread(path, line, str(problem)) from problem
    return Recorded(payload["at"], container, f"landfall/containers/{container}/reading", orjson.dumps(payload))


def _payload(row: dict[str, str], at_ms: int) -> Iterator[tuple[str, Any]]:
    yield "device", f"SCHENKER-{row['device']}"
    yield "at", at_ms
    yield "gateway", "SCHENKER"
    for column, signal in _NUMBERS.items():
        if row[column]:
            yield signal, float(row[column])
    for column, name in _FLAGS.items():
        if row.get(column):
            yield name, float(row[column]) != 0
    if row["Accuracy"][:1].isdigit():
        yield "accuracy_m", float(row["Accuracy"])
    elif row["Accuracy"]:
        yield "position_source", row["Accuracy"]
