"""One browser tab's session: who has logged in, how it asks the API, and what it shows when there is no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import streamlit as st

from dashboards import headline, markup
from dashboards import texts as words
from dashboards.api_client import Answer, ApiClient, ComingBack, LoggedOut, PageViewer, Trouble, wall_ms
from dashboards.pages_process import here
from dashboards.settings import DashboardSettings

_VIEWER, _PARTING, _PAGES, _KEPT, _SHOWN = "viewer", "parting_words", "pages", "kept", "shown"
KEPT_ROWS_MAX, ANSWER_ROWS = 20_000, 100
"""Rows that a tab keeps of its last answers, to show while the API has none; each answer counts as ANSWER_ROWS more than its `items`."""


def settings() -> DashboardSettings:
    """Return the settings of this process."""
    return here().settings


def client() -> ApiClient:
    """Return the process's connections to the API, which every viewer shares; rights come with each question's token."""
    return here().client


def viewer() -> PageViewer | None:
    """Return the viewer that is logged in in this tab."""
    found = st.session_state.get(_VIEWER)
    return found if isinstance(found, PageViewer) else None


def logged_in() -> PageViewer:
    """Return the viewer that is logged in; end the run of the script when there is none."""
    if (found := viewer()) is None:
        st.stop()
    return found


def enter(who: PageViewer) -> None:
    """Make this tab `who`'s from now on."""
    st.session_state[_VIEWER] = who
    st.session_state.pop(_PARTING, None)


def leave(words: str = "") -> None:
    """Forget everything of this tab's viewer; the login page says `words`."""
    st.session_state.clear()
    st.session_state[_PARTING] = words


def log_out() -> None:
    """End the viewer's session, at the API too, and forget everything of this tab's viewer."""
    words = "You have logged out."
    try:
        client().log_out(logged_in())
    except LoggedOut:
        pass  # it had ended already
    except Trouble:
        words = "You have logged out here. Headquarters' API does not answer: there the session ends by itself."
    leave(words)


def parting_words() -> str:
    """Return the reason why the viewer before had to leave."""
    return str(st.session_state.get(_PARTING, ""))


def ask(path: str, **parameters: Any) -> Answer:
    """Return the API's answer to the viewer. A token that is no longer valid leads back to the login page; else raises as `ApiClient.get`.
    In `handle_trouble`, while the API or its database is away, returns the answer that this tab had last."""
    return _kept(("one", path, *sorted(parameters.items())), lambda: client().get(logged_in(), path, **parameters))


def latest_now_ms(*answers: Mapping[str, Any]) -> int:
    """Return the latest fleet time (UTC ms) in these answers. Ages are counted from it: an answer may hold what happened after an earlier
    one."""
    return max(int(answer["clock"]["now_at_ms"]) for answer in answers)


def ask_all(path: str, **parameters: Any) -> Answer:
    """Return all pages of a list, as `ask`, with `rows_max` rows at most."""
    return _kept(("all", path, *sorted(parameters.items())), lambda: client().all_items(logged_in(), path, **parameters))


def _kept(question: tuple[Any, ...], asked: Callable[[], Answer]) -> Answer:
    kept: dict[tuple[Any, ...], Answer] = st.session_state.setdefault(_KEPT, {})
    try:
        answer = asked()
    except LoggedOut:
        leave("Your session has ended: please log in again.")
        st.rerun()
    except ComingBack as problem:
        if _SHOWN not in st.session_state or question not in kept:
            raise
        st.session_state[_SHOWN].append((kept[question]["clock"]["now_at_ms"], problem))
        return kept[question]
    kept.pop(question, None)
    kept[question] = answer
    while len(kept) > 1 and sum(ANSWER_ROWS + len(one.get("items", ())) for one in kept.values()) > KEPT_ROWS_MAX:
        del kept[next(iter(kept))]
    return answer


def do(path: str, **body: Any) -> None:
    """Do something as the viewer. A refusal is shown as a passing note."""
    try:
        client().post(logged_in(), path, body)
    except Trouble as problem:
        st.toast(f"{problem} {problem.hint}", icon=":material/error:")


def file(path: str, **parameters: str) -> Callable[[], bytes]:
    """Return a function that fetches a file for the viewer once the viewer asks for it: in another thread, which knows of no session."""
    return partial(client().file, logged_in(), path, **parameters)


@contextmanager
def handle_trouble() -> Iterator[None]:
    """Draw, inside the block, a sentence on the page for a question without an answer, instead of ending the page. An earlier answer is
    drawn instead of a missing one, greyed, with its time and the reason above it."""
    outer, shown = st.session_state.get(_SHOWN), list[tuple[int, ComingBack]]()
    st.session_state[_SHOWN] = shown
    try:
        with st.container():
            try:
                yield
            except Trouble as problem:
                draw_trouble(problem)
            if shown:
                at_ms, reason = min(shown, key=lambda entry: entry[0])
                st.html(markup.kept(f"{reason} What you see is as of {words.moment(at_ms)}.", reason.hint))
    finally:
        st.session_state.pop(_SHOWN, None)
        if outer is not None:
            st.session_state[_SHOWN] = outer


def is_kept() -> bool:
    """Return whether any answer so far in this `handle_trouble` is an earlier one."""
    return bool(st.session_state.get(_SHOWN))


def draw_trouble(problem: Trouble) -> None:
    """Draw a sentence on the page for a question without an answer."""
    st.html(markup.banner(str(problem), "warning" if isinstance(problem, ComingBack) else "alert", problem.hint))


def clock_tile() -> markup.Tile:
    """Return the tile of the fleet's clock for everyone, logged in or not; while the API does not give it, since when it is unknown."""
    try:
        return headline.clock_tile(client().clock())
    except Trouble:
        return headline.unknown_clock_tile(client().clock_heard, wall_ms())


def keep_pages(pages: dict[str, Any]) -> None:
    """Keep the pages this viewer has, by name, so that one can lead to another."""
    st.session_state[_PAGES] = pages


def open_container(number: str) -> None:
    """Leave this page for the one of a container; its address can be shared."""
    st.switch_page(st.session_state[_PAGES]["containers"], query_params={"container": number})
