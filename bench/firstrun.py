"""A new user's first minutes: seconds from `make demo` in a new clone, packages cached on the machine, to the first ship on the map.

`python -m bench.firstrun` clones this project's HEAD into a folder of its own, types `make demo` there with free ports, and asks for the
map until a ship has a position; then Ctrl-C. Prints one JSON object. What the package tools have in their caches is not fetched again;
the environment, Spark's jars and the demo are made anew.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from bench.fleet import PASSWORD
from bench.machine import machine
from bench.ports import free_ports
from landfall.demo import ports
from landfall.demo.fleet import Doors

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S, ENDED_S_MAX, LOOK_EVERY_S = 1_200.0, 120.0, 0.1


def has_a_ship(http: httpx.Client) -> bool:
    """Whether operations' map shows a ship with a position."""
    try:
        told = http.post("/api/token", data={"username": "operations", "password": PASSWORD})
        seen = http.get("/api/map", headers={"Authorization": f"Bearer {told.json()['access_token']}"}) if told.is_success else told
    except httpx.TransportError:
        return False
    return seen.is_success and any(ship["position"] for ship in seen.json()["ships"])


def first_run(folder: Path) -> dict[str, Any]:
    """Seconds from the word to the demo's first words, and to the ship."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "landfall")], check=True)
    first = free_ports(len(ports.ALL))[0]  # these are in a row, where none between them is taken
    doors, words = Doors.beginning_at(first), folder / "words.txt"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VIRTUAL_ENV")}
    with words.open("wb") as told, httpx.Client(base_url=f"http://127.0.0.1:{doors.api}", trust_env=False, timeout=10) as http:
        command = ["make", "demo", f"ARGS=--fresh --first-port {first}"]
        began_s = time.monotonic()
        process = subprocess.Popen(command, cwd=folder / "landfall", env=environment, stdout=told, stderr=told, start_new_session=True)
        set_up_s = None
        try:
            while not has_a_ship(http):
                if set_up_s is None and (folder / "landfall" / ".venv" / "bin" / "landfall").exists():
                    set_up_s = time.monotonic() - began_s
                if process.poll() is not None or time.monotonic() - began_s > DEADLINE_S:
                    raise RuntimeError(f"no ship on the map:\n{words.read_text()[-3000:]}")
                time.sleep(LOOK_EVERY_S)
            shown_s = time.monotonic() - began_s
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(ENDED_S_MAX)
    return {"packages_there_s": round(set_up_s or 0.0, 1), "first_ship_on_the_map_s": round(shown_s, 1)}


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory(prefix="bench-first-") as name:
        print(json.dumps({"bench": "firstrun", **machine(), **first_run(Path(name))}, indent=1))


if __name__ == "__main__":
    main()
