"""Goal: a ship is told how the streams are managed that she writes or may have, and of no other's."""

from __future__ import annotations

from cargo.registry import Entry, Stream
from shore.aboard import ShipsDesk
from tests.shore.test_aboard import EVER, OTHER, ship


def entry(name: str, version: int, **fields: object) -> Entry:
    return Entry("stream", name, version, version, "olga", Stream(**fields))  # type: ignore[arg-type]


def told(desk: ShipsDesk, one: Entry) -> set[str]:
    return {imo for imo, _ in desk.take(one)}


def test_she_hears_of_what_she_writes_or_may_have() -> None:
    desk = ShipsDesk()
    list(desk.take(ship(EVER)))
    list(desk.take(ship(OTHER)))
    assert told(desk, entry("containers", 1, retention={"age_days": 30})) == {EVER, OTHER}
    assert told(desk, entry("customers/ducks", 1, retention={"age_days": 30})) == set()
    assert told(desk, entry(f"aboard/{EVER}", 1, patience_s=60)) == {EVER}
    assert told(desk, entry("quays", 1, originate=("port",), replicate=("hq", f"ship/{OTHER}"))) == {OTHER}
    assert told(desk, entry("quays", 2, originate=("port",), replicate=("hq",))) == {OTHER}, "she knows of it, and may not have it any more"
    assert told(desk, entry("quays", 3, originate=("port",), replicate=("hq", "port"))) == {OTHER}


def test_a_ship_met_later_hears_of_what_was_set_before() -> None:
    desk = ShipsDesk()
    list(desk.take(entry("containers", 1, retention={"age_days": 30})))
    assert {(imo, one.topic) for imo, one in desk.take(ship(EVER))} == {(EVER, f"ship/{EVER}"), (EVER, "stream/containers")}
