"""Goal: ship and headquarters as processes, each killed at every step of an answer: it comes once.

Run with `pytest -n 0 -m torture tests/edge/test_answering_kill.py`: a minute.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.edge.test_answering import ASKED, BOXES, NOISY, RESERVE, aboard, asking, noisy
from tests.node.points import ANSWERED, TAKEN
from tests.support.aboard import NODE, ShipProcess
from tests.support.process import NodeProcess, wait
from tests.support.sea import SHIP

KNOWN = '[[node.known]]\nnode = "{}"\nrole = "{}"\nidentity = "{}"\ntoken = "{}"\n'

DAY = 2_000_000
"""Room for what her kills cost of the day's budget."""


def headquarters(folder: Path) -> NodeProcess:
    config = f'[node]\nnode = "hq"\nrole = "hq"\nfolder = "{folder / "hq"}"\nport = {{port}}\n'
    return NodeProcess(folder / "settings-hq", "port", "hq", "door-of-hq", config + KNOWN.format(NODE, "ship", SHIP, "of-the-link"))


def ship_of(folder: Path, hq: NodeProcess) -> ShipProcess:
    budget = f"[node.links.satellite]\nbudget_bytes_per_day = {RESERVE + DAY}\nalerts_reserve_bytes = {RESERVE}\nprice_per_mb = 8.0\n"
    shore = f'[headquarters]\nnode = "hq"\nurl = "{hq.url}"\ntoken = "of-the-link"\n'
    return ShipProcess(folder, budget + KNOWN.format("hq", "hq", "", "of-hq") + shore)


def answers(process: NodeProcess) -> list[dict[str, Any]]:
    """All that ships said, as this node has it, without the records themselves."""
    return [row["body"] for row in process.rows("answers") if "ask_id" in row["body"]] if process.ready() else []


def story(process: NodeProcess, topic: str = ASKED) -> list[str]:
    """The topic's readings as its history tells them, coordinates and all."""
    return [json.dumps(row, sort_keys=True) for row in process.read.history(topic) if row["stream"] == "containers"]


@pytest.mark.torture
def test_killed_between_any_two_steps_an_answer_comes_once(tmp_path: Path) -> None:
    hq = headquarters(tmp_path)
    ship = ship_of(tmp_path, hq)
    try:
        hq.start(f"{TAKEN[0]}:1")
        ship.start()
        wait(lambda: hq.ready() and ship.ready(), lambda: hq.tail() + ship.tail())
        ship.append.append([aboard(0, 20), noisy(NOISY)])
        ship.kill()
        hq.append.append([asking("first", until_min=NOISY)])
        for point in ANSWERED:
            ship.start(f"{point}:1")
            wait(ship.dead, ship.tail)
        ship.start()
        wait(hq.dead, hq.tail)
        hq.start()
        wait(lambda: len(answers(hq)) == 1 and ship.ready(), hq.tail)
        wait(lambda: story(hq) == story(ship), hq.tail)
        [answer] = answers(ship)
        assert len(story(hq)) == answer["records"] == NOISY + 20
        assert not [box for box in BOXES if box != ASKED and story(hq, box)]
        assert (ship.stop(), hq.stop()) == (0, 0)
    finally:
        ship.kill()
        hq.kill()


@pytest.mark.torture
def test_a_ship_and_headquarters_that_an_operator_starts_ask_and_answer(tmp_path: Path) -> None:
    """Wired as they are run: what is asked while she is away is answered when she is there again."""
    hq = headquarters(tmp_path)
    ship = ship_of(tmp_path, hq)
    try:
        ship.start()
        hq.start()
        wait(lambda: hq.ready() and ship.ready(), lambda: hq.tail() + ship.tail())
        ship.append.append([aboard(0, 20)])
        hq.append.append([asking("price", "nothing"), asking("now")])
        wait(lambda: len(answers(hq)) == 2, lambda: hq.tail() + ship.tail())
        assert [(one["ask_id"], one["state"], one["records"]) for one in answers(hq)] == [("price", "priced", 20), ("now", "answered", 20)]
        wait(lambda: story(hq) == story(ship), hq.tail)
        assert not [row for row in ship.rows("exceptions") if "registry entry" in json.dumps(row)], "the watch passes questions over"
    finally:
        ship.kill()
        hq.kill()
