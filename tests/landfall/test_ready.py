"""Goal: a ship and a port are not healthy before their sensors are let in, however long their log takes to look through."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

import intake.intake_service
from edge.settings import ShipSettings
from edge.ship import run_ship
from intake.pipeline import Pipeline
from shore.port import run_port
from shore.settings import PortSettings
from tests.intake.stand import eventually
from tests.landfall.house import is_free
from tests.support.ports import free_ports

SHIP: tuple[Any, ...] = (run_ship, ShipSettings, {"node": "albatross", "role": "ship", "identity": "9321483"})
PORT: tuple[Any, ...] = (run_port, PortSettings, {"node": "tokyo", "role": "port", "identity": "JPTYO"})


class Hesitant(Pipeline):
    """A pipeline that looks through its log until it is let go."""

    go = threading.Event()

    def __init__(self, *parts: Any) -> None:
        assert self.go.wait(90)
        super().__init__(*parts)


@pytest.mark.parametrize(("run", "kind", "who"), [SHIP, PORT], ids=["ship", "port"])
async def test_healthy_means_that_sensors_are_let_in(
    run: Callable[[Any], Coroutine[Any, Any, None]], kind: Any, who: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake.intake_service, "Pipeline", Hesitant)
    Hesitant.go.clear()
    door, sensors = free_ports(2)
    node = {**who, "folder": tmp_path, "port": door}
    settings = kind.model_validate({"node": node, "intake": {"endpoint": {"port": sensors, "anonymous_publish": ["landfall/#"]}}})
    running = asyncio.create_task(run(settings))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{door}", trust_env=False, timeout=90) as client:
        status = await first_answer(client)
        told = (await client.get("/healthz")).json()
        assert (status, told["ready"], len(told["waits_for"])) == (503, False, 1)
        assert is_free(sensors)
        Hesitant.go.set()
        await eventually(lambda: is_healthy(client))
        assert not is_free(sensors)
    os.kill(os.getpid(), signal.SIGTERM)
    await running


async def is_healthy(client: httpx.AsyncClient) -> bool:
    return (await client.get("/healthz")).status_code == 200


async def first_answer(client: httpx.AsyncClient) -> int:
    """The first status that /healthz answers."""
    async with asyncio.timeout(90):
        while True:
            try:
                return (await client.get("/healthz")).status_code
            except httpx.TransportError:
                await asyncio.sleep(0.02)
