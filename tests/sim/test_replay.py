"""Goal: recorded readings go through a node as they are, repeats and sparse rows included, and the counts add up."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

import orjson
import pytest

from cargo.vocabulary.trade_codes import is_container
from sim.publish import Publisher
from sim.recorded import read_recorded
from sim.replay import ReplayOutcome, replay
from sim.settings import IntakeDoor, ReplaySettings
from streams.model.clock import StillClock, WallClock
from streams.model.errors import Misuse
from tests.intake.stand import OPEN, eventually, stand
from tests.support.refusals import refusal

HEAD = (
    "device,Container,Date,Time_UTC,Latitude,Longitude,Accuracy,Active,Reverse,Sleep,Door,Mount,Motion,GForce,Tilt,Temperature,Humidity,"
    "Light,Origin,Destination\n"
)
ROWS = (
    "B,NONE,2016-08-08,15:57:46,,,,1.0,0.0,0.0,0.0,0.0,0.0,0.0,,29.8,75.7,,,\n"
    "A,NONE,2016-08-08,14:40:34,25.7941,-80.369301,cellid,0.0,0.0,1.0,1.0,1.0,0.0,,,,,,,\n"
    "A,NONE,2016-08-08,14:40:34,25.7941,-80.369301,cellid,0.0,0.0,1.0,1.0,1.0,0.0,,,,,,,\n"
    "B,NONE,2016-08-09,16:00:00,1.5,103.0,50,,,,,,,2.5,0.1,,,0.015,,\n"
    "B,NONE,2016-08-09,17:00:00,,,,,,,,,,,,,,,,\n"
)
AT_MS = 1_470_754_800_000
BEGUN = (HEAD + "\n" + ROWS).encode()
"""Seven lines, an empty one among them."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recorded.csv"
    path.write_text(HEAD + ROWS)
    return path


def test_rows_become_payloads_as_they_are(file: Path) -> None:
    rows = read_recorded(file)
    assert [orjson.loads(row.payload)["device"] for row in rows] == ["SCHENKER-A", "SCHENKER-A", "SCHENKER-B", "SCHENKER-B", "SCHENKER-B"]
    assert all(is_container(row.container) for row in rows)
    assert rows[0].payload == rows[1].payload
    first, last, bare = (orjson.loads(rows[index].payload) for index in (0, 3, 4))
    assert first["position_source"] == "cellid"
    assert first["door_open"] is True
    assert "accuracy_m" not in first
    assert last == {
        "device": "SCHENKER-B", "at": AT_MS + 3_600_000, "gateway": "SCHENKER", "latitude_deg": 1.5, "longitude_deg": 103.0,
        "shock_g": 2.5, "tilt_deg": 0.1, "light_lx": 0.015, "accuracy_m": 50.0,
    }  # fmt: skip
    assert bare == {"device": "SCHENKER-B", "at": AT_MS + 7_200_000, "gateway": "SCHENKER"}


async def test_a_replay_through_a_node_adds_up(file: Path, tmp_path: Path) -> None:
    async with stand(tmp_path / "node", OPEN, clock=StillClock(AT_MS + 86_400_000)) as node:
        settings = ReplaySettings(intake=IntakeDoor(at="ship/9999010", port=node.endpoint.port))
        outcome = await asyncio.to_thread(replay, settings, file)
        assert (outcome.read, outcome.published, outcome.acknowledged, outcome.repeats) == (5, 5, 5, 1)
        assert sum(outcome.containers.values()) == 5
        assert "5 rows read" in str(outcome)
        assert node.counts() == {"intake_received": 5, "intake_accepted": 4, "intake_repeated": 1}


async def test_a_replay_does_not_end_the_connection_of_a_simulator_at_the_same_intake(file: Path, tmp_path: Path) -> None:
    """Of two clients with one name an intake keeps the newer: each would end the other's connection again and again."""
    async with stand(tmp_path / "node", OPEN, clock=StillClock(AT_MS + 86_400_000)) as node:
        intake, breaks = IntakeDoor(at="ship/9999010", port=node.endpoint.port), list[str]()
        simulator = Publisher([intake.at], {intake.at: intake}, WallClock(), breaks.append)
        try:
            outcome, acknowledged = await asyncio.to_thread(_beside, simulator, ReplaySettings(intake=intake), file)
        finally:
            simulator.close()
        assert (outcome.acknowledged, acknowledged, breaks) == (5, [1, 2], [])


