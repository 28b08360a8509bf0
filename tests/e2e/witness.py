"""Witnesses of when a node had an alert: consumers of `alerts`, whose Positions each node stamps with its own clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from landfall.demo.fleet import Secrets
from streams.consumers import CONSUMERS
from streams.errors import RetryLater
from streams.link.door import AppendDoor
from streams.log import Append
from streams.records import Record, to_batch
from streams.words import Coordinates, Position
from tests.e2e.voyage import Voyage

NAME = "witness/alerts"
LOOK_EVERY_S = 0.1


@contextmanager
def witnessing(voyage: Voyage, nodes: Sequence[str]) -> Iterator[None]:
    """While the block runs, how far each node has `alerts` is appended to its own `consumers` as soon as it is seen to have more."""
    done = threading.Event()
    threads = [threading.Thread(target=_witness, args=(voyage, node, done), name=f"witness at {node}") for node in nodes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _witness(voyage: Voyage, node: str, done: threading.Event) -> None:
    door = AppendDoor(voyage.fleet.node_url(node), Secrets(voyage.fleet.folder / "secrets.json").of(f"door {node}"))
    log, told = voyage.log(node), Position()
    try:
        while not done.wait(LOOK_EVERY_S):
            if told.reaches(position := log.position("alerts")):
                continue
            try:
                door.append([Append(CONSUMERS, to_batch([Record(NAME, body={"stream": "alerts", "position": position.to_json()})]))])
            except RetryLater:
                continue
            told = position
    finally:
        log.close()


def had_at_ms(voyage: Voyage, node: str, record: Coordinates) -> int:
    """The latest fleet time, by the node's own stamp in its log, at which it can have come to have `record` (UTC ms)."""
    for row in voyage.rows(node, CONSUMERS):
        if row.record.topic == NAME and row.coordinates.origin.node == node:
            position = Position.from_json((row.record.body or {})["position"])
            if position[record.origin] > record.offset:
                return row.received_at_ms
    raise AssertionError(f"{node} was never seen to have {record}")
