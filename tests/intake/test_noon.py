"""Goal: what a ship reports at noon is taken in whole: her position as signals, her run as it was told."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.intake.stand import Publisher, payload, stand


async def test_a_noon_report_is_a_record_of_its_ship_with_its_numbers_in_the_body(tmp_path: Path) -> None:
    noon = payload(0, at=1_777_636_800_000, latitude_deg=1.0, longitude_deg=103.0, distance_nm=455.8, steaming_h=24.0, mean_speed_kn=19.0)
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mid = publisher.publish("landfall/ships/9321483/noon", noon)
            await asyncio.to_thread(publisher.wait, lambda p: mid in p.acknowledged)
        (row,) = one.rows("ships")
        assert row.record.topic == "9321483.noon"
        assert row.record.signals["latitude_deg"] == 1.0
        assert row.record.body is not None
        assert row.record.body.items() >= {"distance_nm": 455.8, "steaming_h": 24.0, "mean_speed_kn": 19.0}.items()
