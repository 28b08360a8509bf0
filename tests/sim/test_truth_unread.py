"""Goal: the ground truth is for tests: nothing that runs in the fleet reads it, beside the simulator that writes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from sim.truth import Truth
from sim.world import build_world

ROOT = Path(__file__).parents[2]
FLEET = ("streams", "cargo", "intake", "edge", "shore", "hq", "dashboards", "landfall", "deploy")
"""All that runs beside the simulator."""


def named(file: Path) -> Iterator[str]:
    """Every module that `file` imports, and every part of every path or pattern it may be spelling."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
            yield str(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.split(r"[/\\]", node.value)


def test_nothing_in_the_fleet_knows_the_truth_or_where_it_lies(tmp_path: Path) -> None:
    Truth(tmp_path / "truth", Sensors(build_world(1, 60, BEGINS_AT_MS), CADENCES["demo"])).begin()
    secret = {"sim.truth", "truth", *(file.name for file in (tmp_path / "truth").iterdir())}
    assert len(secret) > 3
    assert {"sim.truth", "truth"} <= set(named(ROOT / "sim" / "sim_process.py")), "it would be seen where it is known"
    knowing = {file: secret & set(named(file)) for folder in FLEET for file in (ROOT / folder).rglob("*.py")}
    assert len(knowing) > 100
    assert not {str(file.relative_to(ROOT)): known for file, known in knowing.items() if known}
