"""What is asked of each endpoint to see whether it tells what is foreign from what does not exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cargo.loss.watch_outcome import digest
from cargo.vocabulary.trade_codes import make_container, make_imo
from hq.api.cursors import write_cursor
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, OTHER_SHIP, SHIP

UNKNOWN = make_container("XXXU", 999)


@dataclass(frozen=True)
class Probe:
    """Requests to one endpoint; `<>` stands for the thing that is foreign in one request and does not exist in the other."""

    queries: tuple[str, ...] = ("",)
    foreign: tuple[str, ...] = ()
    unknown: str = ""
    json: Any = None
    data: Any = None
    no_login: bool = False


_KEYS = (("number", FOREIGN[0]), (NOW_MS + 1, "~"), (NOW_MS, "a-foreign"), (0, "", "", 0), ("worst", 0, 0, 0, "a"))
CURSORS = [write_cursor(key) for key in _KEYS]
PROBES: dict[tuple[str, str], Probe] = {
    ("POST", "/api/token"): Probe(foreign=("otto",), unknown="nobody", data={"username": "<>", "password": "wrong wrong"}, no_login=True),
    ("POST", "/api/logout"): Probe(no_login=True),
    ("GET", "/api/clock"): Probe(),
    ("POST", "/api/clock"): Probe(json={"action": "pause"}),
    ("GET", "/api/fleet"): Probe(),
    ("GET", "/api/map"): Probe(),
    ("GET", "/api/containers"): Probe(
        (
            *("", "?limit=1", "?q=DUC", "?q=<>", "?q=M", "?place=<>", f"?cursor={CURSORS[0]}", "?cursor=rubbish", "?limit=0"),
            *("?count=true", "?sort=place", "?sort=heard_oldest&limit=1&count=true", "?sort=odd"),
            *("?booking=<>", "?booking=bk-1", "?booking=BK-2", "?booking=BK-S"),
        ),
        (*FOREIGN, "BK-9", f"ship/{OTHER_SHIP}", "quay/AUSYD"),
        UNKNOWN,
    ),
    ("GET", "/api/containers.csv"): Probe(("", "?sort=odd", "?q=<>", "?place=<>", "?booking=<>"), (FOREIGN[0], "BK-9"), UNKNOWN),
    ("GET", "/api/containers/{number}"): Probe(foreign=FOREIGN, unknown=UNKNOWN),
    ("GET", "/api/containers/{number}/timeline"): Probe(
        (
            *("", "?limit=1", "?limit=2", f"?since_at_ms={NOW_MS - 1}", "?cursor=rubbish", f"?cursor={CURSORS[3]}"),
            *(
                "?order=newest&count=true",
                "?kind=reading&count=true",
                "?kind=event&kind=alert&count=true",
                f"?order=newest&cursor={CURSORS[3]}",
            ),
        ),
        FOREIGN,
        UNKNOWN,
    ),
    ("GET", "/api/containers/{number}/chart"): Probe(
        ("", "?pixels=10", "?pixels=1", f"?since_at_ms={NOW_MS - 1}", f"?until_at_ms={NOW_MS - HOUR_MS}"), FOREIGN, UNKNOWN
    ),
    ("GET", "/api/containers/{number}/hours"): Probe(
        ("", "?limit=1", f"?cursor={write_cursor((NOW_MS,))}"), foreign=FOREIGN, unknown=UNKNOWN
    ),
    ("GET", "/api/check/{number}"): Probe(
        foreign=(*FOREIGN, *(number[:10] + str((int(number[10]) + 1) % 10) for number in FOREIGN), "MSKU", "rubbish"), unknown=UNKNOWN
    ),
    ("GET", "/api/alerts"): Probe(
        (
            *("", "?state=open", "?state=closed", "?state=acknowledged", "?state=all", "?limit=1&count=true", "?state=odd", "?sort=newest"),
            *(f"?cursor={CURSORS[1]}", f"?cursor={CURSORS[2]}", f"?cursor={CURSORS[4]}", "?sort=oldest&limit=1", "?sort=odd"),
            *("?q=<>", "?box=<>", "?ship=<>&count=true", "?port=<>", "?customer=<>", "?incident=<>", "?rule=lost", "?severity=CRITICAL"),
        ),
        (*FOREIGN, OTHER_SHIP, "AUSYD", "machines", "i-2"),
        UNKNOWN,
    ),
    ("GET", "/api/alerts.csv"): Probe(("", "?state=odd", "?box=<>", "?ship=<>", "?customer=<>"), (FOREIGN[0], OTHER_SHIP), UNKNOWN),
    ("GET", "/api/incidents"): Probe(("", "?limit=1", f"?cursor={CURSORS[2]}")),
    ("GET", "/api/incidents/{incident_id}/search-area"): Probe(("", "?wind_speed_ms=9&wind_from_deg=1"), ("i-2", "i-1"), "i-none"),
    ("GET", "/api/incidents/{incident_id}/reports"): Probe(foreign=("i-2", "i-1"), unknown="i-none"),
    ("POST", "/api/incidents/{incident_id}/reports"): Probe(
        foreign=("i-2", "i-1"), unknown="i-none", json={"do": "edit", "report": "<>-1", "given": {"afloat": "1"}}
    ),
    ("GET", "/api/sightings"): Probe(),
    ("GET", "/api/notices"): Probe(),
    ("GET", "/api/reports/{report_id}/file"): Probe(("", "?as=pdf", "?as=odd"), foreign=("i-1-1",), unknown="i-none"),
    ("GET", "/api/notices/{notice_id}/file"): Probe(foreign=(digest("notice", "i-1", "machines"),), unknown="none"),
    ("GET", "/api/asks"): Probe(("", "?limit=1", "?cursor=rubbish")),
    ("GET", "/api/asks/{ask_id}"): Probe(foreign=("q1",), unknown="q2"),
    ("POST", "/api/asks"): Probe(json={"ship": SHIP, "container": FOREIGN[0], "since_at_ms": 0, "until_at_ms": NOW_MS}),
    ("POST", "/api/alerts/{act}"): Probe(unknown="acknowledge", json={"alert_ids": ["a-foreign"], "note": "why"}),
    ("GET", "/api/bookings"): Probe(("", "?limit=1", "?q=<>", "?q=B"), ("BK-9",), "BK-8"),
    ("GET", "/api/bookings/{reference:path}"): Probe(foreign=("BK-9",), unknown="BK-8"),
    ("GET", "/api/ports/{locode}"): Probe(foreign=("AUSYD", "SGSIN"), unknown="XXXXX"),
    ("POST", "/api/registry"): Probe(json={"entries": [{"type": "custody", "id": FOREIGN[0], "value": {}}]}),
    ("GET", "/api/registry/streams"): Probe(),
    ("GET", "/api/registry/load_lists/{ship}"): Probe(("", "?call=1"), foreign=(SHIP, OTHER_SHIP), unknown=make_imo(900000)),
    ("GET", "/api/status"): Probe(),
    ("GET", "/api/story"): Probe(),
}
OWN = {"number": DUCKS, "act": ["acknowledge", "unacknowledge", "close", "odd"], "reference": ["BK-1", "BK-2"], "locode": ["JPTYO"]}
"""What a customer may ask for by name: its answers must not differ between the worlds either."""
