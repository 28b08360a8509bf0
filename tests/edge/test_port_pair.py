"""Goal: a port's two nodes are one port to a ship that lies there: one is killed, the other has her, and nothing is lost or there twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.aboard import NODE, TOKEN, Message, ShipProcess, fleet_clock, publish_all, ship
from tests.support.ports import free_port
from tests.support.process import NodeProcess, wait
from tests.support.sea import SHIP, START_MS

PORT = ("east", "west")
TOKYO = (35.6, 139.8)
BOX = "MSKU1234565"
READINGS = 200


def of_the_port(folder: Path, name: str, doors: dict[str, int], clock: str) -> NodeProcess:
    """One of the two `landfall port` processes, which dials the other."""
    [other] = set(PORT) - {name}
    settings = (
        f'[node]\nnode = "{name}"\nrole = "port"\nidentity = "JPTYO"\nfolder = "{folder / name}"\nport = {{port}}\n'
        f'clock = "{clock}"\n'
        f'[[node.known]]\nnode = "{other}"\nrole = "port"\nidentity = "JPTYO"\ntoken = "of-{other}"\n'
        f'[[node.known]]\nnode = "{NODE}"\nrole = "ship"\nidentity = "{SHIP}"\ntoken = "of-the-link"\n'
        f'[[node.peers]]\nnode = "{other}"\nurl = "http://127.0.0.1:{doors[other]}"\ntoken = "of-{name}"\n'
    )
    return NodeProcess(folder / f"{name}-settings", "port", name, TOKEN, settings, doors[name])


def calls_at(doors: dict[str, int]) -> str:
    """What the ship's settings say of that port."""
    where = f'locode = "JPTYO"\nname = "Tokyo"\nlatitude_deg = {TOKYO[0]}\nlongitude_deg = {TOKYO[1]}\n'
    return "".join(
        f'[[ports]]\nnode = "{name}"\nurl = "http://127.0.0.1:{door}"\ntoken = "of-the-link"\n{where}'
        f'[[node.known]]\nnode = "{name}"\nrole = "port"\nidentity = "JPTYO"\n'
        for name, door in doors.items()
    )


def readings(first: int, end: int) -> list[Message]:
    return [
        (f"landfall/containers/{BOX}/reading", json.dumps({"device": "T1", "at": START_MS + 1_000 * n, "return_c": n % 40 / 10}).encode())
        for n in range(first, end)
    ]


def numbers(node: NodeProcess) -> list[int]:
    return sorted(int(row["device_at_ms"] - START_MS) // 1_000 for row in node.rows("containers"))


def peers(process: ShipProcess) -> set[str]:
    """Whom the ship is in session with."""
    status = process.status()
    return set(status["link"]["peers"]) if status else set()


@pytest.mark.cases("killed", PORT[1:], long=PORT[:1])
def test_of_a_ports_two_nodes_one_is_killed_and_the_other_has_the_ship(tmp_path: Path, killed: str) -> None:
    doors = {name: free_port() for name in PORT}
    with fleet_clock(lambda: START_MS + 86_400_000) as clock, ship(tmp_path, calls_at(doors), clock) as aboard:
        nodes = {name: of_the_port(tmp_path, name, doors, clock) for name in PORT}
        [left] = [node for name, node in nodes.items() if name != killed]
        try:
            for process in (*nodes.values(), aboard):
                process.start()
            for process in (*nodes.values(), aboard):
                process.wait_ready()
            lies = json.dumps({"device": "GPS-1", "at": START_MS, "latitude_deg": TOKYO[0], "longitude_deg": TOKYO[1], "speed_kn": 0.0})
            publish_all(aboard.mqtt_port, [(f"landfall/ships/{SHIP}/location", lies.encode())], aboard.tail)
            wait(lambda: peers(aboard) == set(PORT), aboard.tail)
            publish_all(aboard.mqtt_port, readings(0, READINGS // 2), aboard.tail)
            nodes[killed].kill()
            publish_all(aboard.mqtt_port, readings(READINGS // 2, READINGS), aboard.tail)
            wait(lambda: len(numbers(left)) >= READINGS, left.tail)
            wait(lambda: peers(aboard) == {left.node}, aboard.tail)
            nodes[killed].start()
            wait(lambda: nodes[killed].ready() and len(numbers(nodes[killed])) >= READINGS, nodes[killed].tail)
            assert numbers(left) == numbers(nodes[killed]) == list(range(READINGS))
        finally:
            for node in nodes.values():
                node.kill()
