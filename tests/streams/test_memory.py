"""Goal: a process that is to be small gives back what was large, though small things that stay were made between."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress

import pytest

import streams.memory
from streams.memory import large_work

ROUNDS = """
import sys
from pathlib import Path
import pyarrow as pa
from streams.memory import spare_memory

def resident_kib():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))

if "spare" in sys.argv:
    spare_memory()
bytearray(8 << 20)  # freed: from now on glibc takes less than that for small, unless it is told otherwise
before, kept = resident_kib(), []
large = []
for _ in range(64):
    large.append(bytearray(1 << 20))
    kept.append(bytearray(2000))
del large
print(resident_kib() - before)
"""


def stays_mib(*words: str) -> int:
    """What of 64 MiB stays with a process of its own once all but small things between are freed, MiB."""
    ran = subprocess.run([sys.executable, "-c", ROUNDS, *words], capture_output=True, text=True, check=True)
    return int(ran.stdout) // 1024


def test_what_is_large_goes_back_to_the_system_at_once() -> None:
    assert stays_mib("spare") < 4
    assert stays_mib() > 32, "without it this test would show nothing"


def test_what_takes_much_memory_for_a_while_is_done_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: two such works never overlap, and what the first took is given back before the second begins, also where it fails."""
    happened: list[str] = []
    monkeypatch.setattr(streams.memory, "release", lambda: happened.append("given back"))
    begun = threading.Event()

    def first() -> None:
        with suppress(ValueError), large_work():
            begun.set()
            second.start()
            second.join(0.2)
            happened.append("first")
            raise ValueError

    def then() -> None:
        with large_work():
            happened.append("second")

    one, second = threading.Thread(target=first), threading.Thread(target=then)
    one.start()
    begun.wait(10)
    one.join(10)
    second.join(10)
    assert happened == ["first", "given back", "second", "given back"]
