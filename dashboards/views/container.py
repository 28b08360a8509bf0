"""One container: where it is and how old that is, its temperatures, its milestones over ships and quays, its alerts, its track."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from cargo.loss.accounted_boxes import UNHEARD
from dashboards import charts, container_history, digest_rows, headline, map_layers, map_marks, markup, page_tables, texts, theme
from dashboards.api_client import NotThere, address
from dashboards.views import parts, tab_session

Answer = Mapping[str, Any]
MAP_HEIGHT_PX, MAP_WIDTH_PX = 300, 480
REFRESH_FACTOR = 3
MILESTONES = 100
"""Events and alerts that are shown at first, and how many more each time they are asked for."""
Span = tuple[int | None, int | None]
SIGNALS = {
    "setpoint_c": ("Setpoint", "°C", 1),
    "supply_c": ("Supply air", "°C", 1),
    "return_c": ("Return air", "°C", 1),
    "ambient_c": ("Ambient", "°C", 1),
    "humidity_pct": ("Humidity", "% RH", 0),
    "o2_pct": ("Oxygen", "%", 1),
    "co2_pct": ("Carbon dioxide", "%", 1),
    "battery_mv": ("Battery", "mV", 0),
    "rssi_dbm": ("Radio signal", "dBm", 0),
    "shock_g": ("Last shock", "g", 1),
    "tilt_deg": ("Tilt", "°", 0),
}
SWITCHES = {"power_on": ("Power", "on", "off"), "defrosting": ("Defrosting", "yes", "no"), "door_open": ("Door", "open", "closed")}


def show(number: str) -> None:
    """Draw the page; it asks again by itself."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("All containers", icon=":material/arrow_back:"):
            del st.query_params["container"]
            st.rerun()
        st.html(f'<div class="lf-heading"><span class="lf-mono">{markup.escape(number)}</span></div>')
    st.fragment(_live, run_every=tab_session.settings().refresh_s * REFRESH_FACTOR)(number)


def _live(number: str) -> None:
    with tab_session.handle_trouble():
        try:
            answer = tab_session.ask(address("containers", number))
        except NotThere as problem:
            st.html(markup.banner(str(problem), "warning", problem.hint))
            return
        span = st.session_state.get(f"span-{number}", (None, None))
        chart = tab_session.ask(address("containers", number, "chart"), since_at_ms=span[0], until_at_ms=span[1])
        milestones = _milestones(number, span)
        fleet = tab_session.ask("/map")
        names, now = page_tables.names_of(fleet, answer, milestones), tab_session.latest_now_ms(answer, chart, milestones, fleet)
        lost = {box["container"]: box for box in fleet["lost"]}
        if wrong := texts.number_problem(answer["container"]):
            st.html(markup.banner(*wrong))
        st.html(markup.strip(_tiles(answer, lost, names, now)))
        _digest(answer["container"])
        wide, side = st.columns([2.15, 1], gap="medium")
        with wide:
            _chart(number, chart, span, now)
            _papers(answer, chart, names)
        with side:
            overboard = {number: box for number, box in lost.items() if not box["unconfirmed"]}
            _where_map(answer, chart, fleet, overboard, now)
            parts.heading("Milestones", f"newest first, {parts.as_of(answer)}")
            st.html(markup.lines(container_history.milestones(milestones["items"], names)) or markup.paragraph("None yet.", muted=True))
            _older(number, milestones)
        if answer["alerts"]:
            parts.heading("Alerts", texts.counted(len(answer["alerts"]), "open or acknowledged", "open or acknowledged"))
            parts.alert_list(answer["alerts"], names, now, "container-alert")


