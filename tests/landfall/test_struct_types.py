"""Goal: threads that decode a struct for the first time at once do not crash the process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from landfall import client, process_table
from landfall.client import NodeDoor
from landfall.process_table import PROCESSES, Process, run_process

RACE = """
import sys, threading
import msgspec
from landfall.system.struct_types import build_struct_types

sys.setswitchinterval(1e-9)
for _ in range(500):
    class Part(msgspec.Struct):
        stream: str
        sequence: int | None
        ranges: list[tuple[int, int]]
    class Whole(msgspec.Struct):
        parts: list[Part]
    build_struct_types()
    body = msgspec.msgpack.encode(Whole([Part("alerts", None, [(0, 1)])]))
    together = threading.Barrier(6)
    def decode():
        together.wait()
        assert msgspec.msgpack.decode(body, type=Whole).parts[0].ranges == [(0, 1)]
    threads = [threading.Thread(target=decode) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
"""Without the call it ends by SIGSEGV within a few rounds."""


def test_threads_that_decode_first_at_once_do_not_crash() -> None:
    ended = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_process_and_a_client_build_them_before_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(process_table, "build_struct_types", lambda: steps.append("built"))
    monkeypatch.setattr(client, "build_struct_types", lambda: steps.append("built"))
    monkeypatch.setitem(PROCESSES, "noted", Process("sim.settings:SimSettings", f"{__name__}:note"))
    monkeypatch.setattr(process_table, "settings_of", lambda name, config: steps)
    run_process("noted", None)
    client.connect([NodeDoor("http://127.0.0.1:1", "")])
    assert steps == ["built", "begun", "built"]


def note(steps: Any) -> None:
    """The main function of the process of this test."""
    steps.append("begun")
