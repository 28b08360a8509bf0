"""Goal: a bench that backs a row of the goals' table (docs/performance.md) runs to its end, in a tiny size: its figures mean nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 1_800.0
"""Deadline of a bench, seconds: on a busy machine too only a hang reaches it."""
TINY = {
    "log": (("100", "24"), "upkeep_share"),
    "reading": (("100", "24"), "codec_alone"),
    "codec": (("100", "24"), "entropy"),
    "stored": (("50", "24"), "live_on_disk"),
    "topics": (("20000", "2000", "pace", "many"), "rate"),
    "standby": (("1",), "taken_over_s"),
    "failover": (("2",), "first record after the kill"),
    "link": (("100", "60"), "lag_p99_over_two_fdatasync_p99"),
    "endless": (("endpoint", "2", "nobody"), "nobody"),
    "losses": (("--kills", "1", "--cuts", "0", "--readings", "100", "landfall"), "acknowledged and lost"),
    "drift": (("50", "2"), "bound_cpu_s"),
    "pacing": (("1",), "share"),
    "mqtt": (("2000",), "cpu_us"),
    "brokered": (("1",), "fdatasync"),
    "sim": (("50",), "published_per_s"),
    "duel": (("loopback", "4000", "400", "landfall"), "readings_s"),
    "spark": (("50", "24"), "readings_s"),
    "watchtable": (("2", "1"), "|"),
    "watchday": (("100", "3", "1"), "node_anew_mib"),
    "lossashore": (("1",), "told_wrongly"),
    "strangers": (("100", "2"), "p99"),
    "pages": (("40", "1"), "of the goals"),
}
"""Bench → the arguments of its tiny size, and a figure that it prints."""
LONGEST = {"voyage": (("40",), "alert_to_map_s")}
"""The same of the bench that plays most of the story whatever its size: ten minutes of processor time (`make torture`)."""


@pytest.mark.long
@pytest.mark.parametrize("name", [*TINY, *(pytest.param(name, marks=pytest.mark.torture) for name in LONGEST)])
def test_a_bench_runs_to_its_end(name: str) -> None:
    size, figure = {**TINY, **LONGEST}[name]
    words = [sys.executable, "-m", f"bench.{name}", *size]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert figure in done.stdout
