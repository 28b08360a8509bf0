"""A list of containers that may be longer than a screen: its order and its pages are asked of the API, and all of it is saved as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboards import box_rows, markup, page_tables
from dashboards.views import parts, tab_session
from dashboards.views.list_pages import paging

Answer = Mapping[str, Any]
LISTED_MAX = 200
ORDERS = {"number": "by number", "heard_oldest": "heard longest ago first", "heard_newest": "heard last first", "place": "by place"}


def container_list(map_answer: Answer, key: str, **wanted: str | None) -> None:
    """Draw the viewer's containers that are `wanted` (`q`, `booking`, `place`), a page of them at a time; choosing one opens its page.
    `map_answer`: of `/api/map`, for losses and names. Raises Trouble."""
    bar = st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}-bar")
    order = bar.selectbox("Order", list(ORDERS), format_func=lambda one: ORDERS[one], key=f"{key}-order", width=230)
    asked = {name: value for name, value in {**wanted, "sort": order}.items() if value}
    page = paging(key, asked)
    found = tab_session.ask("/containers", count=True, limit=LISTED_MAX, cursor=page.cursor, **asked)
    items: Sequence[Answer] = found["items"]
    page.turn(bar, found["next"])
    file, icon = tab_session.file("/containers.csv", **asked), ":material/download:"
    bar.download_button("Save all as CSV", file, "containers.csv", "text/csv", key=f"{key}-file", icon=icon, on_click="ignore")
    shown = box_rows.shown(len(items), LISTED_MAX * page.number, found["count"])
    st.html(markup.paragraph(f"{shown} · {parts.as_of(found)} · select a row to open", muted=True))
    if not items:
        st.html(markup.paragraph("No container.", muted=True))
        return
    columns = box_rows.columns_of(items)
    lost = {box["container"]: box for box in map_answer["lost"]}
    rows = box_rows.container_rows(items, lost, page_tables.names_of(map_answer, found))
    chosen = parts.choosable(columns, rows, [row["number"] for row in rows], key)
    if chosen is not None:
        tab_session.open_container(chosen)
