"""Goal: lines that are reached are counted, in every process, and no others are."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from coverage.python import PythonFileReporter

from tests.support import lines

SOURCE = '''"""A module."""

from __future__ import annotations

def judged(number: int) -> str:
    """Says what it is."""
    if number < 0:
        text = "less"
        text += str(1 // (number + 1))
        return text
    try:
        return {0: "nothing"}[number]
    except KeyError:
        found = number
    match found:
        case 1:
            return "one"
        case _:
            return "more"
'''

KILLED = """import os
if os.fork():
    os.wait()
else:
    forked = 1
os.kill(os.getpid(), 9)
"""


def reached_by(*numbers: int) -> set[int]:
    """The lines of SOURCE that count once it was asked for these."""
    module: dict[str, Any] = {}
    exec(compile(lines.marked(SOURCE, "judged.py"), "judged.py", "exec"), module)
    for number in numbers:
        with suppress(ZeroDivisionError):
            module["judged"](number)
    new = module[lines.NEW]
    return set().union(*(found for line, found in lines.lines_by_mark(SOURCE).items() if not new[line]))


@pytest.mark.parametrize(
    ("number", "more"),
    [(-2, {8, 9, 10}), (-1, set()), (0, {11, 12}), (1, {11, 12, 13, 14, 15, 16, 17}), (2, {11, 12, 13, 14, 15, 18, 19})],
)
def test_what_was_reached_counts_and_nothing_else(number: int, more: set[int]) -> None:
    """Of a row of statements in which one raised, none does."""
    assert reached_by(number) == {3, 5, 7} | more


@pytest.mark.parametrize(
    "file", ["streams/replication/sync_session.py", "landfall/storage/index.py", "intake/mqtt/packets.py", "cargo/loss/watch.py"]
)
def test_all_that_is_a_statement_for_coverage_can_count(file: str) -> None:
    statements = PythonFileReporter(str(lines.ROOT / file), Coverage(config_file=False)).lines()
    assert statements - {line for found in lines.lines_by_mark((lines.ROOT / file).read_text()).values() for line in found} == set()


def test_what_a_killed_process_had_reached_counts(tmp_path: Path) -> None:
    """Of a process that is started with the folder `measured` on its path, and of one that is forked from it."""
    support = tmp_path / "tests" / "support"
    shutil.copytree(Path(lines.__file__).parent / "measured", support / "measured")
    shutil.copy(lines.__file__, support)
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "killed.py").write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": f"{support}/measured:{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", "import streams.killed"], env=environment, cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    found = (tmp_path / ".cache" / "lines").read_bytes()
    assert [line for line, byte in enumerate(found) if byte] == [2, 3, 5, 6]
