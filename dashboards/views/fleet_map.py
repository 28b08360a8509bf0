"""The live fleet map: ships on their way, boxes where they are, alerts and losses; next to it the story and the clock's controls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from dashboards import container_blocks, map_layers, markup, muster_rows, page_tables, story_chapters, texts, theme
from dashboards.api_client import Trouble, address
from dashboards.views import parts, tab_session

HEIGHT_PX, WIDTH_PX = 700, 1000
SPEEDS = (1, 600, 4_000, 8_000)
_CAMERA, _FLIGHT, _BEAT, _SEARCH, _OWN = "map_camera", "map_flight", "map_beat", "map_search", "map_own"
SEARCH_PARTICLES = 500
Answer = Mapping[str, Any]


def show() -> None:
    """Draw the page; it asks again by itself and keeps the viewer's pan and zoom."""
    st.fragment(_live, run_every=tab_session.settings().refresh_s)()


def _live() -> None:
    st.session_state[_BEAT] = st.session_state.get(_BEAT, 0) + 1
    with tab_session.handle_trouble():
        view, incidents = tab_session.ask("/map"), tab_session.ask("/incidents")["items"]
        story = tab_session.ask("/story")
        has_side = bool(story["items"]) or tab_session.logged_in().moves(story["clock"])
        wide, side = st.columns([3.1, 1], gap="small") if has_side else (st.container(), None)
        if side is not None:
            with side:
                _side(view, story, incidents)
        with wide:
            _map(view, _search(incidents))
        parts.heading("Accounted for", "each box within its own interval, or by its ship while readings wait on board")
        st.html(markup.table(muster_rows.PLACES, muster_rows.place_rows(tab_session.ask("/fleet")), "No box is known yet."))


def _search(incidents: Sequence[Answer]) -> Answer | None:
    """Return where to search for the boxes of the newest open incident, asked again when that changes; None when the place is unknown or
    not the viewer's to see."""
    newest = next((one for one in incidents if one["open_alerts"]), None)
    if newest is None or not tab_session.logged_in().sees_fleet:
        return None
    key = (newest["incident_id"], newest["changed_at_ms"])
    if st.session_state.get(_SEARCH, (None, None))[0] != key:
        try:
            found = tab_session.ask(address("incidents", newest["incident_id"], "search-area"), particles=SEARCH_PARTICLES)
        except Trouble:
            return None
        st.session_state[_SEARCH] = (key, found)
    answer: Answer = st.session_state[_SEARCH][1]
    return answer


def _map(view: Answer, search: Answer | None) -> None:
    now = view["clock"]["now_at_ms"]
    camera = st.session_state.get(_CAMERA) or _first_camera(view)
    drawn = map_layers.deck(map_layers.fleet_layers(view, now, st.session_state[_BEAT], search), camera, st.session_state.get(_FLIGHT, 0))
    st.pydeck_chart(drawn, height=HEIGHT_PX, key="fleet-map", alt="Map of the fleet: ships, ports, containers and alerts")
    st.html(_legend(view))


def _first_camera(view: Answer) -> Mapping[str, Any]:
    """Return where the camera stands before the viewer moves on: over the Pacific, or for one ship's crew over that ship and its ports."""
    if tab_session.logged_in().sees_fleet:
        return map_layers.PACIFIC
    if _OWN not in st.session_state:
        st.session_state[_OWN] = map_layers.camera_over(view["bounds"], WIDTH_PX, HEIGHT_PX)
    own: Mapping[str, Any] = st.session_state[_OWN]
    return own


def _legend(view: Answer) -> str:
    """Return the colour of each customer, how many boxes a block stands for, and how old the places are."""
    owners = "".join(
        f"<span>{markup.swatch(owner['colour'], owner['name'])} <span class='lf-muted'>{texts.number(owner['boxes'])}</span></span>"
        for owner in container_blocks.legend(view["places"])
    )
    boxes = texts.counted(container_blocks.boxes_per_block(_located(view)), "box", "boxes")
    note = f"{container_blocks.explained(view['places'], boxes)} Places {parts.as_of(view)}."
    return f'<div class="lf-legend">{owners}</div><p class="lf-note">{escape(note)} Hover for details.</p>'


