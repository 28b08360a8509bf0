"""`python -m bench.duel [part [sizes …] …] [side …]` compares our sync with the sync of other programs in one run.

All sides send the same readings through the same proxy.

Parts, with their sizes and what they are by default; all parts, one after another, when none is named:

    link [quiet_s=45] [alerts_s=150] [cuts=3]    128 kbit/s, 600 ms round trip, 5 s of each minute cut
    loopback [readings=2400000] [peers' readings=50000]    a backlog of 10,000 boxes without any limit
    meeting [topics=100000]     meeting again with nothing new, 600 ms round trip (ours alone)
    cycle [readings=30000]     five nodes in a ring (ours alone)

The phases of the link alone are 25 minutes, the same 375 s for each side. Sides: landfall, nats, mosquitto; all unless some are
named. Every peer takes one message a reading, its JSON, as sensors publish it. Prints what is done to standard error, one JSON object at
the end.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.duel.goals import goals
from bench.duel.mosquittobridge import MosquittoBridge
from bench.duel.natsleaf import NatsLeaf
from bench.duel.ours import Ours
from bench.duel.side import Given, Side, folder_of
from bench.duel.slowlink import RATE_BIT_S, Plan, slow_link
from bench.duel.unlimited import catching_up, meeting, ring
from bench.machine import machine
from bench.results import write
from tests.support.proxy import LoopThread

OWN_RATE_BIT_S = RATE_BIT_S - 1_000
"""Rate that our ship is configured to keep below, bit/s: a little less than that of the link, whose own queue then stays empty."""
SLOW: dict[str, Callable[[Path], Side]] = {
    "landfall": lambda folder: Ours(folder, "satellite", OWN_RATE_BIT_S),
    "nats": NatsLeaf,
    "mosquitto": MosquittoBridge,
}
UNLIMITED = SLOW | {"landfall": lambda folder: Ours(folder, "lan", sender="hq", receiver="tokyo")}


def print_progress(words: str) -> None:
    """To standard error."""
    print(words, file=sys.stderr, flush=True)


def link(sizes: list[int], named: list[str], folder: Path) -> dict[str, Any]:
    """Every side over the slow link."""
    quiet_s, alerts_s, cuts = (*sizes, *(45, 150, 3)[len(sizes) :])
    figures, thread = {}, LoopThread("link")
    for name in named or SLOW:
        figures[name] = slow_link(SLOW[name](folder_of(folder, f"link-{name}")), Plan(quiet_s, alerts_s, cuts), thread, print_progress)
        print_progress(json.dumps({name: figures[name]}))
    thread.close()
    return figures


def loopback(sizes: list[int], named: list[str], folder: Path) -> dict[str, Any]:
    """Every side without any limit."""
    own, peers = (*sizes, *(2_400_000, 50_000)[len(sizes) :])
    figures, thread = {}, LoopThread("loopback")
    for name in named or UNLIMITED:
        given = Given(own if name == "landfall" else peers)
        figures[name] = catching_up(UNLIMITED[name](folder_of(folder, f"loopback-{name}")), given, thread, print_progress)
        print_progress(json.dumps({name: figures[name]}))
    thread.close()
    return figures


def met(sizes: list[int], _: list[str], folder: Path) -> dict[str, Any]:
    """Ours meeting again."""
    thread = LoopThread("meeting")
    figures = meeting(folder_of(folder, "meeting"), (*sizes, 100_000)[0], thread)
    thread.close()
    return figures


def cycle(sizes: list[int], _: list[str], folder: Path) -> dict[str, Any]:
    """Ours in a ring."""
    thread = LoopThread("cycle")
    figures = ring(folder_of(folder, "cycle"), (*sizes, 30_000)[0], thread)
    thread.close()
    return figures


PARTS: dict[str, Callable[[list[int], list[str], Path], dict[str, Any]]] = {
    "link": link,
    "loopback": loopback,
    "meeting": met,
    "cycle": cycle,
}


def main() -> None:
    """Measures and prints. Asked to end, it ends what it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sizes: dict[str, list[int]] = {}
    named: list[str] = []
    for word in sys.argv[1:]:
        if word in PARTS:
            sizes[word] = []
        elif word in SLOW:
            named.append(word)
        elif word.isdigit() and sizes:
            sizes[list(sizes)[-1]].append(int(word))
        else:
            raise SystemExit(f"no part, no side, no part's size: {word}\n{__doc__}")
    figures: dict[str, Any] = {"bench": "duel", **machine()}
    with tempfile.TemporaryDirectory(prefix="bench-duel-") as name:
        for part in sizes or PARTS:
            figures[part] = PARTS[part](sizes.get(part, []), named, Path(name))
    print(json.dumps({**figures, "load_at_end": machine()["load_1_min"]}, indent=1))
    write("duel", goals(figures))


if __name__ == "__main__":
    main()
