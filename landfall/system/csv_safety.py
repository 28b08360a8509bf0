"""Texts that a spreadsheet would take for formulas, made harmless in tables that become CSV."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_FORMULA = r"\A[=+\-@\t\r]"
"""Beginning of a text that is a formula to a spreadsheet."""
_NUMBER = r"\A[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"


def without_formulas(table: pa.Table) -> pa.Table:
    """Return the table with an apostrophe before each text, and each column's name, that a spreadsheet would take for a formula.

    A number is no formula, in a column of texts either.
    """
    columns = [_as_text(column) if pa.types.is_string(column.type) else column for column in table.columns]
    return pa.table(columns, _as_text(pa.array(table.schema.names, pa.string())).to_pylist())


def _as_text(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    formula = pc.and_not(pc.match_substring_regex(texts, _FORMULA), pc.match_substring_regex(texts, _NUMBER))
    return pc.if_else(formula, pc.binary_join_element_wise("'", texts, ""), texts)