def _located(view: Answer) -> list[Answer]:
    return [place for place in view["places"] if place["place"]]


def _side(fleet: Answer, story: Answer, incidents: Sequence[Answer]) -> None:
    items = story["items"]
    # A chapter's time is the simulator's own: what the API knows of that clock may be older.
    now = max(tab_session.latest_now_ms(fleet, story), *(chapter["at_ms"] for chapter in items), 0)
    for chapter in items[-1:]:
        _chapter(chapter, fleet, incidents, now)
    if tab_session.logged_in().moves(story["clock"]):
        _controls(fleet, {chapter["chapter"] for chapter in items})
    for chapter in reversed(items[:-1]):
        with st.expander(f"{chapter['chapter']} · {chapter['title']}"):
            _chapter(chapter, fleet, incidents, now)


def fly(longitude: float, latitude: float, zoom: float) -> None:
    """Move the map there, once; the viewer moves on from there."""
    st.session_state[_CAMERA] = {"longitude": longitude, "latitude": latitude, "zoom": zoom}
    st.session_state[_FLIGHT] = st.session_state.get(_FLIGHT, 0) + 1


def _chapter(chapter: Answer, fleet: Answer, incidents: Sequence[Answer], now_at_ms: int) -> None:
    port = story_chapters.port_of(chapter, fleet["ports"])
    answer = _port(port["locode"]) if port else None
    facts = story_chapters.measured(chapter, answer, incidents, page_tables.names_of(fleet))
    body = markup.paragraph(chapter["text"])
    body += f"<ul class='lf-list'>{''.join(f'<li>{escape(fact)}</li>' for fact in facts)}</ul>" if facts else ""
    body += f'<p><span class="lf-muted">Where to look.</span> {escape(chapter["look"])}</p>'
    tone = "alert" if story_chapters.incident_of(chapter, incidents) else "accent"
    age = texts.age(chapter["at_ms"], now_at_ms)
    st.html(markup.card(f"{chapter['chapter']} · {chapter['title']}", body, tone, age))
    with st.container(horizontal=True, gap="small"):
        for look in story_chapters.looks(chapter, fleet, incidents):
            where = (look.longitude, look.latitude, look.zoom)
            st.button(look.title, icon=":material/my_location:", key=f"fly-{chapter['chapter']}-{look.title}", on_click=fly, args=where)


def _port(locode: str) -> Answer | None:
    try:
        return tab_session.ask(address("ports", locode))
    except Trouble:
        return None


def _controls(view: Answer, behind: Collection[str]) -> None:
    """Draw the controls of the fleet's clock, as far as it can be moved now: not past the end of its story."""
    works = texts.clock_actions(view["clock"]["state"])
    with st.container(border=True, key="clock-controls"):
        st.html(f'<div class="lf-name" style="color:{theme.MUTED}">Fleet clock: {texts.pace(view["clock"])}</div>')
        with st.container(horizontal=True, gap="small"):
            for action, icon in (("pause", "pause"), ("resume", "play_arrow")):
                st.button(
                    action.capitalize(),
                    icon=f":material/{icon}:",
                    disabled=action not in works,
                    on_click=tab_session.do,
                    args=("/clock",),
                    kwargs={"action": action},
                )
        with st.container(horizontal=True, gap="small"):
            for chapter in ("A", "B", "C"):
                st.button(
                    f"To {chapter}",
                    key=f"jump-{chapter}",
                    help="It has begun" if chapter in behind else f"Run flat out to just before chapter {chapter}",
                    disabled=chapter in behind or "jump" not in works,
                    on_click=tab_session.do,
                    args=("/clock",),
                    kwargs={"action": "jump", "chapter": chapter},
                )
        chosen = st.segmented_control(
            "Speed",
            SPEEDS,
            format_func=lambda times: f"{times:,}×",
            key="clock-speed",
            label_visibility="collapsed",
            disabled="speed" not in works,
        )
        if chosen and chosen != st.session_state.get("clock-speed-sent"):
            st.session_state["clock-speed-sent"] = chosen
            tab_session.do("/clock", action="speed", speed=chosen)
