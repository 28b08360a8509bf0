"""Goal: no commit point is in the code that no kill test goes through, in each process that passes it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.node import points as named

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("streams", "cargo", "intake", "edge", "shore", "hq", "sim", "dashboards", "landfall")
KILLED = {
    **{process: set(points) for process, points in named.NODES.items()},
    "ship": {*named.NODES["ship"], *named.LEASED, *named.ANSWERED, *named.DIGESTED},
    "headquarters": {*named.NODES["headquarters"], *named.TAKEN},
    "analytics": set(named.ANALYTICS),
    "projector": set(named.PROJECTOR),
    "fanout": set(named.FANOUT),
}
"""Process → the points at which a test kills it."""
PASSED_BY = {
    "landfall/node/peers/link_budgets.py": ("ship",),
    "edge": ("ship",),
    "landfall/watch": ("ship", "port"),
    "intake": ("ship", "port"),
    "shore": ("headquarters",),
    "hq/analytics": ("analytics",),
    "hq/serving": ("projector",),
    "hq/fanout": ("fanout",),
}
"""Folder of code, or a file of its own → the processes that run it. All other points of `streams` and `landfall` are passed by every
node; those that a log reaches late (merging, another kind of log) may be passed by the log alone, in a process of the log's own kill tests.
"""
OF_THE_LOG = ("streams/test_*kill*.py", "streams/test_kafka_faults.py", "retention/test_thinning.py", "landfall/test_log_*.py")
"""The kill tests of the log, of its merging, of a log in a Kafka, of retention, and of copies put back."""


def points() -> dict[str, set[str]]:
    """Folder of code, or file, as in `PASSED_BY` → its commit points."""
    found: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            path = file.relative_to(ROOT)
            if "commit_point" not in (text := file.read_text()):
                continue
            folder = next((named for named in PASSED_BY if path.is_relative_to(named)), path.parts[0])
            for call in ast.walk(ast.parse(text)):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "commit_point":
                    (name,) = call.args
                    assert isinstance(name, ast.Constant), f"{file}: a commit point has a name that can be read"
                    found[folder].add(str(name.value))
    return found


def killed_in_the_log() -> set[str]:
    """What these tests list as the points at which they kill: `POINTS = …`, and `parametrize("point", …)`."""
    files = [file for pattern in OF_THE_LOG for file in (ROOT / "tests").glob(pattern)]
    listed: list[ast.expr] = []
    for one in (one for file in files for one in ast.walk(ast.parse(file.read_text()))):
        match one:
            case ast.Assign(targets=[ast.Name(id="POINTS")], value=value):
                listed.append(value)
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[ast.Constant(value="point"), value]):
                listed.append(value)
    return {str(point) for value in listed for point in ast.literal_eval(value)}


def test_every_process_is_killed_at_every_commit_point_it_passes() -> None:
    found = points()
    of_nodes = found.pop("streams") | found.pop("landfall")
    assert found.keys() == PASSED_BY.keys()
    spared = {(process, point) for folder, there in found.items() for process in PASSED_BY[folder] for point in there - KILLED[process]}
    everywhere = set(named.KEPT)
    spared |= {(process, point) for process in named.NODES for point in of_nodes & everywhere - KILLED[process]}
    spared |= {("the log", point) for point in of_nodes - everywhere - killed_in_the_log()}
    assert not spared, "no test kills these processes there: name the point in the POINTS of its kill test"
    assert set().union(*KILLED.values()) <= of_nodes.union(*found.values()), "a kill test names a point that is nowhere in the code"
