"""Links without a limit: how soon a backlog is ashore, what meeting again costs, and what a ring of five nodes sends."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.duel.frames import Talk, Tap
from bench.duel.nodes import LOCODES, Dial, StationNode, rests
from bench.duel.side import Given, Shoreward, Side, wait_until
from bench.machine import machine
from bench.proc import cpu_s, peak_mib
from bench.readings import fleet_readings
from tests.support.proxy import LoopThread, Proxy, Shape

ASHORE_S_MAX, RESTS_S_MAX = 1_200.0, 1_800.0
ROUND_TRIP_S = 0.6
TOPICS_A_PART = 50_000
LIVE_READINGS = 500
ReportProgress = Callable[[str], None]


def catching_up(side: Side, given: Given, thread: LoopThread, report: ReportProgress) -> dict[str, Any]:
    """From the moment the side's link is opened until all of it can be read at headquarters; the memory both ends took meanwhile,
    and the receiver's after it, until it rests."""
    link = Shoreward(thread, side.proxy, side.shoreward_is_out)
    thread.wait(side.proxy.reserve())
    figures: dict[str, Any] = {"machine": machine(), "readings": given.readings}
    try:
        figures["side"] = side.start()
        side.load(given)
        report(f"{side.name}: {given.readings:,} readings are aboard")
        processes = side.processes()
        for process in processes.values():
            Path(f"/proc/{process}/clear_refs").write_text("5")  # the peak from now on
        used_s = {name: cpu_s(process) for name, process in processes.items()}
        link.up()
        wait_until(lambda: side.arrived() >= given.readings, "all of it is ashore", ASHORE_S_MAX)
        ended_s = time.monotonic()
        opened_s = next(
            connection.opened_s
            for connection in side.proxy.connections
            if connection.out.given_bytes + connection.back.given_bytes > 10_000
        )
        figures |= {
            "seconds": round(ended_s - opened_s, 2),
            "readings_s": round(given.readings / (ended_s - opened_s)),
            "cpu_us": {name: round((cpu_s(pid) - used_s[name]) / given.readings * 1e6, 2) for name, pid in processes.items()},
            "memory_peak_mib": {name: peak_mib(pid) for name, pid in processes.items()},
            "bytes_reading": round(link.all_bytes() / given.readings, 2),
        }
        wait_until(lambda: rests(processes["shore"]), "the receiver rests", RESTS_S_MAX)
        figures["shore_memory_peak_after_mib"] = peak_mib(processes["shore"])
        figures |= asdict(side.compared(given))
    finally:
        side.stop()
        thread.wait(side.proxy.stop())
    return figures


def meeting(folder: Path, topics: int, thread: LoopThread) -> dict[str, Any]:
    """Two nodes that have the same of so many topics are cut and meet again: what is said after the upgrade, and how long it takes."""
    shape, tap = Shape(delay_s=ROUND_TRIP_S / 2), Tap()
    with ExitStack() as running:
        tokyo = StationNode("tokyo", folder)
        proxy = Proxy(tokyo.port)
        thread.wait(proxy.start())
        running.callback(_stopped, thread, proxy)
        hq = StationNode("hq", folder, [Dial("tokyo", proxy.port)])
        for node in (tokyo, hq):
            running.callback(node.stop)
            node.start()
        for seed, first in enumerate(range(0, topics, TOPICS_A_PART)):
            hq.append("containers", fleet_readings(min(TOPICS_A_PART, topics - first), 1, seed=seed))
        wait_until(lambda: tokyo.held() >= topics, "both have all", ASHORE_S_MAX)
        for node in (tokyo, hq):
            wait_until(node.rests, f"{node.name} rests", RESTS_S_MAX)
        thread.soon(proxy.reshape, shape)
        proxy.ear = tap
        thread.soon(proxy.cut)
        wait_until(lambda: any(_settled(talk) for talk in list(tap.talks.values())), "they have met again", ASHORE_S_MAX)
        talk = next(talk for talk in tap.talks.values() if _settled(talk))
        assert talk.upgraded_s is not None
        last = talk.said[-1]
        return {
            "machine": machine(),
            "topics": topics,
            "said": [("there" if one.outward else "back", one.kind) for one in talk.said],
            "bytes_after_upgrade": last.carried_bytes,
            "round_trips_after_upgrade": round((last.given_s - talk.upgraded_s) / ROUND_TRIP_S, 2),
        }


def _settled(talk: Talk) -> bool:
    """Nothing more was said for three round trips."""
    return bool(talk.said) and talk.upgraded_s is not None and time.monotonic() - talk.said[-1].given_s > 3 * ROUND_TRIP_S


def _stopped(thread: LoopThread, proxy: Proxy) -> None:
    thread.wait(proxy.stop())


def ring(folder: Path, readings: int, thread: LoopThread) -> dict[str, Any]:
    """Readings appended at one of five nodes in a ring, LIVE_READINGS at a time: what blocks took on all links, of the least there is."""
    names = [*LOCODES, "hq"]
    with ExitStack() as running:
        nodes = {name: StationNode(name, folder) for name in names}
        taps = {}
        for name, after in zip(names, [*names[1:], names[0]], strict=True):
            proxy = Proxy(nodes[after].port)
            proxy.ear = taps[name] = Tap()
            thread.wait(proxy.start())
            running.callback(_stopped, thread, proxy)
            nodes[name].dials = [Dial(after, proxy.port)]
        for node in nodes.values():
            running.callback(node.stop)
            node.start()
        wait_until(lambda: all(len(node.health()["peers"]) == 2 for node in nodes.values()), "all have met", RESTS_S_MAX)
        given = fleet_readings(1_000, -(-readings // 1_000)).slice(0, readings)
        for at in range(0, readings, LIVE_READINGS):
            nodes[names[0]].append("containers", given.slice(at, LIVE_READINGS))
        wait_until(lambda: all(node.held() >= readings for node in nodes.values()), "all have all", ASHORE_S_MAX)
        sent = sum(tap.stream_bytes.get("containers", 0) for tap in taps.values())
        once = max(tap.distinct_bytes("containers") for tap in taps.values())
        return {
            "machine": machine(),
            "readings": readings,
            "nodes": len(names),
            "block_bytes_sent": sent,
            "least_block_bytes": once * (len(names) - 1),
            "of_least": round(sent / (once * (len(names) - 1)), 3),
        }
