"""The demo's fleet with free ports, its real processes started one by one, and what they say of themselves in the logs."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import tomli_w

from landfall.cli.demo_command import prepare
from landfall.demo.demo_accounts import add_accounts
from landfall.demo.demo_processes import Program
from landfall.demo.fleet_settings import HQ, Doors, Fleet, PlayedStory, programs, write_settings
from landfall.demo.local_ports import ALL
from landfall.storage.file_log import FileLogReader
from landfall.system.private_files import write_private
from landfall.transport.http_client import AppendDoor
from streams.codec import BlockCodec
from streams.model.identifiers import Position
from tests.support.credentials import allow_all
from tests.support.forked import Forked
from tests.support.ports import free_row

ROOT = Path(__file__).resolve().parents[2]
HOUSE_TOKEN = "of-the-house"
"""Of who may do everything at headquarters' node."""
SMALL = PlayedStory(seed=7, boxes=40, cadence="short", speed=600.0)
DEADLINE_S = 240.0
POLL_S = 0.15
"""Each look reads a log from its beginning, or asks a process that is starting."""
TALKATIVE = {f"LANDFALL_{name}": "0.3" for name in ("METRICS_EVERY_S", "NODE__METRICS_EVERY_S", "METRICS__EVERY_S")}
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LANDFALL_")}


class House:
    """A fleet in `folder`: its settings are written, nothing runs. `shut` ends what does."""

    def __init__(self, folder: Path) -> None:
        prepare(folder, fresh=True)
        self.fleet = Fleet(folder, SMALL, Doors.beginning_at(free_row(len(ALL))))
        self._files = write_settings(self.fleet)
        add_accounts(self.fleet)
        self.programs: dict[str, Program] = {program.name: program for program in programs(self.fleet, self._files)}
        self.running: dict[str, Forked] = {}
        self.hq = AppendDoor(self.fleet.node_url(HQ), allow_all(folder / HQ, HOUSE_TOKEN))

    def add(self, program: Program, settings: Mapping[str, Any]) -> None:
        """One more process, with these settings."""
        file = self.fleet.settings_folder / f"{program.name}.toml"
        write_private(file, tomli_w.dumps(dict(settings)).encode())
        self.programs[program.name] = Program(program.name, (*program.words, "--config", str(file)), program.health_url, program.purpose)

    def start(self, name: str, **variables: str) -> None:
        """Start it with metrics several times a second; it is healthy when this returns."""
        environment = {**ENVIRONMENT, **TALKATIVE, **variables}
        self.running[name] = Forked("landfall", self.programs[name].words, environment, self.fleet.folder / f"{name}.words")
        until(lambda: self.running[name].poll() is not None or self.health(name) is not None, f"health of {name}", self.tail(name))
        assert self.running[name].poll() is None, self.tail(name)()

    def health(self, name: str) -> dict[str, Any] | None:
        """What `/healthz` says; None unless it answers 200."""
        try:
            # Without TLS: to make its context would take longer than the question.
            answer = httpx.get(self.programs[name].health_url, trust_env=False, verify=False, timeout=5)
        except httpx.TransportError:
            return None
        told: dict[str, Any] | None = answer.json() if answer.status_code == 200 else None
        return told

    def stop(self, name: str) -> int:
        """SIGTERM; the exit code."""
        process = self.running.pop(name)
        process.send(signal.SIGTERM)
        return process.wait(DEADLINE_S)

    def shut(self) -> None:
        """Nothing runs any more."""
        for process in self.running.values():
            process.send(signal.SIGKILL)
            process.wait(DEADLINE_S)

    def said(self, stream: str, process: str, node: str = HQ) -> list[dict[str, Any]]:
        """The bodies of a process's records in `metrics` or `exceptions` of a node's log."""
        return said(self.fleet, stream, process, node)

    def tail(self, name: str) -> Callable[[], str]:
        """The end of what a process wrote to its screen, for a test that fails."""
        return lambda: (self.fleet.folder / f"{name}.words").read_text(errors="replace")[-3_000:]


def said(fleet: Fleet, stream: str, process: str, node: str = HQ) -> list[dict[str, Any]]:
    """The bodies of a process's records in `metrics` or `exceptions` of a node's log."""
    log = FileLogReader(fleet.folder / node / "log", BlockCodec())
    try:
        if stream not in log.streams():
            return []
        rows = [row for batch in log.read(stream, Position()) for row in batch.rows()]
    finally:
        log.close()
    return [dict(row.record.body or {}) for row in rows if row.record.topic == process]


def until(true: Callable[[], Any], what: str, told: Callable[[], object] = str, within_s: float = DEADLINE_S) -> None:
    """Returns once `true()`; fails after `within_s`, with what `told`."""
    deadline_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline_s, f"waited {within_s:.0f} s for {what}: {told()}"
        time.sleep(POLL_S)


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
