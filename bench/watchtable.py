"""`python -m bench.watchtable [quiet] [lossy] [--part PART] [--real FILE]`: the validation of the watch (`bench.watchdoc` shows it).

`quiet` voyages with every fault and no loss, and `lossy` voyages for each cause of losses: how many losses are found, how soon on the
bridge, and how often the watch cries wolf; then the same cases under other weights. Voyages that judge and voyages that calibrate are of
different seeds; readings of real devices (`--real`) are a table of their own. Prints Markdown; a run of exactly the
command that a table of `bench/results/watch` names also replaces it. One core, no time limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from bench.machine import machine
from bench.results import Measured, write
from bench.watchdoc import keep
from bench.watchreal import real_rows
from bench.watchrows import LOSS_HEAD, QUIET_HEAD, WEIGHTS_HEAD, curve, likelihoods, quiet_row, recall_row
from sim.mishaps import (
    Felt,
)
from sim.storms import Weather
from tests.support.watched_voyages import LOOK_ALIKES, WEATHERS, Seen, alike, lossy, quiet, watched

JUDGING, CALIBRATING = 20_000_000, 0
"""First seeds of the voyages that judge and of those that calibrate. A developer who looks into a judging voyage, to fix what it shows,
moves the judging voyages on to seeds that nobody has looked at. The seeds from 1,000,000, 3,000,000 and 10,000,000 on calibrate by now."""
CALIBRATION_HEAD = "| signal | lost boxes whose case has it | silent boxes aboard | log10 ratio | weight |"
PARTS = ("causes", "sizes", "quiet", "weights")
FELT: tuple[str, ...] = get_args(Felt)


def table(name: str, head: str, rows: Iterable[str], arguments: list[str]) -> None:
    """Print a table as it is made, and keep it where it is of this run's command."""
    columns = head.count("|") - 1
    print(f"\n{name}\n{head}\n|{'---|' * columns}", flush=True)
    made = []
    for row in rows:
        print(row, flush=True)
        made.append(row)
    keep(name, made, arguments)


def by_cause(
    count: int, severe: list[Seen], causes: Sequence[str] = FELT, weathers: Sequence[Weather] = WEATHERS, *, deaf: bool = False
) -> Iterator[str]:
    """The lines of the table by cause and weather; `severe` takes the voyages of severe and extreme weather. `deaf`: no tracker knows
    storm mode, roll calls, or of telling on after a blow."""
    for felt in causes:
        for weather in weathers:
            seen = [watched(lossy(JUDGING + n, weather, felt, deaf=deaf)) for n in range(count)]
            if weather in ("severe", "extreme"):
                severe.extend(seen)
            yield recall_row(f"{felt}, {weather}", seen)
    if severe:
        yield recall_row("**all of these in severe and extreme weather**", severe)


def by_size(count: int) -> Iterator[str]:
    """The lines of the table by size; of the largest a tenth as many, but two at least."""
    for boxes in (1, 3, 10, 50, 500):
        few = max(2, count // 10) if boxes == 500 else count
        yield recall_row(
            f"mixed, severe, {boxes} boxes", [watched(lossy(JUDGING + 500_000 + n, "severe", "mixed", boxes)) for n in range(few)]
        )


def by_look(count: int, alikes: int, quiets: list[Seen]) -> Iterator[str]:
    """The lines of the table without a loss; `quiets` takes the voyages with every fault."""
    quiets.extend(watched(quiet(JUDGING + n)) for n in range(count))
    for at, weather in enumerate(WEATHERS):
        yield quiet_row(f"every fault of devices, {weather}", [seen for n, seen in enumerate(quiets) if (JUDGING + n) % 4 == at])
    yield quiet_row("**every fault of devices, all**", quiets)
    for name in LOOK_ALIKES:
        yield quiet_row(name, [watched(alike(name, JUDGING + 600_000 + n)) for n in range(alikes)])


def goals(losses: Sequence[Seen], quiets: Sequence[Seen]) -> dict[str, Measured]:
    """Return the rows of the table of goals, of the voyages in severe and extreme weather and of those without a loss."""
    rows: dict[str, Measured] = {}
    if lost := sum(len(seen.lost) for seen in losses):
        detected = sum(len(seen.reported_at_ms.keys() & seen.lost.keys()) for seen in losses)
        rows["detected"] = Measured(f"{detected / lost:.1%}", detected >= 0.95 * lost)
    if quiets:
        crying = sum(bool(seen.false) for seen in quiets)
        rows["false_alarms"] = Measured(str(crying), crying == 0)
    return rows


def main() -> None:
    """Run what was asked for and print it. The other weights are checked against the voyages of the parts that were run."""
    parser = argparse.ArgumentParser(prog="python -m bench.watchtable", description=__doc__)
    parser.add_argument("quiet", type=int, nargs="?", default=1_000)
    parser.add_argument("lossy", type=int, nargs="?", default=30)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part, or these")
    parser.add_argument("--felt", choices=FELT, action="append", help="of the part `causes` this cause only, or these")
    parser.add_argument("--weather", choices=WEATHERS, action="append", help="and this weather only, or these")
    parser.add_argument(
        "--deaf", action="store_true", help="of the part `causes`: no tracker does as it is asked, or tells on after a blow"
    )
    parser.add_argument("--real", metavar="FILE")
    given = parser.parse_args()
    parts, began_s = given.part or PARTS, time.process_time()
    arguments = ["FILE" if word == given.real else word for word in sys.argv[1:]]
    losses: list[Seen] = []
    quiets: list[Seen] = []
    if "causes" in parts:
        rows = by_cause(given.lossy, losses, given.felt or FELT, given.weather or WEATHERS, deaf=given.deaf)
        table("deaf" if given.deaf else "causes", LOSS_HEAD, rows, arguments)
    if "sizes" in parts:
        table("sizes", LOSS_HEAD, by_size(given.lossy), arguments)
    if "quiet" in parts:
        table("quiet", QUIET_HEAD, by_look(given.quiet, given.lossy, quiets), arguments)
    write("watchtable", goals(losses, quiets), arguments)
    if "weights" in parts:
        losses = losses or [watched(lossy(JUDGING + n, WEATHERS[2 + n % 2], "mixed")) for n in range(given.lossy)]
        quiets = quiets or [watched(quiet(JUDGING + n)) for n in range(given.quiet)]
        table("weights", WEIGHTS_HEAD, curve(losses, quiets), arguments)
        own = [watched(quiet(CALIBRATING + n)) for n in range(given.quiet // 10)]
        own += [watched(lossy(CALIBRATING + n, WEATHERS[2 + n % 2], "mixed")) for n in range(2 * given.lossy)]
        table("calibration", CALIBRATION_HEAD, likelihoods(own), arguments)
    if given.real:
        table("real", "| readings | rows | PROBABLE |", real_rows(given.real), arguments)
    print(f"\nCPU {time.process_time() - began_s:.0f} s; {json.dumps(machine())}")


if __name__ == "__main__":
    main()
