"""Tables tell what the rows say, in words, with units and ages; evidence is told to customers too, without the words they may not read."""

from __future__ import annotations

from typing import Any

from cargo.vocabulary.instants import DOUBTED
from dashboards import alert_rows, markup, page_tables, texts
from tests.dashboards.rows import HOUR_MS, NOW_MS, age, alert, container, digest, fleet, lost, signals

NAMES = page_tables.names_of(fleet())


def test_the_temperature_that_counts() -> None:
    """Supply above -10 °C, return at or below, ambient for a dry box (DOMAIN 4)."""
    assert page_tables.control_air(container(signals=signals(setpoint_c=5.0, supply_c=5.1, return_c=6.0))) == ("supply", 5.1)
    assert page_tables.control_air(container(signals=signals(setpoint_c=-18.0, supply_c=-19.0, return_c=-17.5))) == ("return", -17.5)
    assert page_tables.control_air(container(signals=signals(ambient_c=30.0))) == ("ambient", 30.0)
    assert page_tables.control_air(container()) == ("ambient", None)


def test_how_a_call_stands() -> None:
    """Goal: what the list foretold is told as such, and once its time is past, that its departure is not confirmed."""

    def told(departs_ms: int, arrived_ms: int | None = None, sailed_ms: int | None = None) -> str:
        at = {"departs": departs_ms, "arrived": arrived_ms, "sailed": sailed_ms}
        return page_tables.call_when({f"{what}_at_ms": None if ms is None else NOW_MS + ms for what, ms in at.items()}, NOW_MS)

    assert told(2 * HOUR_MS) == "expected; planned departure in 2 h"
    assert told(-2 * HOUR_MS) == "planned departure 2 h ago, call not confirmed"
    arrived = f"in port since {texts.stamp(NOW_MS - 5 * HOUR_MS)} UTC, "
    assert told(HOUR_MS, -5 * HOUR_MS) == f"{arrived}planned departure {texts.stamp(NOW_MS + HOUR_MS)} UTC"
    assert told(-HOUR_MS, -5 * HOUR_MS) == f"{arrived}planned departure 1 h ago, departure not confirmed"
    assert told(-HOUR_MS, -5 * HOUR_MS, -HOUR_MS).endswith(f"sailed {texts.stamp(NOW_MS - HOUR_MS)} UTC")


def test_overboard_is_said_before_anything() -> None:
    assert page_tables.where(container(), {"BBLU1000088": lost("BBLU1000088")}, NAMES) == "Probably overboard"
    assert page_tables.where(container(ended=True), {}, NAMES) == "Aboard Ship 9999010, when the booking ended"
    nowhere: dict[str, Any] = {"place": None, "place_basis": None, "standing": "unreported"}
    assert page_tables.where(container(**nowhere), {}, NAMES) == "Place unknown", "it was heard, so it has reported"
    assert page_tables.where(container(**nowhere, at_ms=None, age_ms=None), {}, NAMES) == "Never reported"
    digested = container(**nowhere, at_ms=None, age_ms=None, digest=digest())
    assert page_tables.where(digested, {}, NAMES) == "Place unknown", "its ship heard it"
    quay = {"kind": "quay", "id": "SGSIN"}
    assert page_tables.where(container(place=quay, standing="delivered"), {}, NAMES) == "Delivered"
    assert page_tables.where(container(place=quay, place_basis="papers"), {}, NAMES).endswith(", by the papers")


def test_the_lost_with_cargo_and_position() -> None:
    """Slot, cargo with its UN number, last heard, position with its basis, probability; unknown boxes still have their row."""
    booked = {"booking": {"cargo": "batteries", "un_number": "3480"}, "container": container()}
    rows = page_tables.lost_rows([alert(), alert("a-2", "BBLU1000093", position=None)], {"BBLU1000088": booked}, NOW_MS)
    assert rows[0]["cargo"] == "batteries, UN 3480"
    assert rows[0]["heard"] == "1 h ago"
    assert rows[0]["position"] == "33°26.4′S 151°55.2′E (estimated)"
    assert rows[0]["chance"] == "99.99 %" or rows[0]["chance"] == "> 99.99 %"
    assert rows[1]["cargo"] == rows[1]["heard"] == rows[1]["position"] == "–"


