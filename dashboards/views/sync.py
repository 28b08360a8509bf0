"""Sync and health: how old each part's last word is, what the links carry and what still waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboards import headline, markup, page_tables, texts
from dashboards.views import parts, tab_session

Answer = Mapping[str, Any]


def show() -> None:
    """Draw the page; it asks again by itself."""
    st.fragment(_live, run_every=tab_session.settings().refresh_s)()


def _live() -> None:
    with tab_session.handle_trouble():
        status = tab_session.ask("/status")
        now = status["clock"]["now_at_ms"]
        st.html(markup.strip([_projector_tile(status), *_sums(status)]))
        for where, trouble in page_tables.troubles(status["processes"]):
            st.html(markup.banner(where, "warning", trouble))
        parts.heading("On board", "records that no node ashore has yet, as each ship last reported")
        empty = "No ship has reported yet what waits on board."
        st.html(markup.table(page_tables.WAITING, page_tables.waiting_rows(status["waiting"], now), empty))
        parts.heading("Links", "each node's sessions with its peers, as that node last measured them")
        empty = "No node has reported a link yet. Links are measured while a session lasts."
        st.html(markup.table(page_tables.LINKS, page_tables.link_rows(status["processes"]), empty))
        left, right = st.columns([1.6, 1], gap="medium")
        with left:
            parts.heading("Processes", "ages in real time")
            st.html(markup.table(page_tables.PROCESSES, page_tables.process_rows(status["processes"]), "No process has reported yet."))
        with right:
            parts.heading("Streams at headquarters", "records in the serving store, ages in fleet time")
            st.html(markup.table(page_tables.STREAMS, page_tables.stream_rows(status["streams"], now), "No record has arrived yet."))


def _projector_tile(status: Answer) -> markup.Tile:
    projector = status["projector"]
    wall = projector["wall_age_ms"]
    tone = "alert" if wall is None or wall > headline.STILL_WALL_MS else "good"
    return markup.Tile("Serving store", texts.ago(projector["age_ms"]), f"caught up {texts.ago(wall)} (real time)", tone)


def _sums(status: Answer) -> list[markup.Tile]:
    processes = status["processes"]
    late = sum(1 for process in processes if process["wall_age_ms"] is None or process["wall_age_ms"] > page_tables.STALE_WALL_MS)
    ships = status["waiting"]
    waiting = sum(backlog["records"] for ship in ships for backlog in ship["streams"].values())
    oldest_ms = max((ship["wall_age_ms"] for ship in ships), default=None)
    nodes = len({process["node"] for process in processes})
    return [
        markup.Tile("Processes", texts.number(len(processes)), f"on {texts.counted(nodes, 'node')}"),
        markup.Tile(
            "Silent for a minute",
            texts.number(late),
            "real time; a ship at sea reports in port",
            "warning" if late else "good",
        ),
        markup.Tile(
            "Waiting on board",
            texts.counted(waiting, "record") if ships else texts.NOTHING,
            f"for a link to port; {texts.counted(len(ships), 'ship')}, as of {texts.ago(oldest_ms)}" if ships else "no ship has reported",
        ),
    ]
