"""A port's view: what is due in before the ship arrives, what stands on the quay, and each call's list against what the sensors say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboards import markup, muster_rows, page_tables, texts
from dashboards.api_client import address
from dashboards.views import parts, tab_session

Answer = Mapping[str, Any]
LISTS = (
    ("to_discharge", "To discharge"),
    ("discharged", "Discharged, heard on the quay"),
    ("lost", "To discharge, lost overboard"),
    ("to_load", "To load"),
    ("loaded", "Loaded, confirmed aboard"),
    ("left_behind", "Left behind"),
    ("new_aboard", "New aboard, not on the list"),
)
NUMBERS_SHOWN = 60
NOT_ACCOUNTED = {
    "not_heard": "never reported",
    "missing": "missing",
    "late": "late",
    "gateway_silent": "behind a silent gateway",
    "gone": "gone",
}
"""Why a box is not accounted for, in the muster's `reasons`, and in words."""


def show() -> None:
    """Draw the page; it asks again by itself."""
    st.fragment(_live, run_every=tab_session.settings().refresh_s * 2)()


def _live() -> None:
    with tab_session.handle_trouble():
        fleet = tab_session.ask("/fleet")
        names = page_tables.names_of(fleet)
        locodes = [port["locode"] for port in fleet["ports"]]
        if not locodes:
            st.html(markup.paragraph("The registry has no port yet.", muted=True))
            return
        default = "SGSIN" if "SGSIN" in locodes else locodes[0]
        chosen = st.segmented_control(
            "Port", locodes, default=default, format_func=lambda locode: names[locode], key="port", label_visibility="collapsed"
        )
        answer = tab_session.ask(address("ports", chosen or default))
        _port(answer, names)


def _port(answer: Answer, names: Mapping[str, str]) -> None:
    now = answer["clock"]["now_at_ms"]
    st.html(markup.strip(_tiles(answer)))
    left, right = st.columns([1, 1.25], gap="medium")
    with left:
        parts.heading("Due in", "by the load list of the last port each ship has sailed from")
        st.html(
            markup.table(
                page_tables.DUE_IN, page_tables.due_in_rows(answer["due_in"], names, now), "No ship is under way with boxes for this port."
            )
        )
        if answer["in_port"]:
            parts.heading("In port", "as each ship reported; boxes by the load list of its last port")
            st.html(markup.table(page_tables.IN_PORT, page_tables.due_in_rows(answer["in_port"], names, now), ""))
        for due in (*answer["due_in"], *answer["in_port"]):
            _numbers(f"Aboard {names.get(due['ship'], due['ship'])} for here", due["boxes"])
        if answer["lost"]["count"]:
            _numbers("Lost on the way here", answer["lost"])
        for due in answer["unknown_pod"]:
            _numbers(f"Aboard {names.get(due['ship'], due['ship'])}, port of discharge unknown", due["boxes"])
        parts.heading("On the quay", f"by their own sensors · {parts.as_of(answer)}")
        _numbers("On the quay now", answer["on_quay"])
    with right:
        parts.heading("Calls", "planned vs confirmed, newest first")
        for call in answer["calls"]:
            _call(call, names, now)
        if not answer["calls"]:
            st.html(markup.paragraph("No call has a load list yet.", muted=True))