def _tiles(answer: Answer, lost: Mapping[str, Answer], names: Mapping[str, str], now_at_ms: int) -> list[markup.Tile]:
    box = answer["container"]
    air, value = page_tables.control_air(box)
    spoke = box["signals"].get(f"{air}_c")
    loss = lost.get(box["number"])
    overboard = loss is not None and not loss["unconfirmed"]
    digest = digest_rows.of(box)
    place_note = texts.slot(lost[box["number"]]["slot"]) if overboard else f"heard {digest_rows.heard(box)}"
    last = digest or box
    heard_tone = "alert" if overboard else "warning" if box["account"] in UNHEARD else "plain"
    tiles = [
        markup.Tile("Now", page_tables.where(box, lost, names), place_note, "alert" if overboard else "plain"),
        markup.Tile("Last heard", texts.ago(last["age_ms"]), _moment(last["at_ms"], digest), heard_tone),
        markup.Tile(f"{air.capitalize()} air", texts.measured(value, "°C"), texts.age(spoke["at_ms"] if spoke else None, now_at_ms)),
    ]
    if answer["booking"]:
        booking = answer["booking"]
        way = f"{names.get(booking['from'], booking['from'])} → {names.get(booking['to'], booking['to'])}"
        tiles.append(markup.Tile("Booking", booking["reference"], f"{booking['cargo']} · {way}"))
    tiles.append(headline.box_alerts_tile(answer["alerts"]))
    return tiles


def _moment(at_ms: int | None, digest: Answer | None) -> str:
    return f"{texts.moment(at_ms)}, by the ship's summary" if digest else texts.moment(at_ms)


def _digest(box: Answer) -> None:
    """Show the ship's digest of readings that wait on board, marked as such: not to an owner, nor where the readings here are newer."""
    digest = digest_rows.of(box)
    if digest and "readings" in digest:
        parts.heading("Latest summary from ship", "of readings that wait on board")
        st.html(markup.paragraph(digest_rows.sentence(digest), muted=True))
        st.html(markup.table(digest_rows.COLUMNS, digest_rows.air_rows(digest), "No temperature."))
        st.html(markup.facts(digest_rows.facts(digest)))


def _milestones(number: str, span: Span) -> Answer:
    """Return the newest events and alerts of the span, as many as the viewer has asked for."""
    shown = st.session_state.get(f"milestones-{number}", MILESTONES)
    asked = {"kind": ("event", "alert"), "order": "newest", "count": True, "since_at_ms": span[0], "until_at_ms": span[1]}
    return tab_session.ask_all(address("containers", number, "timeline"), rows_max=shown, **asked)


def _older(number: str, milestones: Answer) -> None:
    """Draw how many records are not shown, and the way to them."""

    def more() -> None:
        st.session_state[f"milestones-{number}"] = len(milestones["items"]) + MILESTONES

    if left := milestones["count"] - len(milestones["items"]):
        st.html(markup.paragraph(f"{texts.counted(left, 'older event or alert', 'older events and alerts')} not shown", muted=True))
        st.button("Show older", on_click=more)


def _chart(number: str, chart: Answer, span: Span, now_at_ms: int) -> None:
    """Draw the temperatures of the span. A span that is dragged over is asked for from then on."""
    asked, key = f"span-{number}", f"temperatures-{span[0]}-{span[1]}"

    def zoom() -> None:
        if dragged := st.session_state[key]["selection"][charts.ZOOM].get("at_ms"):
            st.session_state[asked] = (int(dragged[0]), int(dragged[1]) + 1)

    with st.container(horizontal=True, vertical_alignment="center"):
        parts.heading("Temperatures", _chart_note(chart, zoomed=span != (None, None)))
        if span != (None, None):
            st.button("Show all", icon=":material/zoom_out:", on_click=st.session_state.pop, args=(asked,))
    if not chart["lines"]:
        st.html(markup.paragraph("No temperature has been measured.", muted=True))
        return
    st.vega_lite_chart(
        charts.temperature_chart(chart, now_at_ms), width="stretch", theme=None, key=key, on_select=zoom, selection_mode=charts.ZOOM
    )


