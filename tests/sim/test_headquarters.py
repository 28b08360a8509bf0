"""Goal: headquarters takes every paper of the story, written again or not, and hears how the simulator fares."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from landfall.storage.file_log import FileLogReader
from sim.clerk import Clerk
from sim.paperwork import paperwork
from sim.settings import BEGINS_AT_MS, ApiDoor, MetricsDoor
from sim.world import build_world
from streams.codec import BlockCodec
from streams.model.clock import StillClock
from streams.model.errors import Misuse
from streams.model.identifiers import Position
from tests.hq_serving.conftest import PASSWORD, api_of, settings_for
from tests.hq_serving.test_registry import running_node
from tests.intake.stand import OPEN, eventually, stand
from tests.intake.test_endpoint import self_signed
from tests.sim.test_run import TIMES, running
from tests.sim.test_run import settings_for as settings_of_sim
from tests.support.refusals import refusal


def bodies(log: Path, stream: str) -> list[dict[str, Any]]:
    with closing(FileLogReader(log, BlockCodec())) as reader:
        return [json.loads(body) for batch in reader.read(stream, Position()) for body in batch.records.column("body").to_pylist()]


def test_headquarters_takes_every_paper(tmp_path: Path) -> None:
    papers = paperwork(build_world(1, 60, BEGINS_AT_MS))
    with running_node(tmp_path) as node, api_of(settings_for(tmp_path / "log", tmp_path, node)) as client:
        door = ApiDoor(url=str(client.base_url), username="cleo", password=SecretStr(PASSWORD))
        for accepted in (0, len(papers) // 2):
            Clerk(papers, door, accepted).run(lambda: papers[-1].due_at_ms, threading.Event())
        told = [(entry["type"], entry["id"], json.dumps(entry["value"], sort_keys=True)) for entry in bodies(tmp_path / "log", "registry")]
        wanted = [(paper.type, paper.id, json.dumps(paper.value, sort_keys=True)) for paper in papers]
        assert set(told) <= set(wanted)
        assert {(kind, name): value for kind, name, value in told} == {(kind, name): value for kind, name, value in wanted}


def test_an_api_that_a_private_authority_signed_is_believed_by_its_file_alone(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    paper = paperwork(build_world(1, 60, BEGINS_AT_MS))[0]
    stop = threading.Event()
    reported: list[str] = []

    def end(said: str) -> None:
        reported.append(said)
        stop.set()

    with running_node(tmp_path) as node:
        settings = settings_for(tmp_path / "log", tmp_path, node)
        with api_of(settings.model_copy(update={"tls_certificate": certificate, "tls_key": key})) as client:
            door = ApiDoor(url=str(client.base_url), username="cleo", password=SecretStr(PASSWORD), tls_ca=certificate)
            unbelieving = Clerk([paper], door.model_copy(update={"tls_ca": None}), 0, end)
            unbelieving.run(lambda: paper.due_at_ms, stop)
            assert unbelieving.accepted == 0
            assert "CERTIFICATE_VERIFY_FAILED" in reported[0]
            clerk = Clerk([paper], door, 0)
            clerk.run(lambda: paper.due_at_ms, threading.Event())
        assert clerk.accepted == len(bodies(tmp_path / "log", "registry")) == 1
    with refusal(Misuse, "authority_not_loaded", "missing.pem"):
        Clerk([paper], door.model_copy(update={"tls_ca": tmp_path / "missing.pem"}), 0)


async def test_the_simulator_tells_how_it_fares(tmp_path: Path) -> None:
    log = tmp_path / "hq" / "log"
    with running_node(tmp_path / "hq") as node:
        async with stand(tmp_path / "ship", OPEN, clock=StillClock(TIMES.ends_at_ms)) as ship:
            door = MetricsDoor(url=node, token=SecretStr("door"), every_s=0.2)
            settings = settings_of_sim(tmp_path, ship, metrics=door)
            async with running(settings, fresh=True):
                await eventually(lambda: any(body["counts"].get("sim_acknowledged", 0) > 0 for body in bodies(log, "metrics")))
            told = [body for body in bodies(log, "metrics") if body["process"] == "sim"]
            assert {"sim_behind_fleet_ms", "sim_papers"} <= told[-1]["gauges"].keys()
            assert "sim_step_ms" in told[-1]["histograms"]
            assert BEGINS_AT_MS <= told[-1]["at_ms"] <= TIMES.ends_at_ms
