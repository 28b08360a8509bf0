"""The door: a name and a password for a token, kept in this browser tab's session and nowhere else."""

from __future__ import annotations

import streamlit as st

from dashboards import markup
from dashboards.api_client import LoggedOut, Trouble
from dashboards.views import tab_session


def show() -> None:
    """Draw the login page."""
    _, middle, _ = st.columns([1.2, 1, 1.2])
    with middle:
        st.html(
            '<div style="height:7vh"></div><div class="lf-brand">⚓ Landfall</div>'
            '<p class="lf-muted">Every container of the fleet: its place, its condition, and the age of the data.</p>'
        )
        st.fragment(_clock, run_every=tab_session.settings().refresh_s)()
        if words := tab_session.parting_words():
            st.html(markup.banner(words, "accent"))
        with st.form("login", border=True):
            username = st.text_input("Username", autocomplete="username")
            password = st.text_input("Password", type="password", autocomplete="current-password")
            asked = st.form_submit_button("Log in", type="primary", width="stretch")
        if asked:
            _enter(username.strip(), password)


def _clock() -> None:
    st.html(markup.strip([tab_session.clock_tile()]))


def _enter(username: str, password: str) -> None:
    try:
        tab_session.enter(tab_session.client().log_in(username, password, st.context.ip_address))
    except LoggedOut as problem:
        st.html(markup.banner(str(problem), "alert", problem.hint))
    except Trouble as problem:
        st.html(markup.banner(str(problem), "warning", problem.hint))
    else:
        st.rerun()
