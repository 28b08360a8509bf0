"""The demo's whole fleet under way on free ports, started as `landfall demo` starts it, and looked at from outside: for the benches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from landfall.cli.demo_command import run_demo
from landfall.demo.demo_secrets import CONTROL, SECRETS, Secrets
from landfall.demo.fleet_settings import Doors, Fleet, PlayedStory
from landfall.storage.file_log import FileLogReader
from streams.codec import BlockCodec
from tests.support.ports import free_ports

STOPPED_WITHIN_S = 80.0
PASSWORD = "landfall-demo"
CLOCK_TICKS_S: int = os.sysconf("SC_CLK_TCK")


class Underway:
    """A fresh demo in `folder` as a process with children of its own; `began_s` is when it was launched. `stop` it at the end."""

    def __init__(self, folder: Path, story: PlayedStory) -> None:
        self.fleet = Fleet(folder, story, free_doors())
        doors = self.fleet.doors
        words = [dict(doors.node), dict(doors.mqtt), doors.api, doors.analytics, doors.projector, doors.clock, doors.pages]
        self._output = (folder.parent / "demo.txt").open("wb")
        command = [sys.executable, "-m", "bench.fleet", str(folder), str(story.boxes), str(story.speed), json.dumps(words)]
        self.began_s = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True)
        self._http = httpx.Client(trust_env=False, timeout=10)
        self._token = ""

    def stop(self) -> None:
        """Ask the demo to end, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOPPED_WITHIN_S)
        self._http.close()
        self._output.close()

    def map(self) -> dict[str, Any] | None:
        """What operations' map shows; None while the API is not there."""
        try:
            if not self._token:
                answer = self._http.post(f"{self.fleet.api_url}/api/token", data={"username": "operations", "password": PASSWORD})
                self._token = answer.json()["access_token"] if answer.is_success else ""
            answer = self._http.get(f"{self.fleet.api_url}/api/map", headers={"Authorization": f"Bearer {self._token}"})
        except httpx.TransportError:
            self.check()
            return None
        return answer.json() if answer.is_success else None

    def check(self) -> None:
        """Raises RuntimeError with the demo's last words when it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the demo has ended:\n{Path(self._output.name).read_text()[-4000:]}")

    def clock(self) -> dict[str, Any]:
        """Return what the fleet's clock reports."""
        fields: dict[str, Any] = self._http.get(self.fleet.clock_url).raise_for_status().json()
        return fields

    def control(self, **action: Any) -> None:
        """Pause, resume, speed, jump."""
        shown = {"Authorization": f"Bearer {Secrets(self.fleet.folder / SECRETS).of(CONTROL)}"}
        self._http.post(self.fleet.control_url, json=action, headers=shown).raise_for_status()

    def log(self, node: str) -> FileLogReader:
        """A node's log, read from this process; close it."""
        return FileLogReader(self.fleet.folder / node / "log", BlockCodec())

    def cpu_s(self) -> dict[str, float]:
        """Process → CPU seconds used so far by it and its children that live."""
        leaders, parents, used = dict[int, str](), dict[int, int](), dict[int, float]()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
                words = stat.with_name("cmdline").read_text().split("\0")
            except OSError:
                continue  # it ended meanwhile
            process = int(stat.parent.name)
            parents[process], used[process] = int(fields[1]), sum(map(int, fields[11:15])) / CLOCK_TICKS_S
            if parents[process] == self.process.pid:
                settings = (Path(word).stem for word in words if word.startswith(str(self.fleet.settings_folder)))
                leaders[process] = next(settings, "dashboards")  # the pages have become Streamlit's process
        shares = dict.fromkeys(leaders.values(), 0.0)
        for process, seconds in used.items():
            while process in parents and process not in leaders:
                process = parents[process]
            if process in leaders:
                shares[leaders[process]] += seconds
        return shares


def until(what: str, condition: Callable[[], bool], deadline_s: float, every_s: float = 0.1) -> float:
    """Seconds until `condition` held. Raises TimeoutError with `what` when it does not in time."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() - began_s > deadline_s:
            raise TimeoutError(f"after {deadline_s:.0f} s it is still not so that {what}")
        time.sleep(every_s)
    return time.monotonic() - began_s


def free_doors() -> Doors:
    """Ports of this machine that nobody listens on now."""
    default = Doors()
    free = free_ports(len(default.node) + len(default.mqtt) + 5)
    return Doors({name: free.pop() for name in default.node}, {name: free.pop() for name in default.mqtt}, *free)


if __name__ == "__main__":
    _, _folder, _boxes, _speed, _doors = sys.argv
    run_demo(Fleet(Path(_folder), PlayedStory(boxes=int(_boxes), speed=float(_speed)), Doors(*json.loads(_doors))), fresh=True)
