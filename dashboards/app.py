"""The pages, as Streamlit runs them: who has logged in decides which there are. What this file shows comes from `dashboards.views`."""

from __future__ import annotations

import streamlit as st

from dashboards.pages_process import here
from dashboards.views import frame

st.set_page_config(page_title="Landfall", page_icon="⚓", layout="wide", initial_sidebar_state="collapsed")
with here().rendering():
    frame.show()
