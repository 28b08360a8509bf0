"""Goal: the real API takes every paper of the story, and what stands at its end is what the story says, papers written again or not."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from sim.clerk import Clerk
from sim.paperwork import paperwork
from sim.settings import BEGINS_AT_MS, ApiDoor
from sim.world import build_world
from streams.codec import BlockCodec
from streams.logs.files import FileLogReader
from streams.words import Position
from tests.hq_serving.conftest import PASSWORD, api_of, settings_for
from tests.hq_serving.test_registry import running_node


def registry(log: Path) -> list[dict[str, Any]]:
    reader = FileLogReader(log, BlockCodec())
    return [json.loads(body) for batch in reader.read("registry", Position()) for body in batch.records.column("body").to_pylist()]


def test_headquarters_takes_every_paper(tmp_path: Path) -> None:
    papers = paperwork(build_world(1, 60, BEGINS_AT_MS))
    with running_node(tmp_path) as node, api_of(settings_for(tmp_path / "log", tmp_path, node)) as client:
        door = ApiDoor(url=str(client.base_url), username="cleo", password=SecretStr(PASSWORD))
        for accepted in (0, len(papers) // 2):
            Clerk(papers, door, accepted).run(lambda: papers[-1].due_at_ms, threading.Event())
        told = [(entry["type"], entry["id"], json.dumps(entry["value"], sort_keys=True)) for entry in registry(tmp_path / "log")]
        wanted = [(paper.type, paper.id, json.dumps(paper.value, sort_keys=True)) for paper in papers]
        assert set(told) <= set(wanted)
        assert {(kind, name): value for kind, name, value in told} == {(kind, name): value for kind, name, value in wanted}