def _beside(simulator: Publisher, settings: ReplaySettings, file: Path) -> tuple[ReplayOutcome, list[int]]:
    """A replay between two readings of the simulator's; what became of it, and of them."""
    first = _said(simulator, 1)
    return replay(settings, file), first + _said(simulator, 2)


def _said(simulator: Publisher, ticket: int) -> list[int]:
    """One reading is published and acknowledged; the ticket that comes back."""
    payload = orjson.dumps({"device": "TRK-1", "at": AT_MS + ticket})
    while not simulator.offer(0, "landfall/containers/MSKU1234565/reading", payload, ticket):
        simulator.turn(0.02)
    while not (taken := simulator.taken_acknowledgements()):
        simulator.turn(0.02)
    return taken


async def test_a_replay_keeps_its_own_pace(file: Path, tmp_path: Path) -> None:
    """Rows 26 h apart, 100,000 times as fast: a second or more, not at once."""
    async with stand(tmp_path / "node", OPEN, clock=StillClock(AT_MS + 86_400_000)) as node:
        settings = ReplaySettings(intake=IntakeDoor(at="ship/9999010", port=node.endpoint.port), speed=100_000)
        began_s = time.monotonic()
        outcome = await asyncio.to_thread(replay, settings, file)
        assert outcome.acknowledged == 5
        assert time.monotonic() - began_s > 26 * 3_600 / 100_000


@pytest.mark.parametrize(
    ("content", "code", "named"),
    [
        (b"a,b\n1,2\n", "columns_missing", "device, Date"),
        (b"", "columns_missing", "device"),
        (BEGUN + b"A,NONE,yesterday,14:40:34" + b"," * 16 + b"\n", "recorded_unreadable", "yesterday"),
        (BEGUN + b"A,NONE,2016-03-01,06:00:00,1.4380\n", "recorded_unreadable", "5 fields"),
        (BEGUN + b"A,NONE" + b"," * 19 + b"\n", "recorded_unreadable", "21 fields"),
        (BEGUN + b"\xff\xfe,NONE" + b"," * 18 + b"\n", "recorded_unreadable", "line 8"),
        (b"\xff\xfe", "recorded_unreadable", "line 1"),
        (BEGUN + b'"' + b"A" * 200_000 + b'"\n', "recorded_unreadable", "line 8"),
        (None, "file_unavailable", os.strerror(errno.ENOENT)),
    ],
)
def test_a_file_that_does_not_read_is_named(tmp_path: Path, content: bytes | None, code: str, named: str) -> None:
    """With the line as an editor counts, and what to do."""
    path = tmp_path / "odd.csv"
    if content is not None:
        path.write_bytes(content)
    with refusal(Misuse, code, "odd.csv", named) as told:
        read_recorded(path)
    assert told.value.hint


async def test_a_replay_that_is_asked_to_end_half_done_has_failed(file: Path, tmp_path: Path) -> None:
    """At their own pace the rows take a day; run again it goes on to where it was."""
    async with stand(tmp_path / "node", OPEN, clock=StillClock(AT_MS + 86_400_000)) as node:
        config = tmp_path / "replay.toml"
        config.write_text(f'speed = 1\n[intake]\nat = "ship/9999010"\nport = {node.endpoint.port}\n')
        words = ("-m", "landfall", "sim", "replay", str(file), "-c", str(config))
        replaying = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE, stderr=PIPE)
        try:
            await eventually(lambda: node.counts().get("intake_accepted", 0) >= 1)
            replaying.terminate()
            async with asyncio.timeout(90):
                told, complaint = await replaying.communicate()
        finally:
            if replaying.returncode is None:
                replaying.kill()
        assert (replaying.returncode, told) == (2, b"")
        assert "`landfall sim replay` " in complaint.decode()
        assert "Traceback" not in complaint.decode()
