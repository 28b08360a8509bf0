"""Goal: a disk that fails under one of a ship's two nodes ends neither: that one acknowledges nothing and lets its sensors go, the other
goes on, and nothing acknowledged is lost. So it is where the folder of a running node is deleted.

`-m torture` cuts a real disk's power, for which it needs root and mount (`tests.support.powercut`).
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.powercut import CutDisk
from tests.support.process import wait
from tests.support.two_nodes import Sensors, ShipNode, pair

pytestmark = pytest.mark.timeout(300)
READINGS = 60
"""Acknowledged, at least, before and after."""
NO_FILE_OPENS = 3
"""A limit of open files that every process has reached."""


class Degrading(ShipNode):
    """Soon alone, and soon rid of its sensors; alone, it answers from one disk."""

    when_alone = "degrade"

    def __init__(self, folder: Path, name: str, doors: Mapping[str, int]) -> None:
        super().__init__(folder, name, doors)
        settings = self.config.read_text()
        settings = settings.replace("[intake]\n", f'[intake]\nwhen_alone = "{self.when_alone}"\nalone_after_s = 1.0\n')
        self.config.write_text(settings.replace("[intake.endpoint]\n", "[intake.endpoint]\nturns_away_after_ms = 1000\n"))


class Waiting(Degrading):
    """Alone, it answers nobody."""

    when_alone = "wait"


@contextmanager
def refusing(node: ShipNode) -> Iterator[None]:
    """The system lets this process write no byte more to any file, and open none."""
    before = {limit: resource.prlimit(node.pid, limit) for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)}
    for limit, (_, hard) in before.items():
        resource.prlimit(node.pid, limit, (NO_FILE_OPENS if limit == resource.RLIMIT_NOFILE else 0, hard))
    yield
    for limit, both in before.items():
        resource.prlimit(node.pid, limit, both)


def more(sensors: Sensors, told: Callable[[], str]) -> None:
    """Returns once READINGS more are acknowledged."""
    before = len(sensors.acknowledged)
    wait(lambda: len(sensors.acknowledged) >= before + READINGS, told)


def let_go(sensors: Sensors, node: ShipNode) -> None:
    """Returns once the first node's sensors have been let go."""
    wait(lambda: not sensors._clients[0].is_connected(), node.tail)


def check_both_have_all(nodes: list[ShipNode], sensors: Sensors) -> None:
    sensors.finish()
    wait(lambda: all(len(set(node.held())) == sensors.published for node in nodes), nodes[0].tail)
    assert sensors.acknowledged == set(range(sensors.published))


def test_what_nothing_is_written_to_and_read_from_for_a_while_goes_on_afterwards_by_itself(tmp_path: Path) -> None:
    with pair(tmp_path, Degrading) as nodes, Sensors([node.mqtt_port for node in nodes]) as sensors:
        bridge, engine = nodes
        more(sensors, bridge.tail)
        with refusing(bridge):
            let_go(sensors, bridge)
            more(sensors, engine.tail)
            assert bridge.lives(), bridge.tail()
        wait(lambda: sensors._clients[0].is_connected(), bridge.tail)
        more(sensors, bridge.tail)
        check_both_have_all(nodes, sensors)
        assert bridge.lives(), bridge.tail()


def test_a_node_whose_folder_is_deleted_under_it_acknowledges_nothing_from_then_on(tmp_path: Path) -> None:
    """What it writes to deleted files is on no disk. Started again it begins anew, and is filled by the other."""
    with pair(tmp_path, Waiting) as nodes, Sensors([node.mqtt_port for node in nodes]) as sensors:
        bridge, engine = nodes
        more(sensors, bridge.tail)
        gone = bridge.folder.rename(tmp_path / "gone")  # at one instant
        shutil.rmtree(gone)
        let_go(sensors, bridge)
        assert bridge.lives(), bridge.tail()
        assert sensors.acknowledged <= set(engine.held())
        bridge.kill()
        bridge.start()
        bridge.wait_ready()
        more(sensors, bridge.tail)
        check_both_have_all(nodes, sensors)


@pytest.mark.torture
@pytest.mark.parametrize("alone", [False, True])
def test_a_disk_without_power(tmp_path: Path, alone: bool) -> None:
    """What one disk alone was acknowledged for is there when its power is back."""
    with CutDisk(tmp_path / "bridge", 200) as disk, pair(tmp_path, Degrading) as nodes:
        bridge, engine = nodes
        if alone:
            engine.kill()
        with Sensors([node.mqtt_port for node in nodes]) as sensors:
            more(sensors, bridge.tail)
            disk.cut()
            let_go(sensors, bridge)
            if not alone:
                more(sensors, engine.tail)
            assert bridge.lives(), bridge.tail()
            bridge.kill()
            disk.back()
            for node in nodes if alone else [bridge]:
                node.start()
                node.wait_ready()
            check_both_have_all(nodes, sensors)
