"""Goal: ship, port and headquarters, each killed at every commit point it passes, the ship's link cut meanwhile: everything once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from shore.ship_feed import ShipsDesk
from tests.node.points import NODES
from tests.shore.fleet import Fleet, fleet
from tests.support.ports import free_port
from tests.support.process import wait
from tests.support.proxy import Proxy
from tests.support.sea import SHIP

LIVES = {"ship": NODES["ship"], "tokyo": NODES["port"], "hq": NODES["headquarters"]}
ABOARD = f"aboard/{SHIP}"
EVERYWHERE = ("containers", "ships", "events", "alerts", ABOARD)
CUT_AFTER_BYTES, SOON_BYTES = 3_000, 500
CUTS_MIN = 3
LIFE_S = 180.0

Row = tuple[str, int, str]


def live(all_: Fleet, name: str, point: str, round_: int) -> None:
    """One process lives until it passes this point, all the others going on; then it is started again."""
    process = all_.processes[name]
    process.kill()
    process.start(f"{point}:1")
    all_.feed(round_)
    wait(lambda: process.dead() or all_.write(), all_.tails, LIFE_S)
    wait(process.dead, all_.tails, LIFE_S)
    process.start()


def wait_for_a_cut(all_: Fleet, proxy: Proxy, before: int) -> None:
    """Until the link has been cut more often than `before`."""
    wait(lambda: proxy.cuts > before, all_.tails, LIFE_S)


def cut_often(all_: Fleet, proxy: Proxy, round_: int) -> None:
    """A last round, and more where a kill came before the link was cut in the middle of a transfer, until that has been so often enough."""
    all_.feed(round_)
    while (cuts := proxy.cuts) < CUTS_MIN:
        proxy.cut_after_bytes = proxy.carried_bytes + SOON_BYTES
        round_ += 1
        all_.feed(round_)
        wait_for_a_cut(all_, proxy, cuts)


def published(all_: Fleet, where: str) -> list[Row]:
    """What was said there, as the log names it."""
    rows = []
    for topic, payload in all_.said[where]:
        fields = json.loads(payload)
        _, kind, thing, what = topic.split("/")
        signals = {name: value for name, value in fields.items() if name not in ("at", "device")}
        rows.append((thing if kind == "containers" else f"{thing}.{what}", fields["at"], json.dumps(signals, sort_keys=True)))
    return sorted(rows)


def read(rows: list[dict[str, Any]]) -> list[Row]:
    return sorted((row["topic"], row["device_at_ms"], json.dumps(row["signals"], sort_keys=True)) for row in rows)


def lacking(all_: Fleet) -> str:
    """What is not yet acknowledged, judged, forwarded, and at every node that may have it; nothing when all is."""
    if not all_.write():
        return "headquarters lacks papers"
    if waiting := [name for name, gateway in all_.gateways.items() if not gateway.done()]:
        return f"not acknowledged: {waiting}"
    if not all(process.ready() for process in all_.processes.values()):
        return "a node is not ready"
    counts = {name: {stream: sum(one.read.position(stream).values()) for stream in EVERYWHERE} for name, one in all_.processes.items()}
    hq, tokyo, ship = counts["hq"], counts["tokyo"], counts["ship"]
    said = sum(len(messages) for messages in all_.said.values())
    there = hq == tokyo and ship[ABOARD] == hq[ABOARD] == len(aboard(all_)) and hq["containers"] + hq["ships"] == said
    return "" if there and judged(all_) else f"{said} readings said, {len(aboard(all_))} papers to tell; judged: {judged(all_)}; {counts}"


def judged(all_: Fleet) -> bool:
    """Whether the watches of ship and quay stand at the end of what their own nodes took in."""
    for name in ("ship", "tokyo"):
        process = all_.processes[name]
        told = {row["topic"]: row["body"]["position"] for row in process.rows("consumers")}
        for stream in ("containers", "ships"):
            own = {str(origin): end for origin, end in process.read.position(stream).items() if origin.node == process.node}
            if any(told.get(f"watch/{stream}", {}).get(origin, 0) < end for origin, end in own.items()):
                return False
    return True


def aboard(all_: Fleet) -> list[str]:
    """What the ship is to be told of all that the clerk wrote, each thing once, in order."""
    desk = ShipsDesk()
    return [f"{told.topic} v{told.version}" for entry in all_.entries for imo, told in desk.take(entry) if imo == SHIP]


def check(all_: Fleet) -> None:
    """Each reading once, field by field, and everywhere the same; each event, each state of an alert and each paper once."""
    rows = {name: {stream: process.rows(stream) for stream in EVERYWHERE} for name, process in all_.processes.items()}
    at_hq = rows["hq"]
    assert rows["tokyo"] == at_hq
    assert read(at_hq["containers"] + at_hq["ships"]) == sorted(published(all_, "ship") + published(all_, "tokyo"))
    assert read(rows["ship"]["containers"] + rows["ship"]["ships"]) == published(all_, "ship")
    for stream in ("containers", "ships", "events", "alerts"):
        own = {json.dumps(row, sort_keys=True) for row in rows["ship"][stream]}
        assert own <= {json.dumps(row, sort_keys=True) for row in at_hq[stream]}
    assert [f"{row['topic']} v{row['body']['version']}" for row in at_hq[ABOARD]] == aboard(all_)
    assert rows["ship"][ABOARD] == at_hq[ABOARD]
    for stream, id_ in (("alerts", "alert_id"), ("events", "event_id")):
        ids = [(row["body"][id_], row["body"].get("state")) for row in at_hq[stream]]
        assert len(set(ids)) == len(ids)
    struck = [message for messages in all_.said.values() for message in messages if b"shock_g" in message[1]]
    assert len([row for row in at_hq["events"] if row["body"]["event"] == "X_SHOCK"]) == len(struck)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_each_process_killed_at_every_commit_point(tmp_path: Path) -> None:
    port = free_port()
    proxy = Proxy(port)
    cable = await proxy.start()
    with fleet(tmp_path, port, cable) as all_:
        lives = [(name, point) for name, points in LIVES.items() for point in points]
        for round_, (name, point) in enumerate(lives):
            proxy.cut_after_bytes = proxy.carried_bytes + CUT_AFTER_BYTES
            await asyncio.to_thread(live, all_, name, point, round_)
        await asyncio.to_thread(cut_often, all_, proxy, len(lives))
        await asyncio.to_thread(wait, lambda: not lacking(all_), lambda: lacking(all_) + all_.tails(), LIFE_S)
        await asyncio.to_thread(check, all_)
        assert proxy.cuts >= CUTS_MIN
        assert [await asyncio.to_thread(process.stop) for process in all_.processes.values()] == [0, 0, 0]
    await proxy.stop()