def test_an_alerts_state() -> None:
    assert ">open<" in page_tables.state_pill(alert())
    noted = {"by": "Mira", "at_ms": NOW_MS - 60_000, "note": "a plug is out", "severity": "ALARM", "figure": 4.5, "unit": "°C"}
    assert "acknowledged by Mira" in page_tables.state_pill(alert(stage="acknowledged", acknowledgement=noted))
    assert "retracted" in page_tables.state_pill(alert(stage="closed", state="retracted"))
    worse = alert(acknowledgement=noted, reopened=True, change="4.5 → 42.5 °C", figure=42.5, unit="°C", limit=-15.0, count=3)
    assert "open, worse" in page_tables.state_pill(worse)
    times, since = alert_rows.sentences(worse, NOW_MS)
    assert (times[:7], since) == ("3 times", "Worse since Mira acknowledged it 1 min ago: 4.5 → 42.5 °C")
    assert alert_rows.figure(worse) == "42.5 °C, limit −15 °C"
    assert alert_rows.figure(alert(figure=-3.5, unit="°C", limit=0.0)) == "−3.5 °C, limit 0 °C"
    assert alert_rows.figure(alert(figure=3.5, unit="°C", limit=None)) == ""
    incident = alert(rule="incident", figure=7.0, unit="containers", limit=0.0)
    assert alert_rows.value(incident) == ""
    assert "figure" not in alert_rows.columns_of([incident])
    (row,) = alert_rows.alert_rows([alert(stage="closed", state="cleared", by="Jo", note="tracker taken off")], {}, NOW_MS)
    assert (row["state"], row["topic"], row["what"]) == ("closed by Jo", "BBLU1000088", "Probably overboard")


def test_an_alert_says_since_when() -> None:
    """Its text has times; the page adds the ages. Losses have a window, and what came several times says so elsewhere."""
    off = alert(rule="power_off", first_at_ms=NOW_MS - 2_300_000 - 4 * HOUR_MS)
    assert alert_rows.raised(off, NOW_MS) == "began 4 h 38 min ago, raised 38 min 20 s ago"
    others = ({"rule": "lost_container"}, {"count": 2}, {"first_at_ms": None}, {"first_at_ms": NOW_MS - 2_300_000})
    assert {alert_rows.raised({**off, **more}, NOW_MS) for more in others} == {"raised 38 min 20 s ago"}
    assert alert_rows.raised({**off, "clock_doubted": True}, NOW_MS).endswith(f"ago ({DOUBTED})")


def test_evidence_in_plain_words() -> None:
    """Operations read the detail; a customer, who gets none, still reads what was seen."""
    full = {"family": "kinematic", "signal": "shock", "weight": 3.0, "detail": "a shock of 8.3 g", "at_ms": NOW_MS}
    bare = {"family": "slot", "signal": "exposed", "at_ms": NOW_MS}
    word = {"family": "person", "signal": "reported", "weight": 0.0, "detail": "its loss was reported, says Moe", "at_ms": NOW_MS}
    rows = page_tables.evidence_rows(alert(evidence=[full, bare, word]))
    assert (rows[0]["family"], rows[0]["detail"], rows[0]["weight"]) == ("Its own movement", "a shock of 8.3 g", "1,000× for a loss")
    assert (rows[1]["detail"], rows[1]["weight"]) == ("on deck, outboard or aft", "–")
    assert (rows[2]["family"], rows[2]["weight"]) == ("A person's statement", "–"), "nobody's word opens a case"


def test_links_are_read_from_gauges() -> None:
    """One row a session with a peer, whose name may have dots; a gauge of another kind makes none."""
    measured = {"rtt_ms": 612.0, "backlog_records": 1284.0, "sent_bytes": 48_212.0}
    gauges = {f"link.hq.eu.satellite.{what}": value for what, value in measured.items()}
    told = {"node": "ship-1", "process": "ship", **age(), "counts": {}, "gauges": {**gauges, "links": 1.0}}
    (row,) = page_tables.link_rows([told])
    assert (row["peer"], row["class"], row["rtt"], row["backlog"]) == ("hq.eu", "satellite", "612 ms", "1,284 records")
    assert (row["sent"], row["received"]) == ("48.2 kB", "–")


