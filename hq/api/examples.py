"""An example answer of each endpoint, for the docs at `/docs`. A test holds their fields to those of real answers."""

from __future__ import annotations

from typing import Any

from cargo.report.loss_form import DRIFTING, Filled, as_json
from cargo.search.search_area import NOTE
from hq.api.alert_examples import ALERT, ALERT_ON_MAP, AT, BOX, IMO, LOST

Fields = dict[str, Any]
_FRAME: Fields = {"clock": {"now_at_ms": AT, "speed": 3600.0, "state": "running", "movable": True}, "as_of_at_ms": AT - 3_000}
_PLACE = {"kind": "ship", "id": IMO}
_NAMES = {IMO: "Big Blue One", "SGSIN": "Singapore", "customer/toys": "Toys of London"}
_NAMED = {"count": 1, "containers": [BOX]}
_PORT = {"locode": "SGSIN", "name": "Singapore", "latitude_deg": 1.26, "longitude_deg": 103.8, "radius_nm": 5.0}
_AGE = {"at_ms": AT - 3_000, "wall_at_ms": AT - 1, "age_ms": 3_000, "wall_age_ms": 1}
_SHIP: Fields = {
    "imo": IMO,
    "name": "Big Blue One",
    "call_sign": "9V1234",
    "mmsi": "563012345",
    "flag": "SG",
    "capacity_boxes": 2000,
    "position": {"latitude_deg": -33.1, "longitude_deg": 153.2, "at_ms": AT - 60_000, "age_ms": 60_000},
    "speed_kn": 16.2,
    "course_deg": 191.0,
    "roll_deg": 3.5,
    "track": [[153.3, -32.9, AT - 120_000], [153.2, -33.1, AT - 60_000]],
}
_STANDS: Fields = {"place": _PLACE, "place_basis": "sensors", "standing": "ship", "account": "heard", "position": None}
_STANDS |= {"at_ms": AT - 600_000, "age_ms": 600_000}
_CONTAINER: Fields = {
    "number": BOX,
    "number_problem": None,
    **_STANDS,
    "owner_told": True,
    "booking": "BK-2041",
    "customer": "duckworks",
    "until_at_ms": None,
    "ended": False,
    "signals": {"return_c": {"value": 4.2, "at_ms": AT - 600_000}},
    "digest": {
        "at_ms": AT - 240_000,
        "age_ms": 240_000,
        "node": "albatross",
        "from_at_ms": AT - 21_720_000,
        "until_at_ms": AT - 120_000,
        "readings": 6,
        "signals": {"return_min_c": 3.9, "return_mean_c": 4.1, "return_max_c": 4.4, "silence_max_s": 3_600},
    },
    "open_alerts": 1,
}
_BOOKING: Fields = {
    "reference": "BK-2041",
    "consignee": "Toys of London",
    "cargo": "toy ducks",
    "from": "JPTYO",
    "to": "GBLON",
    "setpoint_c": None,
    "un_number": None,
    "customer": "duckworks",
    "version": 1,
    "containers": [{"container": BOX, "from_at_ms": AT - 86_400_000, "until_at_ms": None, "ended": False, "standing": "ship"}],
}
_INCIDENT: Fields = {
    "incident_id": "77aa",
    "ship": IMO,
    "status": "PROBABLE_OVERBOARD",
    "unconfirmed": False,
    "unconfirmed_containers": [],
    "clock_doubted": False,
    "severity": "CRITICAL",
    "title": "7 boxes overboard",
    "detail": "bays 74 to 76",
    "open_alerts": 8,
    "containers": [BOX],
    "at_risk": [],
    "bays": [74, 76],
    "raised_at_ms": AT - 90_000,
    "changed_at_ms": AT,
    "position": {"latitude_deg": -33.9, "longitude_deg": 151.3},
}
_GROUP = {"owner_told": True, "customer": "duckworks", "name": "Duckworks", "colour": [240, 200, 40], "boxes": 40}
_RECORD: Fields = {
    "kind": "reading",
    "at_ms": AT - 600_000,
    "received_at_ms": AT - 599_000,
    "device": "TRK-00412",
    "device_at_ms": AT - 600_000,
    "signals": {"return_c": 4.2, "power_on": True},
    "body": None,
    "taken_in_by": "albatross",
    "proven": False,
    "signed_at_ms": AT - 640_000,
}
_READINGS = {"count": 98, "first_at_ms": AT - 86_400_000, "last_at_ms": AT - 600_000, "longest_silence_ms": 900_000, "fell_back": 0}
_CHART: Fields = {
    "since_at_ms": AT - 86_400_000,
    "until_at_ms": AT - 599_999,
    "readings": {**_READINGS, "unproven": {"count": 1, "taken_in_by": ["albatross"], "signed_at_ms": AT - 640_000}},
    "lines": {"return_c": {"measured": 98, "at_ms": [AT - 86_400_000, AT - 600_000], "return_c": [4.1, 4.2]}},
    "shocks": {"measured": 0, "at_ms": [], "shock_g": []},
    "track": {"measured": 1, "at_ms": [AT - 600_000], "latitude_deg": [-33.1], "longitude_deg": [153.2]},
    "bands": {"defrost": [], "power_off": [[AT - 700_000, AT - 600_000]], "unproven": [[AT - 600_000, AT - 600_000]]},
}
_MUSTER: Fields = {
    "at_ms": AT,
    "total": 1842,
    "instrumented": 1800,
    "accounted": 1800,
    "reasons": {"heard": 1800, "not_instrumented": 42},
    "not_on_list": [],
    "not_heard_since_loading": [],
    "missing": [],
    "late": [],
    "gone": [],
}
_CALL: Fields = {
    "ship": IMO,
    "call": 2,
    "departs_at_ms": AT,
    "arrived_at_ms": AT - 80_000_000,
    "sailed_at_ms": None,
    **dict.fromkeys(("to_load", "to_discharge", "loaded", "discharged", "lost", "left_behind", "new_aboard"), _NAMED),
    "muster": _MUSTER,
    "unknown": {},
}
_ASK: Fields = {
    "ask_id": "3f0c9a1b2d4e",
    "ship": IMO,
    "container": BOX,
    "since_at_ms": AT - 86_400_000,
    "until_at_ms": AT,
    "spend": "budget",
    "at_most": None,
    "asked_at_ms": AT - 5_000,
    "asked_by": "Mira",
    "state": "answered",
    "arrived": True,
    "answer": {
        "node": "ship-9321483",
        "at_ms": AT - 3_000,
        "wall_at_ms": AT - 1,
        "told": "cost 0.0241: 96 records, 3,007 bytes over the satellite link; 4,102,400 bytes are left today "
        "besides what its open link holds on lease, which is given back as it closes",
        "records": 96,
        "sent_before": 0,
        "bytes": 3_007,
        "link": "satellite",
        "cost": 0.0241,
        "free_bytes": 4_102_400,
        "granted_bytes": 0,
    },
}
_LOAD_LIST: Fields = {
    "ship": IMO,
    "port": "SGSIN",
    "call": 2,
    "aboard": [
        {"container": BOX, "slot": "0740282", "size_type": "45G1", "pol": "JPTYO", "pod": "GBLON", "booking": "BK-2041", "tracker": True}
    ],
    "load": [],
    "discharge": [],
    "departs_at_ms": AT,
}
_PROCESS: Fields = {"node": "hq", "process": "analytics", **_AGE, "troubles": [], "counts": {"records": 1}, "gauges": {}, "histograms": {}}
_SEGMENT = {
    "type": "Feature",
    "geometry": {"type": "LineString", "coordinates": [[151.3, -33.9], [151.29, -33.95]]},
    "properties": {"what": "segment", "from_at_ms": AT - 690_000, "until_at_ms": AT - 90_000},
}
_RING = [[151.29, -33.81], [151.36, -33.83], [151.33, -33.7], [151.29, -33.81]]
_HULL = {
    "type": "Feature",
    "geometry": {"type": "Polygon", "coordinates": [_RING]},
    "properties": {
        "what": "hull",
        "class": "container_20ft",
        "told": "20-foot container, 80 % submerged",
        "share": 0.95,
        "hours": 24,
        "at_ms": AT,
        "area_nm2": 12.4,
        "note": NOTE,
    },
}
_LOST_BOX: Fields = {
    "container": BOX,
    "at_ms": AT - 95_000,
    "listed": f"{IMO}/2",
    "slot": "0740282",
    "size_type": "45G1",
    "empty": False,
    "dangerous": "UNKNOWN",
    "un_numbers": [],
    "imdg_classes": [],
    "cargo": "toy ducks",
    "booking": "BK-2041",
    "lost_at_ms": AT - 95_000,
    "lost_until_ms": AT - 90_000,
    "blow": True,
    "latitude_deg": -33.9,
    "longitude_deg": 151.3,
    "posterior": 0.99,
    "status": "PROBABLE_OVERBOARD",
    "evidence": ["a shock of 6.1 g"],
}
_REPORT: Fields = {
    "report_id": "77aa-1",
    "incident_id": "77aa",
    "ship": IMO,
    "kind": "INITIAL",
    "number": 1,
    "refers_to": None,
    "state": "sent",
    "revision": 1,
    "digest": "3f2a91c0",
    "written_at_ms": AT - 80_000,
    "written_by": "Mate Meyer",
    "approved_by": "Master Moe",
    "approved_at_ms": AT - 60_000,
    "sendings": [{"sent_at_ms": AT - 50_000, "to": "COASTAL_STATE", "name": "RCC Australia", "means": "Inmarsat-C", "by": "Master Moe"}],
    "receipts": [
        {"acknowledged_at_ms": AT - 40_000, "to": "COASTAL_STATE", "name": "RCC Australia", "who": "duty officer", "by": "Master Moe"}
    ],
    "empty": ["wind"],
    "locked": ["imo"],
    "clock_doubted": False,
    "lines": as_json(
        {"number_lost": Filled(1, "RECKONED", "by each box's own evidence; 0 without a working tracker in their stacks not counted")}
    ),
    "lost": [_LOST_BOX],
    "at_risk": [],
    "found": [],
    "text": "LOSS OF FREIGHT CONTAINER(S) FROM A SHIP …",
}
_SIGHTING: Fields = {
    **_REPORT,
    "report_id": f"{IMO}-5e5e-1",
    "incident_id": f"{IMO}-5e5e",
    "lines": as_json({"type": Filled(DRIFTING, "GIVEN", "Mate Meyer"), "number_lost": Filled(2, "GIVEN", "Mate Meyer")}),
    "lost": [],
    "text": "DRIFTING FREIGHT CONTAINER(S) OBSERVED …",
}
_NOTICE: Fields = {
    "notice_id": "b7e1",
    "customer": "duckworks",
    "ship": IMO,
    "ship_name": "Big Blue One",
    "clock_doubted": False,
    "boxes": [
        {
            "container": BOX,
            "booking": "BK-2041",
            "cargo": "toy ducks",
            "became": "PROBABLY_LOST",
            "lost_at_ms": AT - 95_000,
            "lost_until_ms": AT - 90_000,
            "latitude_deg": -33.9,
            "longitude_deg": 151.3,
            "unconfirmed": False,
        }
    ],
    "text": "Notice to duckworks: …",
}
_PLACED = {"place": _PLACE, "latitude_deg": -33.1, "longitude_deg": 153.2, "boxes": 40, "groups": [_GROUP]}
_MUSTERED = {"boxes": 1398, "accounted": 1392, "accounts": {"by_ship": 1392, "under_1d": 6}, "stated_at_ms": AT, "overdue": False}
_SHIP_NOW = {**_SHIP, "boxes": 1400, "heard_at_ms": AT, "muster": _MUSTERED}
_PORT_NOW = {**_PORT, "muster": _MUSTERED}
_PLACES = {"on_ship": 1400, "on_quay": 503, "delivered": 90, "unreported": 0}
_ALSO: Fields = {"customers": [{"id": "duckworks", "name": "Duckworks"}], "muster": _MUSTERED}
_OPEN = {"open_alerts": 8, "acknowledged_alerts": 2}
_COUNTS = {"boxes": 2000, "lost": 7, "lost_closed": 0, "lost_unconfirmed": 0, "misread": 0, **_PLACES, **_OPEN}

