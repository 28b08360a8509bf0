"""What befalls the fleet in the long voyage: processes killed between commits and at any time, links cut, the serving database deleted, and
Spark dead while boxes fall."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from landfall.demo.demo_processes import healthy
from tests.e2e.amending import FIRST, SECOND
from tests.e2e.offsydney import ONLOOKERS, counts
from tests.e2e.played import Calm, Played, up_again
from tests.e2e.voyage import Voyage, until

ARMED = {
    "hq": "forwarding.told:1",
    "projector": "projector.step:2",
    FIRST: "watch.judged:3",
    SECOND: "intake.durable:10",
    "tokyo": "sync.admitted:3",
}
"""On the way to Singapore each of these dies between two of its commits: process → commit point and passage."""
KILLED = ("albatross", "hq", "singapore", "sydney")
"""From Singapore to Sydney each of these dies, in an order drawn by SEED: the next one when the one before is up again."""
SEED = 1


@dataclass(frozen=True, slots=True)
class Standstill:
    """With Spark dead: its last report in the log; then, some time later, the answers of `/api/status` and `/api/map` by username; and how
    many records of each stream headquarters has had, before and then.
    """

    word: dict[str, Any]
    status: dict[str, dict[str, Any]]
    map: dict[str, dict[str, Any]]
    before: dict[str, int]
    then: dict[str, int]


class Ordeal(Calm):
    """What befalls the fleet, and what became of it.

    `died_at`: which processes killed themselves, and at which commit point. `killed`: which others were killed, in this order.
    `serving_deleted_at_ms`: when the serving database was deleted (fleet, UTC ms).
    """

    later = ()

    def __init__(self) -> None:
        self._armed: dict[str, subprocess.Popen[bytes]] = {}
        self.died_at: dict[str, str] = {}
        self.killed: list[str] = []
        self.serving_deleted_at_ms = 0
        self.standstill: Standstill | None = None

    def bound_for_singapore(self, voyage: Voyage) -> None:
        self._armed = {name: voyage.arm(name, point) for name, point in ARMED.items()}

    def before_singapore(self, voyage: Voyage) -> None:
        for name, process in self._armed.items():
            until(f"{name} dies at {ARMED[name]}", lambda process=process: process.poll() is not None)  # type: ignore[misc]
        self.died_at = {name: ARMED[name] for name, process in self._armed.items() if process.returncode == -signal.SIGKILL}
        up_again(voyage)

    @contextmanager
    def through_singapore(self, voyage: Voyage) -> Iterator[None]:
        with voyage.cables.cutting(), self._killing(voyage):
            yield

    def bound_for_sydney(self, voyage: Voyage) -> None:
        self.serving_deleted_at_ms = delete_serving(voyage)

    @contextmanager
    def off_sydney(self, voyage: Voyage) -> Iterator[None]:
        """Spark has spoken; it is killed, and started again when all has been looked at."""
        until("Spark has spoken of states", lambda: bool(voyage.position("hq", "states")) and bool(words(voyage)))
        voyage.stop("analytics", how=signal.SIGKILL)
        word, before = words(voyage)[-1], counts(voyage)
        yield
        until("readings have come since Spark stopped", lambda: counts(voyage)["ships"] > before["ships"])
        status, maps = ({user: voyage.api(user).get(f"/api/{what}") for user in ONLOOKERS} for what in ("status", "map"))
        self.standstill = Standstill(word, status, maps, before, counts(voyage))
        voyage.start("analytics")

    @property
    def dead(self) -> set[str]:
        return {*self.died_at, *self.killed}

    @contextmanager
    def _killing(self, voyage: Voyage) -> Iterator[None]:
        gone = threading.Event()

        def kill() -> None:
            for process in random.Random(SEED).sample(KILLED, len(KILLED)):
                until("the one before is up again", lambda: gone.is_set() or all_up(voyage))
                if gone.is_set():
                    return
                voyage.kill(process)
                self.killed.append(process)

        thread = threading.Thread(target=kill, name="killer")
        thread.start()
        try:
            yield
            until("all have died", lambda: len(self.killed) == len(KILLED))
        finally:
            gone.set()
            thread.join()


def all_up(voyage: Voyage) -> bool:
    """Whether each of KILLED runs and answers."""
    return all(healthy(voyage.supervisor.programs[name].health_url) for name in KILLED)


def ordeal_of(played: Played) -> Ordeal:
    """What befell this voyage, which was no calm one."""
    assert isinstance(played.fate, Ordeal)
    return played.fate


def words(voyage: Voyage) -> list[dict[str, Any]]:
    """What Spark reported of itself in headquarters' log, in order of time."""
    return [dict(row.record.body or {}) for row in voyage.rows("hq", "metrics") if row.record.topic == "analytics"]


def delete_serving(voyage: Voyage) -> int:
    """Delete the serving database once there is something in it again; returns when that was, and that another has taken its place."""
    api, folder = voyage.api("operations"), voyage.fleet.folder / "serving"
    began_at_ms = voyage.clock()["fleet_at_ms"]
    until("days have gone by", lambda: voyage.clock()["fleet_at_ms"] > began_at_ms + 24 * 3_600_000)
    until("the database is whole", lambda: api.ask("/api/containers").is_success)
    at_ms = int(voyage.clock()["fleet_at_ms"])
    for file in folder.iterdir():
        file.unlink(missing_ok=True)
    until("another has taken its place", lambda: (folder / "serving.db").exists() and api.ask("/api/containers").is_success)
    return at_ms
