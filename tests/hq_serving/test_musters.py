"""Goal: headquarters counts a box as accounted for within its own interval, or while its ship's own statement does; the rest by age."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cargo.loss.accounted_boxes import STATED_EVERY_MS
from cargo.loss.muster import STATED, STATEMENT
from hq.api.muster_answers import judged_at_ms
from streams.model.records import Record
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, SHIP, Fleet, booking, customer, port, ship
from tests.hq_serving.test_api import get

SAILED_MS = NOW_MS - 30 * HOUR_MS
ABOARD, NO_TRACKER, QUAY = DUCKS[:4], DUCKS[4], FOREIGN[:3]
Asked = Callable[..., Any]


def stated(fleet: Fleet, at_ms: int, node: str = "ship-one", topic: str = SHIP, **counts: int) -> None:
    """What a ship states of its muster, of `at_ms`."""
    body = {STATEMENT: [counts.get(name, 0) for name in STATED]}
    fleet.append(node, "digests", [Record(f"{topic}.log", device_at_ms=at_ms, body=body)])


@pytest.fixture
def asked(fleet: Fleet, tmp_path: Path) -> Iterator[Asked]:
    """A ship 30 h at sea with four ducks, one of which stands below deck, and one duck without a tracker; three boxes on the quay of
    Singapore, one heard just now. Asks the API for a path as somebody, after what is new is projected."""
    boxes: list[dict[str, Any]] = [
        {"container": number, "slot": f"0740{at}02" if at == 2 else f"0740{at}82", "size_type": "45R1", "pol": "JPTYO", "pod": "SGSIN"}
        for at, number in enumerate([*ABOARD, NO_TRACKER])
    ]
    boxes[4]["tracker"], boxes[2]["size_type"] = False, "45G1"
    listed = {"ship": SHIP, "port": "JPTYO", "call": 1, "aboard": boxes, "load": [], "discharge": [], "departs_at_ms": SAILED_MS}
    fleet.register(
        ("customer", "ducks", customer("Duckworks", (240, 200, 40))),
        ("port", "SGSIN", port("SGSIN", "Singapore", 1.26, 103.8)),
        ("ship", SHIP, ship(SHIP, "Big Blue One")),
        ("load_list", f"{SHIP}/1", listed),
        ("booking", "BK-1", booking("BK-1", "ducks", [(number, NOW_MS - 90 * HOUR_MS, None) for number in DUCKS[:5]])),
        ("custody", NO_TRACKER, {"at": f"ship/{SHIP}", "since_at_ms": SAILED_MS - HOUR_MS}),
    )
    for number in ABOARD:
        fleet.state("container", number, ("ship", SHIP), at_ms=SAILED_MS, return_c=4.0)
    fleet.share("ducks", "ship-one", fleet.readings("ship-one", ABOARD, count=1, at_ms=SAILED_MS))
    for number, age_h in zip(QUAY, (0, 5, 30), strict=True):
        fleet.state("container", number, ("quay", "SGSIN"), at_ms=NOW_MS - age_h * HOUR_MS, return_c=4.0)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:

        def ask(path: str, username: str = "mira") -> Any:
            project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
            return get(client, path, log_in(client, username))

        yield ask


def aboard(asked: Asked, username: str = "mira") -> dict[str, Any]:
    """The muster of the ship, as this viewer is shown it."""
    [one] = [one["muster"] for one in asked("fleet", username)["ships"] if one["imo"] == SHIP]
    known: dict[str, Any] = one
    return known


def test_a_quay_has_no_box_accounted_for_that_nobody_heard(asked: Asked) -> None:
    """The same on the port's page, for the fleet and of each box: one of three is heard, the others stand by the age of their reading."""
    told = asked("ports/SGSIN")
    assert told["on_quay"]["count"] == 3
    muster = {"boxes": 3, "accounted": 1, "accounts": {"heard": 1, "under_6h": 1, "under_3d": 1}, "stated_at_ms": None, "overdue": False}
    assert told["muster"] == muster
    fleet = asked("fleet")
    assert [one["muster"] for one in fleet["ports"]] == [muster]
    assert (fleet["counts"]["on_quay"], fleet["muster"]["accounted"]) == (3, 1)
    accounts = [asked(f"containers/{number}")["container"]["account"] for number in QUAY]
    assert accounts == ["heard", "under_6h", "under_3d"]
    assert [one["account"] for one in asked("containers?place=quay/SGSIN")["items"]] == accounts


@pytest.mark.parametrize("username", ["mira", "donald"])
def test_a_box_without_a_tracker_is_never_unheard(asked: Asked, username: str) -> None:
    """It is aboard by the papers, and in a band of its own; those at sea of which nothing came are as old as their last reading."""
    muster = aboard(asked, username)
    assert (muster["boxes"], muster["accounted"], muster["accounts"]) == (4, 0, {"no_tracker": 1, "under_3d": 4})
    box = asked(f"containers/{NO_TRACKER}", username)["container"]
    assert (box["account"], box["standing"], box["place_basis"]) == ("no_tracker", "ship", "papers")


