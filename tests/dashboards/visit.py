"""The pages without a browser: their own script, run by Streamlit's AppTest in this process, asks the stage's API.

Each run draws the whole page once. Not shown here: what a browser makes of it, and that a page asks again by itself.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from pydantic import HttpUrl
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button
from streamlit.util import calc_hash

from dashboards import pages_process
from dashboards.pages_server import SCRIPT
from dashboards.settings import DashboardSettings
from streams.model.metrics import Metrics
from tests.support.browser_tab import PASSWORD
from tests.support.page_stage import API_TIMEOUT_S, STARTED_S_MAX, until

LANDING = ""
"""The address of a role's first page: the map, or a customer's cargo."""


@contextmanager
def pages_here(api_url: str) -> Iterator[None]:
    """While the block runs, this process serves the pages over that API."""
    pages_process.begin(DashboardSettings(api_url=HttpUrl(api_url), api_timeout_s=API_TIMEOUT_S), Metrics("dashboards"))
    try:
        yield
    finally:
        pages_process.here().client.close()
        pages_process._processes.clear()


class Visit:
    """One viewer's session: what the last run drew, and all that any run gave to the viewer's browser."""

    def __init__(self) -> None:
        self.app = AppTest.from_file(SCRIPT, default_timeout=STARTED_S_MAX)
        self.app._bidi_component_manager = installed_components()
        self._given: list[bytes] = []

    def look(self) -> None:
        """Draw the page again. Raises AssertionError if the script fails."""

        def give(message: ForwardMsg) -> None:
            self._given.append(message.SerializeToString())

        ForwardMsgQueue.on_before_enqueue_msg(give)
        main = sys.modules["__main__"]  # AppTest puts the script there, and a forked process would run it
        try:
            self.app.run()
        finally:
            sys.modules["__main__"] = main
            ForwardMsgQueue.on_before_enqueue_msg(None)
        assert not self.app.exception, self.app.exception

    def look_until(self, true: Callable[[], bool], what: str) -> None:
        """Draw the page again until `true()`, as a page does that asks by itself."""

        def looked() -> bool:
            self.look()
            return true()

        until(looked, what)

    def open(self, page: str, **query: str) -> None:
        """Go to the page with this address."""
        self.app._page_hash = calc_hash(page)
        self.app.query_params = dict(query)
        self.look()

    def log_in(self, username: str, password: str = PASSWORD) -> None:
        """Fill in the login form of the page that is shown."""
        self.app.text_input[0].input(username)
        self.app.text_input[1].input(password)
        self.press("Log in")

    def fill(self, label: str, value: str) -> None:
        """Write into a field, as if followed by Enter."""
        [field] = [one for one in self.app.text_input if one.label == label]
        field.input(value)
        self.look()

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a list, as it is written."""
        [field] = [one for one in self.app.selectbox if one.label == label]
        field.select(option)
        self.look()

    def button(self, label: str) -> Button:
        """The only button whose whole label fits this pattern."""
        [button] = [one for one in self.app.button if re.fullmatch(label, one.label)]
        return button

    def has_button(self, label: str) -> bool:
        """Whether there is a button whose whole label fits this pattern."""
        return any(re.fullmatch(label, one.label) for one in self.app.button)

    def press(self, label: str) -> None:
        """Click the only button whose whole label fits this pattern."""
        self.button(label).click()
        self.look()

    def drawn(self) -> list[str]:
        """The page's pieces of HTML."""
        return [piece.value for piece in self.app.html]

    def text(self) -> str:
        """All text of the page's HTML, without the marks."""
        return _plain(" ".join(self.drawn()))

    def each(self, kind: str) -> list[str]:
        """The text of every piece of this class, like `lf-tile`."""
        parts = (part for piece in self.drawn() for part in piece.split(f'<div class="{kind}"')[1:])
        return [_plain(f"<div {part}") for part in parts]

    def tile(self, name: str) -> str:
        """The text of the first tile of this name, its name included."""
        return next(text for text in self.each("lf-tile") if text.startswith(name))

    def pages(self) -> set[str]:
        """The titles of the pages that the viewer can go to."""
        return {str(page["page_name"]) for page in self.app._registered_pages.values()}

    def was_given(self, text: str) -> bool:
        """Whether the viewer's browser ever got `text`, on the page or not."""
        return any(text.encode() in message for message in self._given)


@cache
def installed_components() -> BidiComponentManager:
    """Return Streamlit's components of the installed packages. A server looks for them once, an AppTest each time it is made."""
    manager = BidiComponentManager()
    manager.discover_and_register_components(start_file_watching=False)
    return manager


def visiting(username: str, page: str = LANDING) -> Visit:
    """A viewer who has logged in at the page."""
    visit = Visit()
    visit.open(page)
    visit.log_in(username)
    return visit


def _plain(marked: str) -> str:
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", marked, flags=re.DOTALL)).split())
