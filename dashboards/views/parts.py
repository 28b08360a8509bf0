"""Pieces that several pages share: headings, tables of which a row can be chosen, a list of alerts to take note of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboards import markup, tables, theme, words
from dashboards.client import address
from dashboards.grids import GridColumn, grid
from dashboards.views import session

Answer = Mapping[str, Any]
ALERTS_SHOWN = 40
TABLE_PX_MAX = 560


def heading(title: str, note: str) -> None:
    """A page's or section's title, with a sentence under it."""
    st.html(f'<div class="lf-heading">{markup.escape(title)} <span class="lf-note">{markup.escape(note)}</span></div>')


def as_of(answer: Answer) -> str:
    """What time an answer is true for, in words."""
    return words.as_of(answer["as_of_at_ms"], answer["clock"]["now_at_ms"])


def typed_table(columns: Mapping[str, GridColumn], rows: Sequence[Mapping[str, Any]], **how: Any) -> None:
    """A table of `rows`, as high as they are or as a screen, whose headers sort it by value. `how`: for `st.dataframe`."""
    typed = {one.heading: st.column_config.NumberColumn() if one.words else st.column_config.TextColumn() for one in columns.values()}
    height = min(TABLE_PX_MAX, 38 + 35 * len(rows))
    st.dataframe(grid(columns, rows), hide_index=True, width="stretch", height=height, column_config=typed, placeholder="", **how)


def choosable(columns: Mapping[str, GridColumn], rows: Sequence[Mapping[str, Any]], ids: Sequence[str], key: str) -> str | None:
    """A table of which a row can be chosen: the id of the row that the viewer chose just now, of `ids`, one a row; else None.

    What was chosen is looked up in the rows that the viewer saw: by then others may be there, and the browser tells the row's number alone.
    So rows with other ids are another table, and its choice is read by who drew it.
    """
    shown, chosen = f"{key}-{hash(tuple(ids)):x}", f"{key}-chosen"

    def choose() -> None:
        picked = st.session_state[shown]["selection"]["rows"]
        st.session_state[chosen] = ids[picked[0]] if picked else None

    typed_table(columns, rows, key=shown, on_select=choose, selection_mode="single-row")
    picked: str | None = st.session_state.pop(chosen, None)
    return picked


def alert_card(alert: Answer, names: Mapping[str, str], now_at_ms: int, key: str) -> None:
    """One alert: what, where, since when, and the button to take note of it."""
    text, button = st.columns([6.2, 1], vertical_alignment="center")
    place = names.get(alert["ship"] or "", "")
    about = "" if "." in alert["topic"] else f'<span class="lf-mono">{markup.escape(alert["topic"])}</span> · '
    facts = " · ".join(part for part in (place, f"raised {words.age(alert['raised_at_ms'], now_at_ms)}", alert["detail"] or "") if part)
    tone = theme.SEVERITY_TONES.get(alert["severity"], "warning") if alert["open"] else "muted"
    title = f"{markup.pill(words.severity(alert['severity']), tone)} {tables.state_pill(alert)} <b>{markup.escape(alert['title'])}</b>"
    with text:
        st.html(
            f'<div class="lf-card" style="--tone:{theme.TONES[tone]}">{title}<p class="lf-note">{about}{markup.escape(facts)}</p>'
            f"{tables.unconfirmed_note(alert, names)}</div>"
        )
    if session.logged_in().acknowledges and alert["open"] and not alert["acknowledged_by"]:
        button.button("Acknowledge", key=f"{key}-{alert['alert_id']}", on_click=acknowledge, args=([alert["alert_id"]],), width="stretch")
    if alert["evidence"]:
        with st.expander(f"Evidence: {words.counted(len(alert['evidence']), 'piece')}", icon=":material/fact_check:"):
            st.html(markup.table(tables.EVIDENCE, tables.evidence_rows(alert), ""))


def acknowledge(alert_ids: Sequence[str]) -> None:
    """Take note of alerts, by the viewer's name, for every node to see."""
    for alert_id in alert_ids:
        session.do(address("alerts", alert_id, "acknowledge"))


def alert_list(alerts: Sequence[Answer], names: Mapping[str, str], now_at_ms: int, key: str) -> None:
    """Alerts one under the other, at most ALERTS_SHOWN."""
    for alert in alerts[:ALERTS_SHOWN]:
        alert_card(alert, names, now_at_ms, key)
    if len(alerts) > ALERTS_SHOWN:
        st.html(markup.paragraph(f"and {words.counted(len(alerts) - ALERTS_SHOWN, 'older alert')}", muted=True))
    if not alerts:
        st.html(markup.paragraph("No alert.", muted=True))
