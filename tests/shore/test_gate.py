"""Goal: a gate reports to its port's node by the command that docs/guide/mqtt.md gives, and the box is told to have come in."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from intake.settings import EndpointSettings, IntakeSettings
from shore.port import PortNode
from shore.settings import PortSettings, QuayPatience
from streams.model.identifiers import Position
from tests.landfall.commands import run
from tests.support.fleet import settings, until

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "mqtt.md"
BOX, NEXT = "MSKU1234565", "HLXU2008419"


def documented() -> tuple[list[str], list[str]]:
    """How the gate gets its credential, and what its user types."""
    text = DOCS.read_text()
    (given,) = re.findall(r"^landfall credential add gateway:gate-2 .*$", text, re.MULTILINE)
    (command,) = re.findall(r"^mosquitto_pub .*$", text, re.MULTILINE)
    return shlex.split(given), shlex.split(command)


async def test_what_a_gate_says_is_in_the_log_and_the_box_came_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, command = documented()
    folder = tmp_path / "tokyo"
    code, token, _ = run(capsys, *given[1:-1], str(folder))
    assert code == 0
    intake = IntakeSettings(endpoint=EndpointSettings(port=0))
    port = PortNode(PortSettings(node=settings("tokyo", tmp_path), intake=intake, watch=QuayPatience(lateness_ms=1)))
    await port.start()
    try:
        await until(lambda: port.intake.port is not None)
        here = {"port.example": "127.0.0.1", "1883": str(port.intake.port), "$TOKEN": token.strip()}
        gate = await asyncio.create_subprocess_exec(*(here.get(word, word) for word in command))
        assert await gate.wait() == 0
        (row,) = rows(port, "containers")
        assert (row.topic, row.device, row.signals, row.body) == (
            BOX,
            "GATE-2",
            {"gateway": "GATE-2", "door_open": False},
            {"lane": 4, "flags": ["no_time"]},
        )
        gate = await asyncio.create_subprocess_exec(*(here.get(word, word).replace(BOX, NEXT) for word in command))
        assert await gate.wait() == 0
        await until(lambda: [(one.topic, (one.body or {})["event"]) for one in rows(port, "events")] == [(BOX, "GTIN")])
    finally:
        await port.stop()


def rows(port: PortNode, stream: str) -> list[Any]:
    """The records of `stream` at the port."""
    return [row.record for batch in port.node.log.read(stream, Position()) for row in batch.rows()]
