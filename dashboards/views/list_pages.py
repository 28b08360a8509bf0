"""Pages of a list that the API has in order: which one a viewer sees, and the buttons that turn it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator


@dataclass(frozen=True, slots=True)
class Paging:
    """The page that is shown of the list `asked` for: `cursors` of the pages up to it, kept in the tab under `kept`."""

    kept: str
    asked: Mapping[str, str]
    cursors: tuple[str | None, ...]

    @property
    def cursor(self) -> str | None:
        """Cursor at which the page begins."""
        return self.cursors[-1]

    @property
    def number(self) -> int:
        """Number of pages before it."""
        return len(self.cursors) - 1

    def turn(self, bar: DeltaGenerator, following: str | None) -> None:
        """Draw the buttons, if there are other pages. Each names the page that it leads to, so that a second click before that is drawn
        changes nothing."""
        if self.number == 0 and following is None:
            return
        key, show = f"{self.kept}-previous", self._show
        before, after = self.cursors[:-1], (*self.cursors, following)
        bar.button("Previous", key=key, icon=":material/chevron_left:", disabled=not before, on_click=show, args=(before,))
        key = f"{self.kept}-next"
        bar.button("Next", key=key, icon=":material/chevron_right:", disabled=following is None, on_click=show, args=(after,))

    def _show(self, cursors: tuple[str | None, ...]) -> None:
        st.session_state[self.kept] = self.asked, cursors


def paging(key: str, asked: Mapping[str, str]) -> Paging:
    """Return the page of the list `key` that this tab shows; the first one of a list that is asked for otherwise than before."""
    kept = f"{key}-cursors"
    if st.session_state.get(kept, (None,))[0] != asked:
        st.session_state[kept] = asked, (None,)
    return Paging(kept, asked, st.session_state[kept][1])
