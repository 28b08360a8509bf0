"""The table of alerts: filters, order and pages asked of the API, details next to it, and what a person does with those that are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from cargo.alerts.alert_authorization import LOSS_RULES
from cargo.alerts.alert_log import SEVERITIES
from cargo.rules.rulebook import RULES
from dashboards import alert_rows, markup, page_tables
from dashboards.views import parts, tab_session
from dashboards.views.list_pages import paging

Answer = Mapping[str, Any]
LISTED_MAX = 200
ANY = ""
DETAILS_MAX = 20
"""Chosen alerts whose details are shown; what is done is done with all that are chosen."""


def alert_table(fleet: Answer, key: str) -> None:
    """Draw the viewer's alerts, a page of them at a time. `fleet`: of `/api/fleet`, for the ships, ports and customers to choose from.
    Raises Trouble."""
    asked = _filters(fleet, key)
    page = paging(key, asked)
    answer = tab_session.ask("/alerts", count=True, limit=LISTED_MAX, cursor=page.cursor, **asked)
    counts, items, now_at_ms = answer["counts"], answer["items"], tab_session.latest_now_ms(fleet, answer)
    bar = st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}-bar")
    stage, order = f"{key}-state", f"{key}-order"
    bar.segmented_control(
        "State", list(alert_rows.STAGES), format_func=lambda name: alert_rows.counted(name, counts), key=stage, label_visibility="collapsed"
    )
    bar.selectbox(
        "Order", list(alert_rows.SORTS), format_func=lambda name: alert_rows.SORTS[name], key=order, width=190, label_visibility="collapsed"
    )
    page.turn(bar, answer["next"])
    file, icon = tab_session.file("/alerts.csv", **asked), ":material/download:"
    bar.download_button("Save all as CSV", file, "alerts.csv", "text/csv", key=f"{key}-file", icon=icon, on_click="ignore")
    shown = alert_rows.shown(len(items), LISTED_MAX * page.number, answer["rows"])
    st.html(markup.paragraph(f"{shown} · {parts.as_of(answer)}", muted=True))
    if not items:
        st.html(markup.paragraph("No alert.", muted=True))
        return
    names = page_tables.names_of(fleet, answer)
    table, details = st.columns([2.2, 1], gap="medium")
    with table:
        rows = alert_rows.alert_rows(items, names, now_at_ms)
        ids = [item["alert_id"] for item in items]
        chosen = parts.choosable_many(alert_rows.columns_of(items), rows, ids, f"{key}-table")
    with details:
        _details([item for item in items if item["alert_id"] in chosen], names, now_at_ms, key)


def _filters(fleet: Answer, key: str) -> dict[str, str]:
    """Return what the viewer asks for: the controls above the table, and those next to it, which are drawn once the counts are known."""
    bar = st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}-filters")
    state = st.session_state.setdefault(f"{key}-state", "open") or "open"
    sort = st.session_state.setdefault(f"{key}-order", "worst")
    box = bar.text_input("Container", key=f"{key}-q", placeholder="number", width=150)
    severities = {str(one): alert_rows.SEVERITY_WORDS[one] for one in SEVERITIES}
    asked = {"state": state, "sort": sort, "q": box.strip(), "severity": _choice(bar, "Severity", severities, key)}
    asked["rule"] = _choice(bar, "Rule", {one.name: one.words for one in RULES}, key)
    asked["ship"] = _choice(bar, "Ship", {ship["imo"]: ship["name"] or f"IMO {ship['imo']}" for ship in fleet["ships"]}, key)
    asked["port"] = _choice(bar, "Port", {port["locode"]: port["name"] for port in fleet["ports"]}, key)
    if tab_session.logged_in().sees_fleet:
        asked["customer"] = _choice(bar, "Customer", {one["id"]: one["name"] for one in fleet["customers"]}, key)
    return {name: value for name, value in asked.items() if value}


def _choice(bar: DeltaGenerator, label: str, options: Mapping[str, str], key: str) -> str:
    every = {ANY: "any", **options}
    return str(bar.selectbox(label, list(every), format_func=lambda one: every.get(one, one), key=f"{key}-{label.lower()}", width=150))


def _details(chosen: Sequence[Answer], names: Mapping[str, str], now_at_ms: int, key: str) -> None:
    """Draw the alerts that are chosen, and what can be done with them."""
    if not chosen:
        acts = " and to acknowledge or close them" if tab_session.logged_in().acknowledges else ""
        st.html(markup.paragraph(f"Select alerts to see their details{acts}.", muted=True))
        return
    if tab_session.logged_in().acknowledges:
        _actions(chosen, key)
    for alert in chosen[:DETAILS_MAX]:
        _detail(alert, names, now_at_ms, key)
    if len(chosen) > DETAILS_MAX:
        st.html(markup.paragraph(f"and {len(chosen) - DETAILS_MAX} more selected", muted=True))


def _actions(chosen: Sequence[Answer], key: str) -> None:
    by_stage = {stage: [one["alert_id"] for one in chosen if one["stage"] == stage] for stage in ("open", "acknowledged")}
    closable = [one["alert_id"] for one in chosen if one["stage"] != "closed" and one["rule"] not in LOSS_RULES]
    note = f"{key}-note"
    st.text_input("Note", key=note, max_chars=500, placeholder="needed to close", label_visibility="collapsed")
    bar = st.container(horizontal=True, key=f"{key}-actions")
    acts = (("acknowledge", "Acknowledge", by_stage["open"]), ("unacknowledge", "Take back", by_stage["acknowledged"]))
    for act, label, ids in (*acts, ("close", "Close", closable)):
        if ids:
            bar.button(f"{label} {len(ids)}", key=f"{key}-{act}", on_click=_act, args=(act, ids, note))


def _act(act: str, ids: Sequence[str], note: str) -> None:
    parts.act_on(act, ids, str(st.session_state.get(note) or ""))
    st.session_state[note] = ""


def _detail(alert: Answer, names: Mapping[str, str], now_at_ms: int, key: str) -> None:
    with st.container(border=True, key=f"{key}-detail-{alert['alert_id']}"):
        about = "" if "." in alert["topic"] else alert["topic"]
        place = names.get(alert["ship"] or "", "")
        figure = alert_rows.figure(alert)
        facts = (about, place, alert_rows.raised(alert, now_at_ms), figure, alert["detail"] or "", *alert_rows.sentences(alert, now_at_ms))
        text = "<br>".join(markup.escape(fact) for fact in facts if fact)
        head = f"<b>{markup.escape(alert['title'])}</b> {page_tables.state_pill(alert)}"
        st.html(f'{head}<p class="lf-note">{text}</p>{page_tables.unconfirmed_note(alert, names)}')
        if alert["evidence"]:
            with st.expander("Evidence", icon=":material/fact_check:"):
                st.html(markup.table(page_tables.EVIDENCE, page_tables.evidence_rows(alert), ""))
        if about and st.button(f"Open {about}", key=f"{key}-open-{alert['alert_id']}"):
            tab_session.open_container(alert["topic"])