def _chart_note(chart: Answer, *, zoomed: bool) -> str:
    notes = ["UTC"]
    if zoomed:
        notes = [f"{texts.stamp(chart['since_at_ms'])} to {texts.stamp(chart['until_at_ms'])} UTC"]
    if container_history.bands(chart) or chart["shocks"]["at_ms"]:
        notes.append("bands: defrost, power off, not proven yet; triangles: shocks of 2 g and more")
    measured, shown = container_history.drawn(chart)
    if measured > shown:
        notes.append(f"{texts.number(measured)} values, of which the lowest and highest of each pixel are drawn; drag to zoom in")
    return "; ".join(notes)


def _papers(answer: Answer, chart: Answer, names: Mapping[str, str]) -> None:
    left, right = st.columns(2, gap="medium")
    now = answer["clock"]["now_at_ms"]
    with left:
        parts.heading("Latest sensor readings", "each with its own age")
        columns = (
            markup.MarkupColumn("what", "Signal"),
            markup.MarkupColumn("value", "Value", right=True),
            markup.MarkupColumn("age", "Age", right=True),
        )
        st.html(markup.table(columns, _signal_rows(answer["container"], now), "No reading yet."))
    with right:
        parts.heading("Booking and data quality", "booking, custody, readings")
        st.html(markup.facts(_facts(answer, names) | container_history.completeness(chart)))


def _signal_rows(box: Answer, now_at_ms: int) -> list[dict[str, str]]:
    rows = []
    for name, (what, unit, places) in SIGNALS.items():
        if reading := box["signals"].get(name):
            value = texts.measured(reading["value"], unit, places)
            rows.append({"what": what, "value": value, "age": texts.age(reading["at_ms"], now_at_ms)})
    for name, (what, yes, no) in SWITCHES.items():
        if reading := box["signals"].get(name):
            rows.append({"what": what, "value": yes if reading["value"] else no, "age": texts.age(reading["at_ms"], now_at_ms)})
    return rows


def _facts(answer: Answer, names: Mapping[str, str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    if booking := answer["booking"]:
        consignee = names.get(f"customer/{booking['consignee']}") or booking["consignee"] or texts.NOTHING
        facts |= {"Booking": booking["reference"], "Cargo": booking["cargo"], "Consignee": consignee}
        if booking["un_number"]:
            facts["Dangerous goods"] = f"UN {booking['un_number']}"
        for span in booking["containers"]:
            facts["Packed"] = f"{texts.stamp(span['from_at_ms'])} UTC"
            facts["Unpacked"] = f"{texts.stamp(span['until_at_ms'])} UTC" if span["until_at_ms"] else "not yet planned"
    if custody := answer["custody"]:
        facts["Custody by documents"] = f"{texts.custody(custody['at'], names)}, since {texts.stamp(custody['since_at_ms'])} UTC"
    return facts


def _where_map(answer: Answer, chart: Answer, fleet: Answer, overboard: Mapping[str, Answer], now_at_ms: int) -> None:
    box, own = answer["container"], container_history.track(chart)
    spot = map_marks.spot_of(box, fleet, overboard)
    parts.heading("Track", texts.counted(chart["track"]["measured"], "position"))
    point = [spot["longitude_deg"], spot["latitude_deg"]] if spot else None
    drawn = map_layers.container_layers(own, point, box["number"] in overboard, texts.ago(box["age_ms"]))
    camera = map_layers.camera_for([*own, *([point] if point else [])], MAP_WIDTH_PX, MAP_HEIGHT_PX)
    st.pydeck_chart(map_layers.deck(drawn, camera), height=MAP_HEIGHT_PX, key=f"track-{box['number']}", alt="Map of the container's way")
    if spot:
        st.html(markup.paragraph(f"{texts.position(spot)} · {texts.age(spot['at_ms'], now_at_ms)}", muted=True))
    else:
        st.html(f'<p style="color:{theme.MUTED}">Place unknown.</p>')
