"""Find a container by its number or its booking, with help when a number was misread."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboards import markup
from dashboards.api_client import Answer, NotThere, address
from dashboards.views import container, parts, tab_session
from dashboards.views.container_list import container_list

CANDIDATES_ASKED = 20
LIST_REFRESH_FACTOR = 3


def show() -> None:
    """Draw the page of one container when the address names one, else the search."""
    number = st.query_params.get("container")
    if number:
        container.show(number)
        return
    parts.heading("Containers", "by number, or the beginning of one, or by booking")
    by_number, by_booking, by_place = st.columns([1.2, 1, 1.2])
    wanted = by_number.text_input("Container number", placeholder="for example BBLU 100 008 8", key="wanted-number")
    booking = by_booking.text_input("Booking", placeholder="for example BB7310148", key="wanted-booking")
    place = _place(by_place)
    with tab_session.handle_trouble():
        if wanted.strip() and not booking.strip():
            _open_or_help(wanted.strip())
    st.fragment(_listed, run_every=tab_session.settings().refresh_s * LIST_REFRESH_FACTOR)(wanted.strip(), booking.strip(), place)


def _open_or_help(wanted: str) -> None:
    """Open the container of this number; else say what is wrong with the number, and which it may have been."""
    check = tab_session.ask(address("check", wanted))
    if check["valid"]:
        try:
            found = tab_session.ask(address("containers", check["number"]))
        except NotThere as problem:
            st.html(markup.banner(f"{check['number']}: {problem}", "warning", problem.hint))
            return
        tab_session.open_container(found["container"]["number"])
    if check["number"] and len(check["number"]) >= 10:
        _help(check)


def _help(check: Answer) -> None:
    st.html(markup.banner(f"{check['number']} is not a valid container number: {check['problem']}.", "warning"))
    known = [number for number in check["candidates"][:CANDIDATES_ASKED] if _is_there(number)]
    if known:
        st.html(markup.paragraph("Did you mean …?"))
        with st.container(horizontal=True, gap="small"):
            for number in known:
                st.button(number, key=f"meant-{number}", icon=":material/package_2:", on_click=_choose, args=(number,))
    elif check["candidates"]:
        st.html(
            markup.paragraph(f"One character away: {', '.join(check['candidates'][:6])}; you have access to none of these.", muted=True)
        )


def _choose(number: str) -> None:
    st.query_params["container"] = number


def _is_there(number: str) -> bool:
    return bool(tab_session.ask("/containers", q=number, limit=1)["items"])


def _place(column: DeltaGenerator) -> str | None:
    """Return the place the viewer chose, as the API names it."""
    places: dict[str, str] = {}
    with tab_session.handle_trouble():
        fleet = tab_session.ask("/fleet")
        places = {f"ship/{ship['imo']}": f"Aboard {ship['name'] or ship['imo']}" for ship in fleet["ships"]}
        places |= {f"quay/{port['locode']}": f"On the quay in {port['name']}" for port in fleet["ports"]}
    return column.selectbox(
        "Place", list(places), index=None, format_func=lambda place: places[place], placeholder="anywhere", key="wanted-place"
    )


def _listed(wanted: str, booking: str, place: str | None) -> None:
    with tab_session.handle_trouble():
        container_list(tab_session.ask("/map"), "containers-found", q=wanted, booking=booking, place=place)
