"""Goal: a ship is drawn where it is believed to be: one bad fix moves neither its marker nor its tail."""

from __future__ import annotations

from typing import Any

from hq.api.map_picture import ship_drawn

AT = 1_777_593_600_000
BERTH, FAR, NOUGHT = (35.6, 139.8), (35.6, 150.0), (0.0, 0.0)


def drawn(*places: tuple[float, float] | None) -> tuple[tuple[float, float], int, int]:
    """Where the ship is drawn, the age of that in minutes and the length of its tail, after readings a minute apart, some with a place."""
    signals = [{"latitude_deg": place[0], "longitude_deg": place[1]} if place else {"speed_kn": 1.0} for place in places]
    track: list[dict[str, Any]] = [{"order_at_ms": AT + n * 60_000, "signals": one} for n, one in enumerate(signals)]
    newest = max(n for n, place in enumerate(places) if place)
    at_ms = AT + (len(places) - 1) * 60_000
    state = {"ship": "9501332", "value": None, "body": {"position_at_ms": AT + newest * 60_000}, "at_ms": at_ms, **signals[newest]}
    ship = ship_drawn(state, track[::-1], at_ms)
    where = ship["position"]
    return (where["latitude_deg"], where["longitude_deg"]), where["age_ms"] // 60_000, len(ship["track"])


def test_a_ship_is_drawn_at_its_last_believed_fix() -> None:
    assert drawn(BERTH, BERTH) == (BERTH, 0, 2)
    assert drawn(BERTH, BERTH, FAR) == (BERTH, 1, 2)
    assert drawn(BERTH, BERTH, NOUGHT) == (BERTH, 1, 2)
    assert drawn(BERTH, FAR, FAR) == (FAR, 0, 2), "the second agrees; the first stands alone"
    assert drawn(BERTH, BERTH, None) == (BERTH, 1, 2), "a reading without a position erases nothing"
    assert drawn(BERTH) == (BERTH, 0, 1)
