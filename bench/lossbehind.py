"""Two nodes of one ship, `ack = two_nodes`, that share a subscription at a Mosquitto, struck again and again: one or both killed or without
power, now and then a disk gone, and with `broker_too` the broker, and its disk, struck with them, before them or alone."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson

from bench.brokered import Tap, behind_broker, ships
from bench.losspair import DISK_MIB, STARTED_WITHIN_S, Strikes
from bench.losspublisher import Publisher
from bench.mqttservers import BEST, TOPIC, mosquitto, number_of
from bench.tally import Tally
from tests.support.powercut import CutDisk
from tests.support.two_nodes import ShipNode

PER_STRIKE, QUIET_S, ALL_S_MAX = 200, 15.0, 120.0
"""Readings that the broker acknowledges, at most, before the next strike; for how long nodes say nothing who have nothing to say; and how
long it may take in the end until all are there."""
HEAD = len(TOPIC).to_bytes(2) + TOPIC.encode()


class Promised:
    """What each node acknowledged to the broker, seen by a relay between them."""

    def __init__(self, broker_port: int) -> None:
        self.acknowledged: set[int] = set()
        self._tap = Tap(broker_port, _reading_number, self.acknowledged.add)
        self.port = self._tap.port

    def wait_for_more(self, count: int) -> None:
        """Returns once so many more are acknowledged, or nothing is for QUIET_S: the broker has lost them, or the nodes had them before."""
        wanted = len(self.acknowledged) + count
        before, since_s = -1, time.monotonic()
        while (there := len(self.acknowledged)) < wanted and time.monotonic() - since_s < QUIET_S:
            if there > before:
                before, since_s = there, time.monotonic()
            time.sleep(0.001)

    @contextmanager
    def relaying(self) -> Iterator[None]:
        """The relay runs, in a thread of its own."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        asyncio.run_coroutine_threadsafe(self._tap.__aenter__(), loop).result()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()


def struck_pair_behind(folder: Path, strikes: int, chance: random.Random, *, cutting: bool, broker_too: bool) -> Tally:
    """What was acknowledged and is not on both disks in the end, each read alone: by the broker to the sensors, or with `broker_too`, which
    loses what it will, by the nodes to the broker."""
    with ExitStack() as stack:
        disks = [stack.enter_context(CutDisk(folder / name, DISK_MIB)) for name in ("bridge", "engine")] if cutting else []
        its_disk = stack.enter_context(CutDisk(folder / "broker", DISK_MIB)) if cutting and broker_too else None
        (folder / "broker").mkdir(parents=True, exist_ok=True)
        broker, publisher = mosquitto(folder / "broker", BEST), Publisher()
        broker.start()
        stack.callback(broker.kill)
        promised = Promised(broker.port)
        stack.enter_context(promised.relaying())
        nodes = behind_broker(folder, 2, promised.port)
        stack.enter_context(ships(nodes, STARTED_WITHIN_S))
        acknowledger = promised if broker_too else publisher
        on_nodes, alone = Strikes(nodes, disks, acknowledger, chance), 0

        def strikes_fall() -> None:
            nonlocal alone
            if broker_too:
                promised.wait_for_more(1 + chance.randrange(PER_STRIKE // 4))
            struck = chance.choice(("broker", "nodes", "both")) if broker_too else "nodes"
            if struck != "nodes":
                if its_disk is not None:
                    its_disk.cut()
                broker.kill()
                alone += struck == "broker"
            if struck != "broker":
                on_nodes.fall()
            if struck != "nodes":
                if its_disk is not None:
                    its_disk.back()
                broker.start()

        while on_nodes.fallen + alone < strikes:
            publisher.publish(broker.port, PER_STRIKE, chance.randrange(1, PER_STRIKE), strike=strikes_fall)
        publisher.publish(broker.port, PER_STRIKE, PER_STRIKE)
        promised.wait_for_more(PER_STRIKE)
        acknowledged = frozenset(acknowledger.acknowledged)
        lost = {number for node in nodes for number in _lacking(node, acknowledged)}
        rows = [[(row["origin"], row["device_at_ms"]) for row in node.rows("containers")] for node in nodes]
        return Tally(on_nodes.fallen + alone, len(acknowledged), len(lost), sum(len(readings) - len(set(readings)) for readings in rows))


def _lacking(node: ShipNode, acknowledged: frozenset[int]) -> frozenset[int]:
    deadline_s = time.monotonic() + ALL_S_MAX
    while (lacking := acknowledged.difference(node.held())) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return lacking


def _reading_number(said: bytes) -> int | None:
    return number_of(orjson.loads(said[len(HEAD) :])["at"]) if said.startswith(HEAD) else None
