"""Goal: a ship's process killed at either step of a digest makes it once: every reading that waits is in one line of its box's window.

Run with `pytest -n 0 -m torture tests/edge/test_digesting_kill.py`: 10 s.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cargo.vocabulary.trade_codes import make_container
from edge.services.digest_service import DIGESTS, HOUR_MS
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.node.points import DIGESTED
from tests.support.aboard import ShipProcess, fleet_clock, ship
from tests.support.process import wait
from tests.support.sea import START_MS

BOXES = [make_container("DUCU", serial) for serial in range(50)]
WINDOW_MS = 6 * HOUR_MS
SHORE = """
[[node.known]]
node = "hq"
role = "hq"

[headquarters]
node = "hq"
url = "http://127.0.0.1:1"
token = "of-the-link"
"""


def readings(at_ms: int) -> list[Record]:
    """Three of each box."""
    return [Record(box, f"TRK-{box}", at_ms + at, {"return_c": 4.0}) for at in range(3) for box in BOXES]


def told(process: ShipProcess) -> dict[tuple[str, int], list[int]]:
    """Box and window → the readings of each line there is."""
    found: dict[tuple[str, int], list[int]] = {}
    for row in process.rows(DIGESTS):
        if not row["topic"].endswith(".log"):
            signals: dict[str, Any] = row["signals"]
            found.setdefault((row["topic"], signals["until_at_ms"]), []).append(signals["readings"])
    return found


def has_told(process: ShipProcess, window: int) -> bool:
    """Whether each box has its line of the windows up to this one."""
    return process.ready() and len(told(process)) >= window * len(BOXES)


@pytest.mark.torture
def test_killed_between_any_two_steps_each_window_is_told_once(tmp_path: Path) -> None:
    now = [START_MS // WINDOW_MS * WINDOW_MS]
    wanted: dict[tuple[str, int], list[int]] = {}
    with fleet_clock(lambda: now[0]) as clock, ship(tmp_path, SHORE, clock) as process:
        process.start()
        wait(process.ready, process.tail)
        wait(lambda: any(row["topic"] == DIGESTS for row in process.rows("consumers")), process.tail)
        for window, point in enumerate((*DIGESTED, ""), 1):
            process.append.append([Append("containers", to_batch(readings(now[0])))])
            process.kill()
            now[0] += WINDOW_MS
            wanted |= {(box, now[0]): [3] for box in BOXES}
            if point:
                process.start(f"{point}:1")
                wait(process.dead, process.tail)
            process.start()
            wait(partial(has_told, process, window), process.tail)
            assert told(process) == wanted
        assert process.stop() == 0
