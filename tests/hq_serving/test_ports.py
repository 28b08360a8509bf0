"""A port's view: it knows what comes before the ship does, and then what the sensors say of each box on the list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streams.model.records import Record
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, SHIP, Fleet, port, ship


def bound_for(number: str) -> str:
    """Ducks go to Singapore, the other company's boxes to London."""
    return "SGSIN" if number in DUCKS else "GBLON"


def load_list(call: int, port_: str, departs_at_ms: int, aboard: Sequence[str], load: Sequence[str], discharge: Sequence[str] = ()) -> Any:
    """A load list's registry entry."""
    boxes = [
        {
            "container": one,
            "slot": f"0{2 * at + 2:02d}0282",
            "size_type": "22G1",
            "pol": "JPTYO",
            "pod": "SGSIN" if one in DUCKS else "GBLON",
        }
        for at, one in enumerate(aboard)
    ]
    lists = {"aboard": boxes, "load": list(load), "discharge": list(discharge)}
    return ("load_list", f"{SHIP}/{call}", {"ship": SHIP, "port": port_, "call": call, "departs_at_ms": departs_at_ms, **lists})


def event(fleet: Fleet, node: str, topic: str, code: str, at_ms: int, **more: Any) -> None:
    """One event, as a ship's or quay's watch tells it."""
    body = {
        "event_id": f"{node}{topic}{code}{at_ms}",
        "event": code,
        "classifier": "ACT",
        "event_at_ms": at_ms,
        "place": None,
        "ship": SHIP,
    }
    fleet.append(node, "events", [Record(topic, device_at_ms=at_ms, body={**body, "ship": SHIP, "node": node, **more})])


def test_the_list_is_known_before_the_ship_comes_and_then_the_sensors_speak(fleet: Fleet, tmp_path: Path) -> None:
    """Sailed from Tokyo: Singapore sees what is due. After the call: loaded, left behind, new aboard, the rest confirmed by the muster."""
    tokyo = [*DUCKS[:4], FOREIGN[0]]
    fleet.register(
        ("port", "SGSIN", port("SGSIN", "Singapore", 1.26, 103.8)),
        ("port", "JPTYO", port("JPTYO", "Tokyo", 35.6, 139.8)),
        ("ship", SHIP, ship(SHIP, "Big Blue One")),
        load_list(1, "JPTYO", NOW_MS - 90 * HOUR_MS, tokyo, tokyo),
        load_list(2, "SGSIN", NOW_MS + HOUR_MS, [FOREIGN[0], *FOREIGN[1:4]], FOREIGN[1:4], DUCKS[:4]),
    )
    store = sqlite_url(tmp_path)
    project(make_projector(fleet.hq_dir, store))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        headers = log_in(client, "cleo")

        def singapore() -> Any:
            answer = client.get("/api/ports/SGSIN", headers=headers)
            assert answer.status_code == 200, answer.text
            return answer.json()

        before = singapore()
        due = {"count": 4, "containers": sorted(DUCKS[:4])}
        coming = {"ship": SHIP, "from": "JPTYO", "sailed_at_ms": NOW_MS - 90 * HOUR_MS, "arrived_at_ms": None, "boxes": due}
        assert (before["due_in"], before["in_port"]) == ([coming], [])
        call = before["calls"][0]
        assert (call["ship"], call["call"], call["to_load"]["count"], call["to_discharge"]["count"]) == (SHIP, 2, 3, 4)
        assert (call["arrived_at_ms"], call["loaded"]["count"], call["muster"]) == (None, 0, None)

        event(fleet, "ship-one", f"{SHIP}.log", "ARRI", NOW_MS - 5 * HOUR_MS, place="SGSIN")
        event(fleet, "ship-one", f"{SHIP}.log", "ARRI", NOW_MS - 300 * HOUR_MS, place="SGSIN")
        event(fleet, "singapore", DUCKS[0], "DISC", NOW_MS - 4 * HOUR_MS, place="SGSIN", call=2, listed=True)
        event(fleet, "ship-one", FOREIGN[1], "LOAD", NOW_MS - 3 * HOUR_MS, place="SGSIN", call=2, listed=True)
        event(fleet, "ship-one", FOREIGN[5], "LOAD", NOW_MS - 3 * HOUR_MS, place="SGSIN", call=2, listed=False)
        event(fleet, "ship-one", FOREIGN[2], "LOAD", NOW_MS - 4 * HOUR_MS, place="SGSIN", call=None, listed=None)
        event(fleet, "ship-one", FOREIGN[4], "LOAD", NOW_MS - 4 * HOUR_MS, place="SGSIN", call=None, listed=None)
        event(fleet, "ship-one", FOREIGN[0], "LOAD", NOW_MS - 300 * HOUR_MS, place="SGSIN", call=None, listed=None)
        event(fleet, "ship-one", DUCKS[0], "LOAD", NOW_MS - 95 * HOUR_MS, place="JPTYO", call=1, listed=True)
        event(fleet, "ship-one", f"{SHIP}.log", "DEPA", NOW_MS - HOUR_MS, place="SGSIN")
        event(fleet, "singapore", FOREIGN[3], "X_LEFT_BEHIND", NOW_MS, place="SGSIN", call=2)
        event(fleet, "ship-one", f"{SHIP}.log", "X_MUSTER", NOW_MS - 80 * HOUR_MS, call=1, total=5, instrumented=5, accounted=1)
        event(fleet, "ship-one", f"{SHIP}.log", "X_MUSTER", NOW_MS, call=2, total=4, instrumented=4, accounted=3, not_on_list=[FOREIGN[5]])
        fleet.state("container", DUCKS[0], ("quay", "SGSIN"))
        project(make_projector(fleet.hq_dir, store))

        after = singapore()
        call = after["calls"][0]
        assert after["on_quay"] == {"count": 1, "containers": [DUCKS[0]]}
        assert (call["arrived_at_ms"], call["sailed_at_ms"]) == (NOW_MS - 5 * HOUR_MS, NOW_MS - HOUR_MS)
        told = {name: call[name]["containers"] for name in ("loaded", "discharged", "left_behind", "new_aboard")}
        new = sorted(FOREIGN[4:6])
        assert told == {"loaded": sorted(FOREIGN[1:3]), "discharged": [DUCKS[0]], "left_behind": [FOREIGN[3]], "new_aboard": new}
        assert (call["muster"]["accounted"], call["muster"]["total"], call["muster"]["not_on_list"]) == (3, 4, [FOREIGN[5]])
