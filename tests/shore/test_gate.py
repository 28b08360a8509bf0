"""Goal: a gate reports to its port's node by the command that docs/mqtt.md gives, and the box is told to have come in."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from intake.settings import EndpointSettings, GatewayLogin, IntakeSettings
from shore.port import PortNode
from shore.settings import PortSettings, QuayPatience
from streams.words import Position
from tests.node.fleet import settings, until

DOCS = Path(__file__).resolve().parents[2] / "docs" / "mqtt.md"
BOX, NEXT = "MSKU1234565", "HLXU2008419"


def documented() -> tuple[GatewayLogin, list[str]]:
    """The gate's login, and what its user types."""
    text = DOCS.read_text()
    (told,) = re.findall(r'username = "(gate-2)"\npassword = "(.*)"\npublish = \["(.*)"\]', text)
    (command,) = re.findall(r"^mosquitto_pub .*$", text, re.MULTILINE)
    return GatewayLogin(username=told[0], password=SecretStr(told[1]), publish=(told[2],)), shlex.split(command)


async def test_what_a_gate_says_is_in_the_log_and_the_box_came_in(tmp_path: Path) -> None:
    login, command = documented()
    intake = IntakeSettings(endpoint=EndpointSettings(port=0, logins=(login,)))
    port = PortNode(PortSettings(node=settings("tokyo", tmp_path), intake=intake, watch=QuayPatience(lateness_ms=1)))
    await port.start()
    try:
        await until(lambda: port.intake.port is not None)
        here = {"port.example": "127.0.0.1", "1883": str(port.intake.port)}
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
