"""The customer's portal: its boxes on the map, its bookings with their conditions, its alerts; nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from cargo.vocabulary.instants import DOUBTED
from dashboards import map_layers, markup, page_tables, texts
from dashboards.api_client import address
from dashboards.data_grids import GridColumn
from dashboards.views import parts, tab_session
from dashboards.views.alert_table import alert_table
from dashboards.views.container_list import container_list

Answer = Mapping[str, Any]
ALL_BOOKINGS = "All bookings"
MAP_HEIGHT_PX, MAP_WIDTH_PX = 430, 900
_BEAT, _CAMERA = "portal_beat", "portal_camera"


def show() -> None:
    """Draw the page: the map asks again by itself, the lists below it less often."""
    refresh_s = tab_session.settings().refresh_s
    st.fragment(_map, run_every=refresh_s)()
    st.fragment(_alerts, run_every=refresh_s * 2)()
    st.fragment(_bookings, run_every=refresh_s * 3)()


def _map() -> None:
    st.session_state[_BEAT] = st.session_state.get(_BEAT, 0) + 1
    with tab_session.handle_trouble():
        fleet = tab_session.ask("/map")
        camera = st.session_state.get(_CAMERA) or map_layers.camera_over(fleet["bounds"], MAP_WIDTH_PX, MAP_HEIGHT_PX)
        st.session_state[_CAMERA] = camera
        drawn = map_layers.fleet_layers(fleet, fleet["clock"]["now_at_ms"], st.session_state[_BEAT])
        st.pydeck_chart(map_layers.deck(drawn, camera), height=MAP_HEIGHT_PX, key="portal-map", alt="Map of your containers")
        st.html(markup.paragraph(f"Your boxes and the ships and quays they are on, {parts.as_of(fleet)}.", muted=True))


def _alerts() -> None:
    with tab_session.handle_trouble():
        parts.heading("Alerts", "about your boxes")
        alert_table(tab_session.ask("/fleet"), "portal-alerts")


def _bookings() -> None:
    with tab_session.handle_trouble():
        _notices()
        papers = tab_session.ask_all("/bookings")
        bookings = papers["items"]
        boxes = tab_session.ask_all("/containers")
        fleet = tab_session.ask("/map")
        parts.heading("Bookings", f"{texts.counted(len(bookings), 'booking')} · {parts.as_of(boxes)}")
        if bookings:
            parts.typed_table(BOOKINGS, booking_rows(bookings, boxes["items"], page_tables.names_of(fleet, papers)), key="portal-bookings")
        else:
            st.html(markup.paragraph("No booking yet.", muted=True))
        parts.heading("Containers", "all of yours, or those of one booking")
        references = [booking["reference"] for booking in bookings]
        chosen = st.selectbox("Booking", [ALL_BOOKINGS, *references], key="portal-booking", label_visibility="collapsed")
        container_list(fleet, "portal-boxes", booking=None if chosen == ALL_BOOKINGS else chosen)


def _notices() -> None:
    """Show what the carrier reports to this owner on its boxes in loss reports, from when its policy lets owners know."""
    notices = tab_session.ask("/notices")
    for notice in notices["items"]:
        with st.container(border=True, key=f"notice-{notice['notice_id']}"):
            ship = f"{notice['ship_name'] or 'Ship'} (IMO {notice['ship']})"
            parts.heading("Notice of loss", f"{ship} · {texts.counted(len(notice['boxes']), 'container')} of yours")
            st.html(markup.table(page_tables.NOTICED, page_tables.notice_rows(notice), ""))
            if notice["clock_doubted"]:
                st.html(markup.paragraph(DOUBTED.capitalize(), muted=True))
            file = f"notice-{notice['notice_id'][:8]}.txt"
            key = f"save-{notice['notice_id']}"
            download = tab_session.file(address("notices", notice["notice_id"], "file"))
            st.download_button("Save the notice", download, file, "text/plain", key=key, icon=":material/download:", on_click="ignore")


BOOKINGS = {
    "reference": GridColumn("Booking"),
    "cargo": GridColumn("Cargo"),
    "way": GridColumn("From and to"),
    "setpoint_c": GridColumn("Setpoint", texts.celsius),
    "boxes": GridColumn("Boxes", texts.number),
    "ship": GridColumn("Aboard", texts.number),
    "quay": GridColumn("On quays", texts.number),
    "lost": GridColumn("Lost", texts.number, tone=lambda count: "alert" if count else "muted"),
    "delivered": GridColumn("Delivered", texts.number),
    "unreported": GridColumn("Never reported", texts.number),
    "age_ms": GridColumn("Last update", texts.ago),
}


def booking_rows(bookings: Sequence[Answer], boxes: Sequence[Answer], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return rows of BOOKINGS."""
    rows = []
    for booking in bookings:
        ages = [box["age_ms"] for box in boxes if box["booking"] == booking["reference"] and box["age_ms"] is not None]
        standing = Counter(box["standing"] for box in booking["containers"])
        rows.append(
            {
                "reference": booking["reference"],
                "cargo": booking["cargo"],
                "way": f"{names.get(booking['from'], booking['from'])} → {names.get(booking['to'], booking['to'])}",
                "setpoint_c": booking["setpoint_c"],
                "boxes": len(booking["containers"]),
                **{name: standing[name] for name in ("ship", "quay", "lost", "delivered", "unreported")},
                "age_ms": min(ages, default=None),
            }
        )
    return rows
