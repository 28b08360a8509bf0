"""Goal: a node whose whole disk is put back to an older day opens a new generation when a peer knows more, and fetches what it lost."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.fleet import address, readings, started, until


async def test_a_ship_restored_from_a_snapshot_of_its_disk(tmp_path: Path) -> None:
    ship, tokyo = await started("ship-a", tmp_path), await started("tokyo", tmp_path)
    await ship.append([readings(0, 500)])
    before = ship.log.origin
    await ship.stop()
    shutil.copytree(tmp_path / "ship-a", tmp_path / "backup")

    ship = await started("ship-a", tmp_path)
    await ship.append([readings(500, 700)])
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: sum(tokyo.log.position("containers").values()) == 1_200)
    whole = tokyo.log.history("MSKU1234565").rows
    await ship.stop()
    shutil.rmtree(tmp_path / "ship-a")
    shutil.copytree(tmp_path / "backup", tmp_path / "ship-a")

    ship = await started("ship-a", tmp_path)
    assert ship.log.origin == before, "it can not know yet"
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: ship.log.origin != before)
    await until(lambda: sum(ship.log.position("containers").values()) == 1_200)
    assert ship.log.history("MSKU1234565").rows.equals(whole)
    await ship.append([readings(2_000, 10)])
    await until(lambda: sum(tokyo.log.position("containers").values()) == 1_210)
    assert tokyo.log.position("containers")[before] == 1_200, "nothing new under the old generation"
    await ship.stop()
    await tokyo.stop()
