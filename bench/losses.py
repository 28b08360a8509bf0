"""What an MQTT server loses of what it acknowledged, killed or its power cut at any instant: ours, Mosquitto and NATS in one run.

`python -m bench.losses [--kills N] [--cuts N] [--readings N] [--seed N] [name …]`. A publisher at QoS 1 sends readings; at a random
instant the server gets SIGKILL, or its disk loses power (`tests/support/powercut.py`: needs root) and then it does, and now and then once
more while it starts; started again, it goes on, and so does the publisher with what was not acknowledged. At the end each acknowledged
reading is looked for: in the log of a ship's node, of a pair in either's, at NATS in the stream of its MQTT messages, at Mosquitto with a
subscriber whose persistent session was away. Then a backlog of 5,000 without any fault. Prints a table and one JSON object,
with the versions of the others' servers.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.lossbehind import struck_pair_behind
from bench.losspair import struck_pair
from bench.losspublisher import Publisher
from bench.machine import machine
from bench.mqttservers import BEST, EACH_CHANGE, Before, Behind, Server, Ship, mosquitto, nats, versions
from bench.results import Measured, write
from bench.tally import Tally
from tests.support.forked import FORKED, LOADED
from tests.support.powercut import CutDisk

SERVERS: dict[str, tuple[str, Callable[[Path], Server]]] = {
    "landfall": ("Landfall, endpoint", Ship),
    "landfall-behind": ("Landfall subscribed at Mosquitto, Landfall struck", Behind),
    "landfall-before": ("Landfall subscribed at Mosquitto, Mosquitto struck", Before),
    "mosquitto": ("Mosquitto, default", lambda folder: mosquitto(folder, "")),
    "mosquitto-best": ("Mosquitto, best: no limits, saved each second", lambda folder: mosquitto(folder, BEST)),
    "mosquitto-each": ("Mosquitto, the same, saved at each change", lambda folder: mosquitto(folder, EACH_CHANGE)),
    "nats": ("NATS with MQTT, default", lambda folder: nats(folder, "")),
    "nats-always": ("NATS with MQTT, `sync_interval: always`", lambda folder: nats(folder, "sync_interval: always")),
}
READINGS = 3_000
"""Of one strike: acknowledged readings at most."""
STARTING, STARTING_S_MAX = 5, 0.5
"""Each fifth strike falls into the server's start, so long after it was begun at most."""
STRUCK_WITHIN_S = 0.02
"""So long at most after the last acknowledgement that is waited for a strike falls."""
BACKLOG = 5_000
GOALS = ("landfall-pair", "landfall", "landfall-behind")
"""The servers in the table of goals."""
PAIRS: dict[str, tuple[str, Callable[..., Tally]]] = {
    "landfall-pair": ("Landfall, two nodes; either's disk alone", struck_pair),
    "landfall-pair-behind": (
        "Landfall, two nodes behind Mosquitto, they struck; either's disk alone",
        partial(struck_pair_behind, broker_too=False),
    ),
    "landfall-pair-before": (
        "Landfall, two nodes behind Mosquitto, it struck too: what they acknowledged to it; either's disk alone",
        partial(struck_pair_behind, broker_too=True),
    ),
}


@dataclass(frozen=True, slots=True)
class Torture:
    """How often a server is killed and its disk's power cut, and how many readings are acknowledged, at most, before each."""

    kills: int
    cuts: int
    readings: int


def struck(make: Callable[[Path], Server], folder: Path, torture: Torture, chance: random.Random, *, cutting: bool) -> Tally:
    """What a server lost by so many strikes, one after another, on one disk."""
    with ExitStack() as stack:
        disk = stack.enter_context(CutDisk(folder)) if cutting else None
        folder.mkdir(parents=True, exist_ok=True)
        server, publisher = make(folder), Publisher()
        stack.callback(server.end)
        stack.callback(server.kill)
        server.start()

        def strike_it() -> None:
            time.sleep(chance.random() * STRUCK_WITHIN_S)
            if disk is not None:
                disk.cut()
            server.kill()

        strikes = torture.cuts if cutting else torture.kills
        for strike in range(strikes):
            if strike % STARTING == STARTING - 1:
                server.kill()
                server.launch()
                time.sleep(chance.random() * STARTING_S_MAX)
                strike_it()
            else:
                publisher.publish(server.port, torture.readings, chance.randrange(1, torture.readings), strike=strike_it)
            if disk is not None:
                disk.back()
            server.start()
            server.fetch()
        found = server.found()
        lost = publisher.acknowledged - found.keys()
        return Tally(strikes, len(publisher.acknowledged), len(lost), sum(1 for count in found.values() if count > 1))


