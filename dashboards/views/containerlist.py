"""A list of containers that may be longer than a screen: its order and its pages are asked of the API, and all of it is saved as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboards import boxes, markup, tables
from dashboards.views import parts, session

Answer = Mapping[str, Any]
LISTED_MAX = 200
ORDERS = {"number": "by number", "heard_oldest": "heard longest ago first", "heard_newest": "heard last first", "place": "by place"}


def container_list(map_answer: Answer, key: str, **wanted: str | None) -> None:
    """The viewer's containers that are `wanted` (`q`, `booking`, `place`), a page of them at a time; choosing one opens its page.

    `map_answer`: of `/api/map`, for losses and names. Raises Trouble.
    """
    bar = st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}-bar")
    order = bar.selectbox("Order", list(ORDERS), format_func=lambda one: ORDERS[one], key=f"{key}-order", width=230)
    asked = {name: value for name, value in {**wanted, "sort": order}.items() if value}
    kept = f"{key}-cursors"
    if st.session_state.get(kept, (None,))[0] != asked:
        st.session_state[kept] = asked, (None,)
    cursors: tuple[str | None, ...] = st.session_state[kept][1]
    found = session.ask("/containers", count=True, limit=LISTED_MAX, cursor=cursors[-1], **asked)
    items: Sequence[Answer] = found["items"]
    if len(cursors) > 1 or found["next"]:
        _turn(bar, kept, (asked, cursors), found["next"])
    file, icon = session.file("/containers.csv", **asked), ":material/download:"
    bar.download_button("Save all as CSV", file, "containers.csv", "text/csv", key=f"{key}-file", icon=icon, on_click="ignore")
    shown = boxes.shown(len(items), LISTED_MAX * (len(cursors) - 1), found["count"])
    st.html(markup.paragraph(f"{shown} · {parts.as_of(found)} · select a row to open", muted=True))
    if not items:
        st.html(markup.paragraph("No container.", muted=True))
        return
    columns = boxes.columns_of(items)
    lost = {box["container"]: box for box in map_answer["lost"]}
    rows = boxes.container_rows(items, lost, tables.names_of(map_answer, found))
    chosen = parts.choosable(columns, rows, [row["number"] for row in rows], key)
    if chosen is not None:
        session.open_container(chosen)


def _turn(bar: DeltaGenerator, kept: str, page: tuple[Mapping[str, str], tuple[str | None, ...]], following: str | None) -> None:
    """The buttons that turn the page. Each names the page that it leads to, so that a second click before that is drawn changes nothing."""
    asked, cursors = page

    def show(cursors: tuple[str | None, ...]) -> None:
        st.session_state[kept] = asked, cursors

    bar.button(
        "Previous",
        key=f"{kept}-previous",
        icon=":material/chevron_left:",
        disabled=len(cursors) == 1,
        on_click=show,
        args=(cursors[:-1],),
    )
    bar.button(
        "Next",
        key=f"{kept}-next",
        icon=":material/chevron_right:",
        disabled=following is None,
        on_click=show,
        args=((*cursors, following),),
    )
