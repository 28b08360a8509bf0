"""The alerts desk: the table of all alerts; one incident for a cluster of losses, with each box's evidence in plain words; what ships saw
adrift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from cargo.alerts.alert_log import count_alerts
from cargo.vocabulary.instants import DOUBTED
from dashboards import markup, page_tables, texts, theme
from dashboards.api_client import NotThere, address
from dashboards.views import loss_reports, parts, tab_session
from dashboards.views.alert_table import alert_table

Answer = Mapping[str, Any]
BOXES_ASKED_MAX = 60


def show() -> None:
    """Draw the page; it asks again by itself."""
    st.fragment(_live, run_every=tab_session.settings().refresh_s * 2)()


def _live() -> None:
    with tab_session.handle_trouble():
        fleet, incidents = tab_session.ask("/fleet"), tab_session.ask_all("/incidents")
        parts.heading("Alerts", "an incident and its containers' alerts count once")
        alert_table(fleet, "desk")
        names = page_tables.names_of(fleet)
        ongoing = [incident for incident in incidents["items"] if incident["open_alerts"]]
        over = [incident for incident in incidents["items"] if not incident["open_alerts"]]
        parts.heading("Incidents", f"boxes lost together are one incident · {parts.as_of(incidents)}")
        for incident in ongoing:
            _incident(incident, names)
        if not incidents["items"]:
            st.html(markup.paragraph("No box has been lost.", muted=True))
        if over and st.toggle(f"Show {texts.counted(len(over), 'closed incident')}", key="incidents-closed", value=not ongoing):
            for incident in over:
                _incident(incident, names)
        if tab_session.logged_in().sees_fleet and (sightings := tab_session.ask("/sightings"))["items"]:
            parts.heading("Containers seen adrift", "of any carrier, as ships reported them")
            loss_reports.show_sightings(sightings, names)


def _incident(incident: Answer, names: Mapping[str, str]) -> None:
    answer = tab_session.ask_all("/alerts", incident=incident["incident_id"])
    alerts, now_at_ms = answer["items"], answer["clock"]["now_at_ms"]
    is_open = incident["open_alerts"] > 0
    tone = "alert" if is_open else "muted"
    boxes = sorted((alert for alert in alerts if not alert["incident"]), key=lambda alert: str(alert["slot"] or "~"))
    waiting = [alert for alert in alerts if alert["stage"] == "open"]
    with st.container(border=True, key=f"incident-{incident['incident_id']}"):
        text, button = st.columns([6, 1.25], vertical_alignment="center")
        text.html(_incident_head(incident, names, tone, now_at_ms))
        if waiting and tab_session.logged_in().acknowledges:
            label, ids = f"Acknowledge {count_alerts(waiting)}", [alert["alert_id"] for alert in waiting]
            key = f"acknowledge-{incident['incident_id']}"
            button.button(label, key=key, type="primary", on_click=parts.act_on, args=("acknowledge", ids), width="stretch")
        known = _known_boxes(boxes)
        st.html(
            markup.table(page_tables.LOST, page_tables.lost_rows(boxes, known, now_at_ms), "The alerts of its boxes have not arrived yet.")
        )
        if incident["at_risk"]:
            names_at_risk = ", ".join(incident["at_risk"])
            st.html(markup.paragraph(f"At risk next to them, without a working tracker: {names_at_risk}"))
        _evidence(incident, boxes)
        if tab_session.logged_in().sees_fleet:
            loss_reports.show(incident["incident_id"])


def _incident_head(incident: Answer, names: Mapping[str, str], tone: str, now_at_ms: int) -> str:
    ship = names.get(incident["ship"] or "", incident["ship"] or "")
    status = markup.pill(texts.status(incident["status"]), tone)
    where = texts.position(incident["position"])
    at = f"{ship} · {where} · raised {texts.age(incident['raised_at_ms'], now_at_ms)}, {texts.moment(incident['raised_at_ms'])}"
    at += f" · {DOUBTED}" if incident["clock_doubted"] else ""
    title = f'<span style="font-size:1.25rem;font-weight:650;color:{theme.TONES[tone]}">{markup.escape(incident["title"])}</span>'
    note = page_tables.unconfirmed_note(incident, names, "these boxes")
    return f'{title} &nbsp;{status}<p class="lf-note">{markup.escape(at)}<br>{markup.escape(incident["detail"])}</p>{note}'


def _evidence(incident: Answer, boxes: Sequence[Answer]) -> None:
    """Show why a box counts as lost: one box at a time, the viewer's choice."""
    by_number = {alert["topic"]: alert for alert in boxes}
    if not by_number:
        return
    numbers = list(by_number)
    chosen = st.pills("Evidence for", numbers, default=numbers[0], key=f"evidence-{incident['incident_id']}")
    alert = by_number.get(chosen or numbers[0], boxes[0])
    st.html(markup.table(page_tables.EVIDENCE, page_tables.evidence_rows(alert), "This alert has no evidence."))
    chance = f"Probability of a loss: {texts.likelihood(alert['posterior'])}. Each family counts once; silence alone never decides."
    st.html(markup.paragraph(chance, muted=True))
    if st.button(f"Open {alert['topic']}", key=f"open-{incident['incident_id']}", icon=":material/package_2:"):
        tab_session.open_container(alert["topic"])


def _known_boxes(boxes: Sequence[Answer]) -> dict[str, Answer]:
    """Return what the API says of these boxes; those it does not know are left out."""
    known: dict[str, Answer] = {}
    for alert in boxes[:BOXES_ASKED_MAX]:
        try:
            known[alert["topic"]] = tab_session.ask(address("containers", alert["topic"]))
        except NotThere:
            continue
    return known