def _tiles(answer: Answer) -> list[markup.Tile]:
    last = next((call for call in answer["calls"] if call["arrived_at_ms"] is not None), None)
    port = answer["port"]
    due = sum(due["boxes"]["count"] for due in answer["due_in"])
    tiles = [
        markup.Tile(port["locode"], port["name"], texts.position(port)),
        markup.Tile("Due in", texts.counted(due, "box", "boxes"), texts.counted(len(answer["due_in"]), "ship")),
        _quay_tile(answer),
    ]
    if answer["in_port"]:
        off = sum(ship["boxes"]["count"] for ship in answer["in_port"])
        ships = texts.counted(len(answer["in_port"]), "ship")
        tiles.insert(2, markup.Tile("In port", ships, f"{texts.counted(off, 'box', 'boxes')} still to come off"))
    if answer["lost"]["count"]:
        tiles.append(markup.Tile("Lost on the way", texts.counted(answer["lost"]["count"], "box", "boxes"), "were for here", "alert"))
    if last:
        left_behind, new = last["left_behind"]["count"], last["new_aboard"]["count"]
        none = "plain" if last["sailed_at_ms"] is None else "good"  # before the ship has reported the call, none is no good news
        tiles.append(
            markup.Tile("Left behind", texts.counted(left_behind, "box", "boxes"), "last call", "warning" if left_behind else none)
        )
        tiles.append(markup.Tile("New aboard", texts.counted(new, "box", "boxes"), "not on the list", "warning" if new else none))
        tiles.append(
            markup.Tile(
                "Confirmed aboard",
                f"{texts.number(last['loaded']['count'])} of {texts.number(last['to_load']['count'])}",
                "of the boxes to load",
                "good" if last["loaded"]["count"] == last["to_load"]["count"] else "plain",
            )
        )
    return tiles


def _quay_tile(answer: Answer) -> markup.Tile:
    """Return the tile with how many boxes stand on the quay, and how many of them are accounted for."""
    muster, boxes = answer["muster"], texts.counted(answer["on_quay"]["count"], "box", "boxes")
    notes = [f"{texts.number(muster['accounted'])} accounted for", *muster_rows.others(muster), parts.as_of(answer)]
    return markup.Tile("On the quay", boxes, " · ".join(notes), muster_rows.tone(muster))


def _call(call: Answer, names: Mapping[str, str], now_at_ms: int) -> None:
    ship = names.get(call["ship"], call["ship"])
    columns = (markup.MarkupColumn("what", "What"), markup.MarkupColumn("boxes", "Boxes", right=True))
    rows = [{"what": title, "boxes": texts.number(call[key]["count"])} for key, title in LISTS]
    body = markup.paragraph(page_tables.call_when(call, now_at_ms), muted=True) + markup.table(columns, rows, "")
    if muster := call["muster"]:
        body += markup.paragraph(_muster(muster, now_at_ms))
    if unknown := page_tables.unknown_on_list(call["unknown"]):
        body += markup.paragraph(unknown)
    tone = "warning" if call["left_behind"]["count"] or call["new_aboard"]["count"] else "accent"
    st.html(markup.card(f"{ship}, call {call['call']}", body, tone))
    with st.expander("Numbers of these boxes"):
        for key, title in LISTS:
            if call[key]["count"]:
                st.html(f"<p><b>{title}</b></p>{_spelled(call[key])}")


def _muster(muster: Answer, now_at_ms: int) -> str:
    clauses = [
        f"Muster {texts.age(muster['at_ms'], now_at_ms)}: {texts.number(muster['accounted'])} of {texts.number(muster['instrumented'])}"
    ]
    clauses[0] += " with a tracker accounted for"
    untracked = (muster["total"] or 0) - (muster["instrumented"] or 0)
    clauses += [f"{texts.counted(untracked, 'box', 'boxes')} without tracker"] if untracked else []
    reasons = muster["reasons"] or {}
    clauses += [f"{texts.number(reasons[reason])} {clause}" for reason, clause in NOT_ACCOUNTED.items() if reasons.get(reason)]
    return "; ".join(clauses) + "."


def _numbers(title: str, named: Answer) -> None:
    with st.expander(f"{title}: {texts.counted(named['count'], 'box', 'boxes')}"):
        st.html(_spelled(named))


def _spelled(named: Answer) -> str:
    shown = named["containers"][:NUMBERS_SHOWN]
    more = named["count"] - len(shown)
    text = " &ensp;".join(f'<span class="lf-mono">{markup.escape(number)}</span>' for number in shown)
    return f'<p style="line-height:1.75">{text or "none"}{f" and {texts.number(more)} more" if more else ""}</p>'
