"""Goal: where a ship's digest is newer than the readings here, staff see it and its age, owners its age; in port readings take over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cargo.shore_rules.digests import DigestFold
from cargo.vocabulary.trade_codes import make_container
from hq.serving import models as m
from hq.serving.database import ServingReader
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, SHIP, Fleet, booking, fill

FROM_MS, UNTIL_MS = NOW_MS - 7 * HOUR_MS, NOW_MS - HOUR_MS
HEARD_MS = UNTIL_MS - 600_000


def digest(
    fleet: Fleet, node: str = "ship-one", heard_ms: int = HEARD_MS, until_ms: int = UNTIL_MS, number: str = DUCKS[0], **signals: Any
) -> None:
    """The ship's digest of one reading of the first duck; and of the whole window."""
    given = to_batch([Record(number, "TRK", heard_ms, signals or {"return_c": 4.0, "power_on": True})])
    log = fleet.logs[node]
    [read] = log.append([Append("unsent", given)])
    fold = DigestFold(FROM_MS)
    for batch in log.run("unsent", read.origin, read.first, read.first + 1):
        fold.take(batch.records)
    [made] = log.append([Append("digests", fold.lines(until_ms))])
    whole = {"from_at_ms": FROM_MS, "until_at_ms": until_ms, "boxes": 1, "readings": 1}
    log.append([Append("digests", to_batch([Record(f"{SHIP}.log", device_at_ms=until_ms, signals=whole)]))])
    fleet.logs["hq"].admit(list(log.blocks("digests", made.origin, made.first, made.first + 2)))


@pytest.fixture
def seen(fleet: Fleet, tmp_path: Path) -> Iterator[httpx.Client]:
    """The API over what the fleet says; projected by `look`."""
    fill(fleet)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as one:
        yield one


def look(fleet: Fleet, folder: Path, client: httpx.Client, username: str = "mira") -> Any:
    """What the user sees of the first duck now, alone and in the list, which must agree."""
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    headers = log_in(client, username)
    one = client.get(f"/api/containers/{DUCKS[0]}", headers=headers).json()["container"]
    listed = [box for box in client.get("/api/containers", headers=headers).json()["items"] if box["number"] == DUCKS[0]]
    assert [box["digest"] for box in listed] == [one["digest"]]
    return one


def test_it_is_shown_with_its_age_while_it_is_newer_than_the_readings(fleet: Fleet, tmp_path: Path, seen: httpx.Client) -> None:
    fleet.state("container", DUCKS[0], ("ship", SHIP), at_ms=NOW_MS - 20 * HOUR_MS, return_c=3.0)
    assert look(fleet, tmp_path, seen)["digest"] is None
    digest(fleet)
    digest(fleet, heard_ms=HEARD_MS - HOUR_MS, return_c=9.0)  # one whose readings are older tells nothing
    box = look(fleet, tmp_path, seen)
    assert (box["at_ms"], box["signals"]["return_c"]["value"]) == (NOW_MS - 20 * HOUR_MS, 3.0), "readings stay what they are"
    told = {name: value for name, value in box["digest"].items() if name != "signals"}
    at_ms = HEARD_MS // 60_000 * 60_000
    window = {"from_at_ms": FROM_MS, "until_at_ms": UNTIL_MS, "readings": 1}
    assert told == {"node": "ship-one", "at_ms": at_ms, "age_ms": NOW_MS - at_ms, **window}
    signals = {"return_min_c": 4.0, "return_mean_c": 4.0, "return_max_c": 4.0, "power_on": True, "power_off_readings": 0}
    assert box["digest"]["signals"] == signals | {"silence_max_s": 7 * 3_600}
    assert look(fleet, tmp_path, seen, "donald")["digest"] is None, "a customer, whose own stream is newer"
    assert look(fleet, tmp_path, seen, "crew")["digest"] == box["digest"]

    fleet.state("container", DUCKS[0], ("ship", SHIP), at_ms=HEARD_MS + 100, return_c=4.0)
    assert look(fleet, tmp_path, seen)["digest"] is None, "the very reading has come"