EXAMPLES: dict[tuple[str, str], Fields] = {
    ("get", "/api/clock"): {"clock": _FRAME["clock"]},
    ("get", "/api/fleet"): {
        **_FRAME,
        "ships": [_SHIP_NOW],
        "ports": [_PORT_NOW],
        "counts": _COUNTS,
        **_ALSO,
    },
    ("get", "/api/map"): {
        **_FRAME,
        "ships": [_SHIP],
        "ports": [_PORT],
        "places": [_PLACED],
        "lost": [LOST],
        "alerts": [ALERT_ON_MAP],
        "bounds": {"south": -33.9, "west": 103.8, "north": 1.26, "east": 153.2},
    },
    ("get", "/api/containers"): {
        **_FRAME,
        "items": [_CONTAINER],
        "next": "WyJudW1iZXIiLCJNU0tVMTIzNDU2NSJd",
        "count": 1_993,
        "names": _NAMES,
    },
    ("get", "/api/containers/{number}"): {
        **_FRAME,
        "container": _CONTAINER,
        "booking": _BOOKING,
        "custody": {"at": f"ship/{IMO}", "since_at_ms": AT},
        "alerts": [ALERT],
        "names": _NAMES,
    },
    ("get", "/api/containers/{number}/timeline"): {
        **_FRAME,
        "number": BOX,
        "items": [_RECORD],
        "next": None,
        "count": None,
        "names": _NAMES,
    },
    ("get", "/api/containers/{number}/chart"): {**_FRAME, "number": BOX, **_CHART},
    ("get", "/api/alerts"): {
        **_FRAME,
        "items": [ALERT],
        "next": None,
        "names": _NAMES,
        "counts": {"open": 7, "acknowledged": 2, "closed": 31},
        "rows": 41,
    },
    ("get", "/api/incidents"): {**_FRAME, "items": [_INCIDENT], "next": None},
    ("get", "/api/incidents/{incident_id}/search-area"): {
        **_FRAME,
        "incident_id": "77aa",
        "ship": IMO,
        "hours": 24,
        "weather": {
            "basis": "SHIP",
            "at_ms": AT - 600_000,
            "wind_speed_ms": 17.0,
            "wind_from_deg": 200.0,
            "current_speed_ms": 0.0,
            "current_towards_deg": 0.0,
        },
        "area": {"type": "FeatureCollection", "note": NOTE, "features": [_SEGMENT, _HULL]},
    },
    ("get", "/api/incidents/{incident_id}/reports"): {
        "clock": _FRAME["clock"],
        "as_of_at_ms": None,
        "incident_id": "77aa",
        "items": [_REPORT],
    },
    ("get", "/api/sightings"): {"clock": _FRAME["clock"], "as_of_at_ms": None, "items": [_SIGHTING]},
    ("get", "/api/asks"): {"clock": _FRAME["clock"], "as_of_at_ms": None, "items": [_ASK], "next": None},
    ("get", "/api/notices"): {"clock": _FRAME["clock"], "as_of_at_ms": None, "items": [_NOTICE]},
    ("get", "/api/bookings"): {**_FRAME, "items": [_BOOKING], "next": None, "names": _NAMES},
    ("get", "/api/bookings/{reference}"): {**_FRAME, "booking": _BOOKING, "names": _NAMES},
    ("get", "/api/ports/{locode}"): {
        **_FRAME,
        "port": _PORT,
        "due_in": [{"ship": IMO, "from": "JPTYO", "sailed_at_ms": AT, "boxes": _NAMED}],
        "in_port": [{"ship": IMO, "from": "JPTYO", "sailed_at_ms": AT, "boxes": _NAMED, "arrived_at_ms": AT}],
        "unknown_pod": [],
        "lost": _NAMED,
        "on_quay": _NAMED,
        "muster": _MUSTERED,
        "calls": [_CALL],
    },
    ("get", "/api/registry/load_lists/{ship}"): {
        "clock": _FRAME["clock"],
        "as_of_at_ms": None,
        "ship": IMO,
        "name": "Big Blue One",
        "calls": [{"call": 2, "port": "SGSIN", "departs_at_ms": AT, "boxes": 1}],
        "load_list": _LOAD_LIST,
        "unknown": [{"line": 7, "container": "MSKU123456", "number_kind": "owner", "unknown": ["pod"]}],
    },
    ("get", "/api/story"): {**_FRAME, "items": [{"chapter": "A", "title": "Tokyo", "text": "…", "look": "map", "at_ms": AT}]},
    ("get", "/api/status"): {
        **_FRAME,
        "spark": {**_AGE, "well": True},
        "projector": _AGE,
        "processes": [_PROCESS],
        "waiting": [{"node": "albatross", **_AGE, "streams": {"containers": {"records": 5_849, "since_at_ms": AT}}}],
        "readings": 119_000,
        "streams": [{"stream": "containers", "records": 120_000, "received_at_ms": AT}],
    },
}
