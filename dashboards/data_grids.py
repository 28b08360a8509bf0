"""Tables whose columns have a type: a header sorts them by value, and the cells show the value in words. Nothing here draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from dashboards import theme


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column. With `words` its values are numbers or None, sorted as numbers and shown by that, None as an empty cell; else
    they are texts. `tone`: the colour of a value, by its name in the theme.
    """

    heading: str
    words: Callable[[Any], str] | None = None
    tone: Callable[[Any], str] | None = None


def frame(columns: Mapping[str, GridColumn], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the values of `rows`, which have one for each column's name, under the columns' headings."""
    return pd.DataFrame(
        {
            column.heading: pd.Series([row[name] for row in rows], dtype="float64" if column.words else "object")
            for name, column in columns.items()
        }
    )


def grid(columns: Mapping[str, GridColumn], rows: Sequence[Mapping[str, Any]]) -> Styler:
    """Return `frame` with the words that the cells show."""
    styled = frame(columns, rows).style
    for column in columns.values():
        if column.words:
            styled = styled.format(column.words, subset=[column.heading], na_rep="")
        if tone := column.tone:
            styled = styled.map(lambda value, tone=tone: f"color: {theme.TONES[tone(value)]}", subset=[column.heading])
    return styled