@pytest.mark.parametrize("username", ["mira", "donald", "crew"])
def test_a_box_that_its_quay_heard_last_is_aboard_while_its_ship_hears_it(
    fleet: Fleet, tmp_path: Path, seen: httpx.Client, username: str
) -> None:
    """Lifted aboard, it was heard by the quay once more; the ship's readings wait on board. Every role counts it on the ship, by the
    papers, as soon as the ship's digest is newer; none does without that. Its time is when the box was heard, for each role; an owner
    gets no value of it, which may be of others' hours."""
    lifted, at_ms = make_container("DUCU", 300), HEARD_MS - HOUR_MS
    fleet.register(
        ("booking", "BK-7", booking("BK-7", "ducks", [(lifted, NOW_MS - 48 * HOUR_MS, None)])),
        ("custody", lifted, {"at": f"ship/{SHIP}", "since_at_ms": at_ms - 60_000}),
    )
    fleet.state("container", lifted, ("quay", "SGSIN"), at_ms=at_ms)
    fleet.share("ducks", "singapore", fleet.readings("singapore", [lifted], 1, at_ms))
    headers = log_in(seen, username)
    for heard_aboard in (False, True):
        if heard_aboard:
            digest(fleet, number=lifted)
        project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
        aboard = seen.get(f"/api/containers?place=ship/{SHIP}", headers=headers).json()["items"]
        found = [box for box in aboard if box["number"] == lifted]
        assert [box["place_basis"] for box in found] == (["papers"] if heard_aboard else [])
        for box in found:
            assert (box["account"], box["digest"]["at_ms"]) == ("not_due", HEARD_MS // 60_000 * 60_000)
            assert box["digest"].keys() == {"at_ms", "age_ms"} or username != "donald"
        counts = seen.get("/api/fleet", headers=headers).json()["counts"]
        assert counts["on_ship"] == len([box for box in aboard if box["standing"] == "ship"])
    assert seen.get(f"/api/containers/{lifted}/timeline", headers=headers).status_code == 200


def test_a_crew_has_the_boxes_that_came_aboard_and_none_that_was_delivered(fleet: Fleet, tmp_path: Path, seen: httpx.Client) -> None:
    """By custody, of a box that no sensor has named aboard, as operations counts them."""
    by_list = make_container("DUCU", 301)
    fleet.register(("custody", by_list, {"at": f"ship/{SHIP}", "since_at_ms": NOW_MS - HOUR_MS}))
    fleet.register(("custody", DUCKS[1], {"at": "delivered", "since_at_ms": NOW_MS + 1 - HOUR_MS}))
    fleet.state("container", DUCKS[1], ("ship", SHIP), at_ms=NOW_MS - 2 * HOUR_MS)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    numbers = {box["number"] for box in seen.get("/api/containers", headers=log_in(seen, "crew")).json()["items"]}
    assert by_list in numbers
    assert DUCKS[1] not in numbers
    counts = [seen.get("/api/fleet", headers=log_in(seen, one)).json() for one in ("mira", "crew")]
    assert counts[0]["ships"][0]["boxes"] == counts[1]["counts"]["on_ship"]
    assert counts[0]["ships"][0]["muster"] == counts[1]["ships"][0]["muster"]


def test_a_digest_of_years_ahead_does_not_stand_for_years(fleet: Fleet, tmp_path: Path, seen: httpx.Client) -> None:
    """It counts as of ten minutes after it was admitted, as every newest state does: a true one of later replaces it."""
    fleet.state("container", DUCKS[0], ("ship", SHIP), at_ms=NOW_MS - 20 * HOUR_MS, return_c=3.0)
    ahead_ms = NOW_MS + 100_000 * HOUR_MS
    fleet.clock.at_ms = ahead_ms
    own = fleet.logs["ship-one"]
    window = {"from_at_ms": FROM_MS, "until_at_ms": UNTIL_MS, "readings": 1}
    [made] = own.append([Append("digests", to_batch([Record(DUCKS[0], None, ahead_ms, window)]))])
    fleet.clock.at_ms = NOW_MS
    fleet.logs["hq"].admit(list(own.blocks("digests", made.origin, made.first, made.first + 1)))
    assert look(fleet, tmp_path, seen)["digest"]["at_ms"] <= NOW_MS + 11 * 60_000


def test_a_digest_of_a_box_in_another_ships_custody_is_set_aside(fleet: Fleet, tmp_path: Path, seen: httpx.Client) -> None:
    """Else that ship could keep a box of this one accounted for. One of before the box changed ships comes late, and counts."""
    fleet.register(("custody", DUCKS[0], {"at": f"ship/{SHIP}", "since_at_ms": HEARD_MS - HOUR_MS}))
    fleet.state("container", DUCKS[0], ("ship", SHIP), at_ms=NOW_MS - 20 * HOUR_MS, return_c=3.0)
    digest(fleet, "ship-two")
    assert look(fleet, tmp_path, seen)["digest"] is None
    digest(fleet, "ship-two", HEARD_MS - 2 * HOUR_MS)
    assert look(fleet, tmp_path, seen)["digest"]["node"] == "ship-two"
    digest(fleet)
    assert look(fleet, tmp_path, seen)["digest"]["node"] == "ship-one"


def test_what_is_no_digest_is_set_aside(fleet: Fleet, tmp_path: Path) -> None:
    """A ship may have written anything: told, gone past, and a good one behind it is taken, without what is none of a digest's values."""
    fill(fleet)
    window = {"from_at_ms": FROM_MS, "until_at_ms": UNTIL_MS, "readings": 2}
    odd: list[dict[str, Any]] = [{}, {**window, "readings": -1}, {**window, "until_at_ms": 1 << 62}]
    rows = [Record(number, None, HEARD_MS, signals) for number, signals in zip(FOREIGN, odd, strict=False)]
    fleet.append(
        "ship-one", "digests", [*rows, Record(FOREIGN[3], None, HEARD_MS, {**window, "supply_min_c": float("inf"), "gateway": "G"})]
    )
    fleet.append("ship-one", "digests", [Record(FOREIGN[4], None, HEARD_MS, {"from_at_ms": 0.5, "until_at_ms": 7.0, "readings": 1.0})])
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    reader = ServingReader(sqlite_url(tmp_path))
    with reader.snapshot() as connection:
        rejected = [row.topic for row in connection.execute(m.Rejected.__table__.select().where(m.Rejected.stream == "digests"))]
        [row] = connection.execute(m.Digest.__table__.select())
    reader.close()
    assert sorted(rejected) == sorted([*FOREIGN[:3], FOREIGN[4]])
    assert (row.container, row.body["signals"]) == (FOREIGN[3], {})
