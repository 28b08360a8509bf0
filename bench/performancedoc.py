"""`docs/performance.md`, written from the rows of `bench/results`: `python -m bench.performancedoc`."""

from __future__ import annotations

from bench.results import FOLDER, Row, read_rows
from landfall.docs.markdown_tables import table

TARGET = FOLDER.parents[1] / "docs" / "performance.md"
AREAS = ("Log", "Sync", "Watch", "Intake", "Headquarters", "Simulator, demo, tests")
"""The order of the table."""
COLUMNS = ("area", "measure", "goal", "figure", "outcome", "peer or bound", "command", "commit", "date (UTC)", "machine and load")
_HEAD = """# Performance

Each row is a goal with its newest figure. This page is written by `python -m bench.performancedoc` from `bench/results`; a test checks
it. The benches write those files.

## How to run
* `make bench` runs every bench in a short size. `make bench ARGS="link codec"` runs some of them.
* A full run is the command of a row, after `python -m`: for example `python -m bench.log 2000 150`. Nothing else may run meanwhile.
* A run of exactly that command renews its rows in `bench/results`. A run in another size changes no row.
* Then run `python -m bench.performancedoc`, and commit both files.
* The docstring of each bench says what it measures and what it compares with.
* `python -m bench.watchtable` also writes the [validation of the watch](reference/watch-validation.md).

## How to read
* A row is about its commit. Later code may be quicker or slower. `with changes` marks a working copy that was not committed.
* The load is the machine's average of the last minute, on two cores. It includes the bench itself.
* *Busy*: other work took much of the two cores. Rates are then too low and times too long. Bytes do not depend on the load.
* Peers and bounds are measured in the same run, unless their date says otherwise. Compare the ratio first, then the rate.
* Kafka's MirrorMaker was measured until 2026-11-24.
* CPU time is of one core. It depends less on other work than wall time does.
* Several figures for one measure, separated by commas, are repeated runs. Semicolons separate different measures.
* "By its functions" and "by hand": the figure was measured by a call of the bench's functions, not by the whole command.

Peers: Mosquitto 2.0.11, NATS 2.15.1, Kafka 4.3.1. Linux 6.18, Python 3.11, OpenJDK 17. The disk is virtual: `fdatasync` of 512 B took
11.7 ms at p99 in the first runs.
"""
_TAIL = """
## Not measured
* `bench.spark`, and `bench.voyage` at real time, on later code than 2026-11-21, and on a quiet machine.
* `bench.codec`, `bench.reading` and `bench.log` on later code than 2026-11-22.
* 10,000 kills of the log ([fault tests](torture.md#what-is-not-covered)).
* On a quiet machine: 1,000,000 topics compared with 1,000 over 4 M readings each, and the slow link with peers.
* Every rule judged at the endpoint since a012cf9, on a quiet machine.
* `bench.brokered`, and `bench.mqtt` behind a broker, since the broker subscription uses paho as documented (3c073315).
* Floods at a broker.
* A broker with readings of the present: those of `bench.brokered` are months old, which costs the intake more and the watch less.
* The effect of a flood of pings on an honest client.
"""


def page() -> str:
    """Return the whole page, in Markdown."""
    rows = [row for file in sorted(FOLDER.glob("*.json")) for row in read_rows(file.stem)]
    rows.sort(key=lambda row: AREAS.index(row.area))
    machines = sorted({row.machine for row in rows})
    named = "".join(f"* M{number}: {machine}\n" for number, machine in enumerate(machines, 1))
    goals = table(COLUMNS, (_cells(row, machines) for row in rows))
    return f"{_HEAD}\nMachines:\n\n{named}\n## Goals\n{goals}{_TAIL}"


def _cells(row: Row, machines: list[str]) -> list[str]:
    where = ", ".join(filter(None, (f"M{machines.index(row.machine) + 1}", row.conditions)))
    outcome = row.outcome.replace("missed", "**missed**")
    return [row.area, row.measure, row.goal, row.figure, outcome, row.peer, f"`{row.command}`", row.commit, row.date, where]


if __name__ == "__main__":
    TARGET.write_text(page())
