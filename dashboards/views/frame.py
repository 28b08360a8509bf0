"""What surrounds every page: the style, the navigation by role, the strip with the fleet's clock, and the way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.navigation.page import Page

from dashboards import headline, markup
from dashboards.api_client import Answer, PageViewer, Trouble
from dashboards.views import alerts, containers, fleet_map, login, portal, ports, sync, tab_session


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page: its name in the address, its title and icon, what shows it, and which roles have it."""

    name: str
    title: str
    icon: str
    show: Callable[[], None]
    roles: frozenset[str]


STAFF = frozenset({"operations", "clerk"})
ABOARD = STAFF | {"crew"}
PLACES = (
    PageEntry("map", "Fleet map", ":material/map:", fleet_map.show, ABOARD),
    PageEntry("portal", "Your cargo", ":material/inventory_2:", portal.show, frozenset({"customer"})),
    PageEntry("containers", "Containers", ":material/package_2:", containers.show, ABOARD | {"customer"}),
    PageEntry("alerts", "Alerts desk", ":material/notifications_active:", alerts.show, ABOARD),
    PageEntry("ports", "Ports", ":material/anchor:", ports.show, STAFF),
    PageEntry("sync", "Sync & health", ":material/sync:", sync.show, STAFF),
)
BRAND = Path(__file__).parents[1] / "static" / "brand.png"


def show() -> None:
    """Draw the whole of what a tab shows."""
    st.html(markup.STYLE)
    st.logo(str(BRAND), size="large")
    who = tab_session.viewer()
    if who is None:
        _pages(PLACES, login.show, position="hidden").run()
        return
    places = [place for place in PLACES if who.role in place.roles]
    page = _pages(places, None, position="top")
    _head(who)
    page.run()


def _pages(places: tuple[PageEntry, ...] | list[PageEntry], instead: Callable[[], None] | None, position: Literal["top", "hidden"]) -> Page:
    made = {
        place.name: st.Page(instead or place.show, title=place.title, icon=place.icon, url_path=place.name, default=at == 0)
        for at, place in enumerate(places)
    }
    tab_session.keep_pages(made)
    return st.navigation(list(made.values()), position=position)


def _head(who: PageViewer) -> None:
    st.fragment(_strip, run_every=tab_session.settings().refresh_s)()
    with st.container(key="who"), st.popover(who.name, icon=":material/account_circle:"):
        st.caption(f"Logged in as {who.name} ({who.role})")
        if st.button("Log out", icon=":material/logout:", width="stretch"):
            tab_session.log_out()
            st.rerun()


def _strip() -> None:
    with tab_session.handle_trouble():
        try:
            fleet, status = tab_session.ask("/fleet"), tab_session.ask("/status")
        except Trouble:
            st.html(markup.strip([tab_session.clock_tile()]))
            raise
        _draw_strip(tab_session.logged_in(), fleet, status)


def _draw_strip(who: PageViewer, fleet: Answer, status: Answer) -> None:
    tiles = headline.fleet_tiles(fleet, status) if who.sees_fleet else headline.own_tiles(fleet)
    if tab_session.is_kept():
        st.html(markup.live(markup.strip([tab_session.clock_tile()])))
        tiles = tiles[1:]
    st.html(markup.strip(tiles))
    if starting := headline.starting(status):
        st.html(markup.banner(starting, "accent"))
    if still := headline.still_since(status, alerts_come=not who.is_customer):
        st.html(markup.banner(still, "alert"))
    for lack in headline.lacks(status):
        st.html(markup.banner(lack, "warning"))