def test_a_ships_own_statement_counts_at_sea_until_two_are_overdue(asked: Asked, fleet: Fleet) -> None:
    """Operations, owner and crew alike; its time is told; later it is overdue, and the boxes are as old as their readings again."""
    overdue_ms = NOW_MS - 2 * STATED_EVERY_MS - HOUR_MS
    stated(fleet, overdue_ms, accounted=4)
    muster = aboard(asked)
    assert (muster["stated_at_ms"], muster["overdue"], muster["accounts"]) == (overdue_ms, True, {"no_tracker": 1, "under_3d": 4})
    stated(fleet, NOW_MS - HOUR_MS, accounted=4, not_due=1, no_tracker=1)
    for username in ("mira", "donald", "crew"):
        muster = aboard(asked, username)
        assert (muster["accounted"], muster["stated_at_ms"], muster["overdue"]) == (4, NOW_MS - HOUR_MS, False), username
        assert muster["accounts"]["by_ship"] == 4
    whole = asked("fleet")["muster"]
    assert (whole["accounted"], whole["boxes"], whole["stated_at_ms"]) == (5, 7, NOW_MS - HOUR_MS)
    stated(fleet, NOW_MS - 3 * HOUR_MS, accounted=1)
    assert aboard(asked)["accounted"] == 4, "the newest counts, in whatever order they come"


def test_no_box_is_accounted_for_that_the_ship_does_not_account_for(asked: Asked, fleet: Fleet) -> None:
    """Fewer by its count: so many are not, though which is not said. A box whose silence it reports is not, for its owner too."""
    stated(fleet, NOW_MS - HOUR_MS, accounted=3, under_6h=1, no_tracker=1)
    muster = aboard(asked)
    assert (muster["accounted"], muster["accounts"]) == (3, {"by_ship": 3, "not_by_ship": 1, "no_tracker": 1})
    raised = fleet.alert("ship-one", ABOARD[0], f"{SHIP}-late", rule="late", severity="LOG", status=None, at_ms=NOW_MS - HOUR_MS)
    known = {"alert_id": f"{SHIP}-late", "rule": "late", "severity": "LOG", "state": "raised", "at_ms": NOW_MS - HOUR_MS, "evidence": []}
    fleet.share("ducks", "ship-one", raised, {raised[0].offset: known})
    for username in ("mira", "donald"):
        assert aboard(asked, username)["accounts"] == {"by_ship": 3, "under_3d": 1, "no_tracker": 1}, username


def test_in_port_readings_count_and_not_an_old_statement(asked: Asked, fleet: Fleet) -> None:
    """Once a reading that is newer than the statement has come, each box is judged by its own: the reefers are late, one below deck not."""
    stated(fleet, NOW_MS - 4 * HOUR_MS, accounted=4)
    fleet.state("container", ABOARD[0], ("ship", SHIP), at_ms=NOW_MS, return_c=4.0)
    for number in ABOARD[1:]:
        fleet.state("container", number, ("ship", SHIP), at_ms=NOW_MS - 3 * HOUR_MS, return_c=4.0)
    muster = aboard(asked)
    assert muster["accounts"] == {"below_deck_not_due": 1, "heard": 1, "no_tracker": 1, "under_6h": 2}
    assert (muster["accounted"], muster["stated_at_ms"]) == (2, None)


def test_what_does_not_read_is_set_aside(asked: Asked, fleet: Fleet) -> None:
    fleet.append("ship-one", "digests", [Record(f"{SHIP}.log", device_at_ms=NOW_MS, body={STATEMENT: [1, 2]})])
    assert aboard(asked)["stated_at_ms"] is None


def test_a_list_that_is_written_again_counts_at_once(asked: Asked, fleet: Fleet) -> None:
    """What was kept of the one before is not used."""
    assert "no_tracker" in aboard(asked)["accounts"]
    value = {"ship": SHIP, "port": "JPTYO", "call": 1, "aboard": [], "load": [], "discharge": [], "departs_at_ms": SAILED_MS}
    fleet.register(("load_list", f"{SHIP}/1", value), version=2)
    assert aboard(asked)["accounts"] == {"under_3d": 4, "never": 1}


def test_boxes_are_judged_of_the_time_of_sparks_results_unless_it_stands_still() -> None:
    """At the wall's speed that is half a minute at most; in a story that runs 4,000 times as fast, 33 hours."""
    hour_ago = NOW_MS - HOUR_MS
    assert judged_at_ms(NOW_MS, hour_ago, 4_000) == hour_ago
    assert judged_at_ms(NOW_MS, NOW_MS - 40 * HOUR_MS, 4_000) == NOW_MS - 120_000_000
    assert judged_at_ms(NOW_MS, hour_ago, 1) == NOW_MS - 30_000
    assert judged_at_ms(NOW_MS, hour_ago, 0) == judged_at_ms(NOW_MS, None, 1) == judged_at_ms(NOW_MS, NOW_MS + 9, 1) == NOW_MS
