"""Goal: a container was last heard when its newest reading was measured, for every viewer; alerts, events and wills are no readings."""

from __future__ import annotations

import csv
from pathlib import Path

import httpx
import pytest

from cargo.loss.reading_rows import RETAINED, WILL
from streams.model.records import Record
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, Fleet, booking, fill
from tests.hq_serving.test_api import get

LOST, LAST_READING_MS = DUCKS[3], NOW_MS - HOUR_MS + 2 * 300_000


def told(client: httpx.Client, username: str, number: str) -> tuple[int | None, int | None]:
    """When this viewer is shown that the container was last heard, and how long ago that is."""
    found = get(client, f"containers/{number}", log_in(client, username))["container"]
    return found["at_ms"], found["age_ms"]


def test_an_alert_or_event_is_no_reading_for_the_owner(fleet: Fleet, tmp_path: Path) -> None:
    """The alert of a lost duck, raised now, leaves its last reading as it is; so does making the view again when the booking changes."""
    fill(fleet)
    url = sqlite_url(tmp_path)
    one = make_projector(fleet.hq_dir, url)
    project(one)
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        assert told(client, "donald", LOST) == (LAST_READING_MS, NOW_MS - LAST_READING_MS)
        assert told(client, "donald", DUCKS[0])[0] == LAST_READING_MS
        fleet.register(("booking", "BK-1", booking("BK-1", "ducks", [(LOST, LAST_READING_MS, None)])), version=2)
        project(one)
        assert told(client, "donald", LOST)[0] == LAST_READING_MS
        fleet.register(("booking", "BK-1", booking("BK-1", "ducks", [(LOST, LAST_READING_MS + 1, None)])), version=3)
        project(one)
        assert told(client, "donald", LOST) == (None, None)
        [row] = get(client, "containers?booking=BK-1", log_in(client, "donald"))["items"]
        assert (row["at_ms"], row["place"]) == (None, None)


@pytest.mark.parametrize(
    ("signals", "flags"),
    [({"return_c": 9.0}, [WILL]), ({"return_c": 9.0}, [RETAINED]), ({"gateway": "GW-1", "rssi_dbm": -70}, [])],
    ids=["a will", "kept by a broker", "only who heard it"],
)
def test_what_is_no_sign_of_life_is_no_reading_for_the_owner(
    signals: dict[str, float | int | str], flags: list[str], fleet: Fleet, tmp_path: Path
) -> None:
    """A record that says nothing about now changes neither time nor place nor signals."""
    fill(fleet)
    dead = fleet.append("singapore", "containers", [Record(DUCKS[0], "TRK", NOW_MS - 1_000, signals, {"flags": flags} if flags else None)])
    fleet.share("ducks", "singapore", dead)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        found = get(client, f"containers/{DUCKS[0]}", log_in(client, "donald"))["container"]
    assert (found["at_ms"], found["place"]["kind"], found["signals"]["return_c"]["value"]) == (LAST_READING_MS, "ship", 4.5)


def test_a_position_has_the_age_of_its_own_reading(fleet: Fleet, tmp_path: Path) -> None:
    """Readings without a position come after the one that had it: owner, staff and the CSV say when the position was measured."""
    fill(fleet)
    fixed_at_ms = NOW_MS - 5 * HOUR_MS
    where = {"latitude_deg": -30.0, "longitude_deg": 155.0}
    fleet.share("ducks", "ship-one", fleet.readings("ship-one", [DUCKS[0]], count=1, at_ms=fixed_at_ms, **where))
    signals = {name: {"value": value, "at_ms": fixed_at_ms} for name, value in where.items()}
    state = {"kind": "container", "at_ms": NOW_MS, "place": None, **where, "position_at_ms": fixed_at_ms, "signals": signals}
    fleet.append("hq", "states", [Record(DUCKS[0], device_at_ms=NOW_MS, body=state)])
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    position = {**where, "at_ms": fixed_at_ms, "age_ms": 5 * HOUR_MS}
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        for viewer in ("donald", "mira"):
            assert get(client, f"containers/{DUCKS[0]}", log_in(client, viewer))["container"]["position"] == position
        file = client.get(f"/api/containers.csv?q={DUCKS[0]}", headers=log_in(client, "mira")).text
    [row] = csv.DictReader(file.splitlines())
    assert row["position_utc"] == "2026-04-30 19:00:00.000"