def backlogged(make: Callable[[Path], Server], folder: Path) -> Tally:
    """What a server lost of a backlog that nobody fetched meanwhile, without any fault."""
    folder.mkdir(parents=True)
    server, publisher = make(folder), Publisher()
    try:
        server.start()
        publisher.publish(server.port, BACKLOG, BACKLOG, per_s=1e9)
        server.fetch()
        found = server.found()
    finally:
        server.kill()
        server.end()
    return Tally(0, BACKLOG, len(publisher.acknowledged - found.keys()), sum(1 for count in found.values() if count > 1))


def table_cell(tally: Tally | None) -> str:
    """A cell of the table."""
    if tally is None:
        return "–"
    share = f" ({100 * tally.lost / tally.acknowledged:.1f} %)" if tally.lost else ""
    again = f", {tally.twice:,} brought twice" if tally.twice else ""
    return f"{tally.lost:,} of {tally.acknowledged:,}{share}{again}"


def name_of(server: str) -> str:
    """What it is called in the table."""
    return (PAIRS[server] if server in PAIRS else SERVERS[server])[0]


def measured(server: str, folder: Path, torture: Torture, chance: random.Random) -> dict[str, Tally | None]:
    """All three columns of one server; of a pair, the first two."""
    if server in PAIRS:
        strikes_at = PAIRS[server][1]
        return {
            "kills": strikes_at(folder / "killed", torture.kills, chance, cutting=False) if torture.kills else None,
            "cuts": strikes_at(folder / "cut", torture.cuts, chance, cutting=True) if torture.cuts else None,
            "backlog": None,
        }
    make = SERVERS[server][1]
    return {
        "kills": struck(make, folder / "killed", torture, chance, cutting=False) if torture.kills else None,
        "cuts": struck(make, folder / "cut", torture, chance, cutting=True) if torture.cuts else None,
        "backlog": backlogged(make, folder / "backlog"),
    }


def rows(results: dict[str, dict[str, Tally | None]]) -> Iterable[str]:
    """The table, in Markdown."""
    yield "| server | SIGKILL: acknowledged and lost | power cut: acknowledged and lost | a backlog without any fault |"
    yield "|---|---|---|---|"
    for name, tallies in results.items():
        yield f"| {name_of(name)} | " + " | ".join(table_cell(tallies[kind]) for kind in ("kills", "cuts", "backlog")) + " |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.losses", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join((*PAIRS, *SERVERS))}; all when none is named")
    parser.add_argument("--kills", type=int, default=3, help="SIGKILLs of each server (3)")
    parser.add_argument("--cuts", type=int, default=3, help="power cuts of each server's disk (3); 0 where nothing may be mounted")
    parser.add_argument("--readings", type=int, default=READINGS, help=f"acknowledged before each, at most ({READINGS:,}); not of the pair")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    FORKED.set_forkserver_preload(list(LOADED))
    torture = Torture(given.kills, given.cuts, given.readings)
    results: dict[str, dict[str, Tally | None]] = {}
    with tempfile.TemporaryDirectory() as name:
        for server in given.names or (*PAIRS, *SERVERS):
            chance = random.Random(f"{given.seed} {server}")
            (folder := Path(name) / server).mkdir()
            results[server] = measured(server, folder, torture, chance)
            print(f"{server}: {json.dumps({kind: tally and asdict(tally) for kind, tally in results[server].items()})}", flush=True)
    print("\n".join(rows(results)))
    print(json.dumps({"machine": machine(), "versions": versions(), **asdict(torture), "seed": given.seed}))
    if not given.names:
        ours = {name: (tallies["kills"], tallies["cuts"]) for name, tallies in results.items() if name in GOALS}
        strikes = "; ".join(" and ".join(table_cell(tally) for tally in ours[name]) for name in GOALS)
        write("losses", {"strikes": Measured(strikes, not any(tally.lost for pair in ours.values() for tally in pair if tally))})


if __name__ == "__main__":
    main()
