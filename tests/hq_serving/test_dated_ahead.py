"""Goal: what a wrong clock dates is shown at the time at which it was heard, to staff and owner."""

from __future__ import annotations

from pathlib import Path

from cargo.loss.event_time import CORRECTED
from cargo.loss.reading_rows import CLOCK_BACK
from landfall.storage.file_log import FileLog, FileLogOptions
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, SHIP, Fleet, fill
from tests.hq_serving.test_api import get

YEAR_2199_MS = 7_258_118_400_000
POSITION = {"latitude_deg": -30.6, "longitude_deg": 155.0}


def test_a_position_dated_in_2199_does_not_make_the_ship_heard_later(fleet: Fleet, tmp_path: Path) -> None:
    fill(fleet)
    wrong = FileLog(tmp_path / "wrong", tmp_path / "marker", "ship-one", BlockCodec(), StillClock(YEAR_2199_MS), FileLogOptions())
    said = wrong.append([Append("ships", to_batch([Record(f"{SHIP}.location", "GPS", YEAR_2199_MS, POSITION)]))])[0]
    fleet.logs["hq"].admit(list(wrong.blocks("ships", said.origin, said.first, said.first + said.count)))
    wrong.close()
    fleet.append("ship-one", "ships", [Record(f"{SHIP}.location", "GPS", NOW_MS - 1_000, POSITION)])
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        [ship] = [one for one in get(client, "fleet", log_in(client, "mira"))["ships"] if one["imo"] == SHIP]
    assert ship["heard_at_ms"] == NOW_MS - 1_000


def test_its_owner_sees_what_a_tracker_says_whose_clock_fell_back(fleet: Fleet, tmp_path: Path) -> None:
    fill(fleet)
    back = {"flags": [CLOCK_BACK], CORRECTED: NOW_MS - 1_000}
    said = Record(DUCKS[0], "TRK", NOW_MS - 3 * HOUR_MS, {"return_c": 18.0}, back)
    fleet.share("ducks", "ship-one", fleet.append("ship-one", "containers", [said]))
    odd = Record(DUCKS[0], "TRK", NOW_MS - 4 * HOUR_MS, {"return_c": 30.0}, {CORRECTED: NOW_MS})
    fleet.share("ducks", "ship-one", fleet.append("ship-one", "containers", [odd]))
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        donald = log_in(client, "donald")
        box = get(client, f"containers/{DUCKS[0]}", donald)["container"]
        chart = get(client, f"containers/{DUCKS[0]}/chart", donald)
        zoomed = get(client, f"containers/{DUCKS[0]}/chart?since_at_ms={NOW_MS - 1_500}&until_at_ms={NOW_MS}", donald)
    assert chart["readings"]["last_at_ms"] == NOW_MS - 1_000, "not when the copy was made"
    assert zoomed["lines"]["return_c"]["return_c"] == [18.0]
    assert (box["at_ms"], box["signals"]["return_c"]) == (NOW_MS - 1_000, {"value": 18.0, "at_ms": NOW_MS - 1_000})
