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


def container_list(told: Answer, key: str, **wanted: str | None) -> None:
    """The viewer's containers that are `wanted` (`q`, `booking`, `place`), a page of them at a time; choosing one opens its page.

    `told`: an answer of `/api/map`, for losses and names. Raises Trouble.
    """
    bar = st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}-bar")
    order = bar.selectbox("Order", list(ORDERS), format_func=lambda one: ORDERS[one], key=f"{key}-order", width=230)
    asked = {name: value for name, value in {**wanted, "sort": order}.items() if value}
    cursors = _cursors(key, asked)
    found = session.ask("/containers", count=True, limit=LISTED_MAX, cursor=cursors[-1], **asked)
    items: Sequence[Answer] = found["items"]
    _turn(bar, cursors, found["next"], key)
    file, icon = session.file("/containers.csv", **asked), ":material/download:"
    bar.download_button("Save all as CSV", file, "containers.csv", "text/csv", key=f"{key}-file", icon=icon, on_click="ignore")
    shown = boxes.shown(len(items), LISTED_MAX * (len(cursors) - 1), found["count"])
    st.html(markup.paragraph(f"{shown} · {parts.as_of(found)} · choose one to open it", muted=True))
    if not items:
        st.html(markup.paragraph("No container.", muted=True))
        return
    columns = boxes.columns_of(items)
    rows = boxes.container_rows(items, {box["container"]: box for box in told["lost"]}, tables.names_of(told, found))
    chosen = parts.choosable(columns, rows, [row["number"] for row in rows], key)
    if chosen is not None:
        session.open_container(chosen)


def _cursors(key: str, asked: Mapping[str, str]) -> list[str | None]:
    """The cursors of the pages up to the one that is shown; of what was not asked for before, the first page's alone."""
    kept = f"{key}-cursors"
    if st.session_state.get(kept, (None,))[0] != asked:
        st.session_state[kept] = (asked, [None])
    cursors: list[str | None] = st.session_state[kept][1]
    return cursors


def _turn(bar: DeltaGenerator, cursors: list[str | None], following: str | None, key: str) -> None:
    """The buttons that turn the page, where there is more than one."""

    def back() -> None:
        cursors.pop()

    def on() -> None:
        cursors.append(following)

    if len(cursors) > 1 or following:
        bar.button("Previous", key=f"{key}-previous", icon=":material/chevron_left:", disabled=len(cursors) == 1, on_click=back)
        bar.button("Next", key=f"{key}-next", icon=":material/chevron_right:", disabled=following is None, on_click=on)