def test_what_waits_on_board_has_its_age() -> None:
    """A row a ship and stream, since when, and when she said so; a ship on which nothing waits is there too."""
    told = [
        {"node": "albatross", **age(wall_ms=4_000), "streams": {"containers": {"records": 5_849, "since_at_ms": NOW_MS - 3_600_000}}},
        {"node": "cormorant", **age(wall_ms=900), "streams": {}},
    ]
    first, second = page_tables.waiting_rows(told, NOW_MS)
    assert (first["stream"], first["records"], first["since"], first["age"]) == ("containers", "5,849 records", "1 h ago", "4 s ago")
    assert (second["node"], second["records"], second["since"]) == ("cormorant", "0 records", "–")


def test_a_silent_process_is_marked() -> None:
    lively, silent = (
        {"node": "hq", "process": "api", **age(wall_ms=wall), "counts": {"records": 5}, "gauges": {}} for wall in (900, 600_000)
    )
    rows = page_tables.process_rows([lively, silent])
    assert rows[0]["word"] != rows[1]["word"]
    assert "10 min ago" in rows[1]["word"]
    assert rows[0]["counts"] == "5 records"


def test_streams_and_calls() -> None:
    streams = [
        {"stream": "events", "records": 5, "received_at_ms": NOW_MS - 60_000},
        {"stream": "containers", "records": 50, "received_at_ms": NOW_MS},
    ]
    assert [row["stream"] for row in page_tables.stream_rows(streams, NOW_MS)] == ["containers", "events"]
    times = {"sailed_at_ms": NOW_MS - 3_600_000, "arrived_at_ms": None}
    due = [{"ship": "9999010", "from": "JPTYO", **times, "boxes": {"count": 1200, "containers": []}}]
    row = {"ship": "Ship 9999010", "from": "JPTYO", "sailed": "1 h ago", "arrived": "never", "boxes": "1,200"}
    assert page_tables.due_in_rows(due, NAMES, NOW_MS) == [row]
    assert page_tables.unknown_on_list({"pod": 1, "container": 1200}).endswith(": valid number of 1,200 boxes, port of discharge of 1 box.")
    assert page_tables.unknown_on_list({}) == ""


def test_customers_alerts_without_free_text() -> None:
    (row,) = alert_rows.alert_rows([alert(status=None, rule="power_off", severity="ALARM", title="Alert: power_off")], {}, NOW_MS)
    assert (row["what"], row["rank"]) == ("Power off", 1.0)


def test_markup_escapes() -> None:
    """A name with markup in it stays a name."""
    evil = "<img src=x onerror=alert(1)>"
    tile = markup.strip([markup.Tile(evil, evil, evil)])
    table = markup.table((markup.MarkupColumn("a", evil),), [{"a": evil}], "")
    told = tile + table + markup.card(evil, "", note=evil) + markup.banner(evil, "alert", evil) + markup.pill(evil, "good")
    told += markup.facts({evil: evil}) + markup.swatch([1, 2, evil], evil) + markup.lines([(evil, evil, "good")]) + markup.paragraph(evil)
    assert "<img" not in told
    assert markup.table((), [], "nothing") == markup.paragraph("nothing", muted=True)


def test_what_is_wrong_is_told_with_its_process() -> None:
    well, ill = ({"node": node, "process": "ship", "troubles": troubles} for node, troubles in (("a", []), ("b", ["two of one name"])))
    assert page_tables.troubles([well, ill]) == [("ship at b", "two of one name")]


def test_the_boxes_of_an_incident_that_nothing_confirms_are_named() -> None:
    judged = {"ship": "9321483", "unconfirmed": False, "unconfirmed_containers": ["DUCU1001000", "DUCU1011005"]}
    assert "no load list of Big Blue One has DUCU1001000, DUCU1011005." in page_tables.unconfirmed_note(judged, {"9321483": "Big Blue One"})
    all_of_them = page_tables.unconfirmed_note({**judged, "unconfirmed": True}, {}, "these boxes")
    assert "has these boxes." in all_of_them
    assert page_tables.unconfirmed_note({**judged, "unconfirmed_containers": []}, {}) == ""
