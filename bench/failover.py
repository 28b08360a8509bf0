"""How long a program that follows a stream hears nothing when the port it reads from is killed: a distribution over many kills.

`python -m bench.failover [kills]`. Headquarters and two ports as processes on this machine; the program follows `containers` with
`landfall.connect` at both ports. A turn: 300 readings at headquarters; once the first has come, the port at hand is killed with SIGKILL
as 300 more are written; how long after the kill the first and the last record came (0: all were there). Then that port is started
again. In the end each record has come once, in order, or it fails. It reports every 50 kills and at the end; Ctrl-C ends it after the turn.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import landfall
from bench.machine import machine
from bench.results import Measured, write
from tests.support.fleet import Station, readings, stations
from tests.support.forked import FORKED

KILLS = 1_000
PRINTED_EVERY = 50
TOGETHER = 300
GOAL_S = 3.0
DEADLINE_S = 120.0


@dataclass(slots=True)
class Heard:
    """The offsets that the program was given, and when (monotone seconds)."""

    offsets: list[int] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)

    def listen(self, follower: landfall.StreamFollower) -> None:
        """Until it is closed."""
        for row in follower:
            self.at_s.append(time.monotonic())
            self.offsets.append(row["offset"])

    def wait(self, count: int) -> None:
        """Returns once so many have come."""
        until(lambda: len(self.offsets) >= count, f"{count} records have not come")


def until(true: Callable[[], bool], what: str) -> None:
    """Returns once it is so. Raises TimeoutError after DEADLINE_S."""
    began_s = time.monotonic()
    while not true():
        if time.monotonic() - began_s > DEADLINE_S:
            raise TimeoutError(what)
        time.sleep(0.002)


def distribution(name: str, took_s: list[float]) -> str:
    """The distribution of `took_s`, and how many were longer than the goal."""
    cuts = statistics.quantiles(took_s, n=1_000, method="inclusive")
    parts = [f"{word} {cuts[at]:.3f}" for word, at in (("p10", 99), ("p50", 499), ("p90", 899), ("p99", 989), ("p99.9", 998))]
    parts += [f"most {max(took_s):.3f}; more than {GOAL_S:.0f} s: {sum(seconds > GOAL_S for seconds in took_s)} of {len(took_s)}"]
    return f"  {name}, s: least {min(took_s):.3f}, {', '.join(parts)}"


class Kills:
    """One run: `first_s` and `last_s` are seconds from each kill to the first and the last of what was written then."""

    def __init__(self, folder: Path) -> None:
        self.hq = Station("hq", folder, {})
        self.ports = {one.url: one for one in (Station(name, folder, {"hq": self.hq.url}) for name in ("tokyo", "singapore"))}
        self.heard = Heard()
        self.first_s: list[float] = []
        self.last_s: list[float] = []
        self._over = False

    def run(self, kills: int) -> None:
        """Until so many, or Ctrl-C. Raises AssertionError for a record that is missing, or came twice."""
        signal.signal(signal.SIGINT, lambda *_: setattr(self, "_over", True))
        nodes = (self.hq, *self.ports.values())
        with stations(*nodes):
            until(lambda: all(node.ready() for node in nodes), "the nodes are not up")
            doors = [landfall.NodeDoor(port.url, f"door-of-{port.name}") for port in self.ports.values()]
            follower = landfall.connect(doors).follow("containers")
            listening = threading.Thread(target=self.heard.listen, args=(follower,), daemon=True)
            listening.start()
            while len(self.last_s) < kills and not self._over:
                self._turn(follower)
                if len(self.last_s) % PRINTED_EVERY == 0:
                    self.print_figures()
            follower.close()
            listening.join(DEADLINE_S)
        assert self.heard.offsets == list(range(2 * TOGETHER * len(self.last_s))), "a record is missing, came twice, or out of order"

    def _turn(self, follower: landfall.StreamFollower) -> None:
        first = 2 * TOGETHER * len(self.last_s)
        self.hq.writer.append([readings(first, TOGETHER)])
        self.heard.wait(first + 1)
        at_hand = self.ports[follower.node]
        self.hq.writer.append([readings(first + TOGETHER, TOGETHER)])
        killed_s = time.monotonic()
        at_hand.kill()
        self.heard.wait(first + 2 * TOGETHER)
        later = [at_s - killed_s for at_s in self.heard.at_s[first : first + 2 * TOGETHER] if at_s > killed_s] or [0.0]
        self.first_s.append(later[0])
        self.last_s.append(later[-1])
        at_hand.start()
        until(at_hand.ready, "it is not up again")

    def print_figures(self) -> None:
        """What was measured so far."""
        print(f"{len(self.last_s)} kills", distribution("first record after the kill", self.first_s), sep="\n")
        print(distribution("all that was written by then", self.last_s), flush=True)


def main() -> None:
    """Measures and prints."""
    words = argparse.ArgumentParser(description="The time to resume of a program whose port is killed.")
    words.add_argument("kills", nargs="?", type=int, default=KILLS)
    asked = words.parse_args()
    FORKED.set_forkserver_preload(["__main__", "tests.support.fleet"])  # a start takes a fifth of the time
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Kills(Path(folder))
        run.run(asked.kills)
        print(f"{len(run.last_s)} kills of {asked.kills}: each of {len(run.heard.offsets):,} records came once, in order")
        run.print_figures()
    if len(run.last_s) == asked.kills:
        figure = f"p50 {statistics.median(run.first_s):.2f}, longest {max(run.first_s):.2f} s; none"
        write("failover", {"resumed": Measured(figure, max(run.first_s) <= GOAL_S)})


if __name__ == "__main__":
    main()
