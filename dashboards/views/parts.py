"""Pieces that several pages share: headings, tables of which a row can be chosen, a list of alerts to take note of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboards import alert_rows, markup, page_tables, texts, theme
from dashboards.api_client import address
from dashboards.data_grids import GridColumn, grid
from dashboards.views import tab_session

Answer = Mapping[str, Any]
ACTED_ON_MAX = 500
TABLE_PX_MAX = 560


def heading(title: str, note: str) -> None:
    """Draw a page's or section's title, with a sentence under it."""
    st.html(f'<div class="lf-heading">{markup.escape(title)} <span class="lf-note">{markup.escape(note)}</span></div>')


def as_of(answer: Answer) -> str:
    """Return the time that an answer is true for, in words."""
    return texts.as_of(answer["as_of_at_ms"], answer["clock"]["now_at_ms"])


def typed_table(columns: Mapping[str, GridColumn], rows: Sequence[Mapping[str, Any]], **how: Any) -> None:
    """Draw a table of `rows`, as high as they are or as a screen, whose headers sort it by value. `how`: for `st.dataframe`."""
    typed = {one.heading: st.column_config.NumberColumn() if one.words else st.column_config.TextColumn() for one in columns.values()}
    height = min(TABLE_PX_MAX, 38 + 35 * len(rows))
    st.dataframe(grid(columns, rows), hide_index=True, width="stretch", height=height, column_config=typed, placeholder="", **how)


def choosable(columns: Mapping[str, GridColumn], rows: Sequence[Mapping[str, Any]], ids: Sequence[str], key: str) -> str | None:
    """Show a table with selectable rows; return the id (of `ids`, one a row) of the row that the viewer chose just now, else None.

    The choice is looked up in the rows that the viewer saw: by then others may be there, and the browser reports the row's number alone.
    So rows with other ids are another table, and the call that drew a table reads its choice.
    """
    shown, chosen = f"{key}-{hash(tuple(ids)):x}", f"{key}-chosen"

    def choose() -> None:
        picked = st.session_state[shown]["selection"]["rows"]
        st.session_state[chosen] = ids[picked[0]] if picked else None

    typed_table(columns, rows, key=shown, on_select=choose, selection_mode="single-row")
    picked: str | None = st.session_state.pop(chosen, None)
    return picked


def choosable_many(columns: Mapping[str, GridColumn], rows: Sequence[Mapping[str, Any]], ids: Sequence[str], key: str) -> list[str]:
    """Draw a table whose rows can be chosen, and return the ids of the chosen ones, of `ids`, one a row. They stay chosen while their rows
    are shown, wherever these move: rows in another order are another table."""
    shown, chosen = f"{key}-{hash(tuple(ids)):x}", f"{key}-chosen"

    def choose() -> None:
        st.session_state[chosen] = [ids[row] for row in st.session_state[shown]["selection"]["rows"]]

    before: list[str] = [one for one in st.session_state.get(chosen, []) if one in ids]
    default = {"selection": {"rows": [ids.index(one) for one in before]}}
    typed_table(columns, rows, key=shown, on_select=choose, selection_mode="multi-row", selection_default=default)
    return before


def alert_card(alert: Answer, names: Mapping[str, str], now_at_ms: int, key: str) -> None:
    """Draw one alert: what, where, since when, what became of it, and the button to acknowledge it or to take that back."""
    text, button = st.columns([6.2, 1], vertical_alignment="center")
    place = names.get(alert["ship"] or "", "")
    about = "" if "." in alert["topic"] else f'<span class="lf-mono">{markup.escape(alert["topic"])}</span> · '
    details = (place, alert_rows.raised(alert, now_at_ms), alert["detail"], *alert_rows.sentences(alert, now_at_ms))
    facts = " · ".join(filter(None, details))
    tone = theme.SEVERITY_TONES.get(alert["severity"], "warning") if alert["stage"] == "open" else "muted"
    title = f"{markup.pill(texts.severity(alert['severity']), tone)} {page_tables.state_pill(alert)} <b>{markup.escape(alert['title'])}</b>"
    with text:
        st.html(
            f'<div class="lf-card" style="--tone:{theme.TONES[tone]}">{title}<p class="lf-note">{about}{markup.escape(facts)}</p>'
            f"{page_tables.unconfirmed_note(alert, names)}</div>"
        )
    if tab_session.logged_in().acknowledges and (act := {"open": "acknowledge", "acknowledged": "unacknowledge"}.get(alert["stage"])):
        label = "Acknowledge" if act == "acknowledge" else "Take back"
        button.button(label, key=f"{key}-{alert['alert_id']}", on_click=act_on, args=(act, [alert["alert_id"]]), width="stretch")
    if alert["evidence"]:
        with st.expander(f"Evidence: {texts.counted(len(alert['evidence']), 'piece')}", icon=":material/fact_check:"):
            st.html(markup.table(page_tables.EVIDENCE, page_tables.evidence_rows(alert), ""))


def act_on(act: str, alert_ids: Sequence[str], note: str = "") -> None:
    """Acknowledge alerts, take that back, or close them, by the viewer's name, for every node to see."""
    for first in range(0, len(alert_ids), ACTED_ON_MAX):
        tab_session.do(address("alerts", act), alert_ids=list(alert_ids[first : first + ACTED_ON_MAX]), note=note)


def alert_list(alerts: Sequence[Answer], names: Mapping[str, str], now_at_ms: int, key: str) -> None:
    """Draw alerts one under the other."""
    for alert in alerts:
        alert_card(alert, names, now_at_ms, key)
    if not alerts:
        st.html(markup.paragraph("No alert.", muted=True))
