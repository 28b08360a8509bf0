"""The little HTML that pages are made of: tiles, pills, cards, tables. Every text that comes in is escaped; nothing here asks anyone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape

from dashboards import theme

STYLE = f"""<style>
.stMainBlockContainer {{ padding: 4.1rem 1.6rem 2rem; max-width: none; }}
.stAppHeader {{ background: {theme.DEEP}; border-bottom: 1px solid {theme.LINE}; }}
[data-stale="true"] {{ opacity: 1 !important; transition: none !important; }}
.st-key-who {{ position: fixed; top: .55rem; right: 1.2rem; width: auto; z-index: 999991; }}
[data-testid="stBaseButton-segmented_controlActive"], [data-testid="stBaseButton-pillsActive"],
[data-testid="stBaseButton-segmented_controlActive"] *, [data-testid="stBaseButton-pillsActive"] * {{ color: {theme.ACCENT} !important; }}
.stApp {{ font-variant-numeric: tabular-nums; }}
.lf-strip {{ display: flex; flex-wrap: wrap; gap: 0; background: {theme.PANEL}; border: 1px solid {theme.LINE}; border-radius: .5rem; }}
.lf-tile {{ flex: 1 1 auto; padding: .55rem 1.05rem .6rem; border-right: 1px solid {theme.LINE}; min-width: 8.2rem; }}
.lf-tile .lf-note {{ max-width: 30rem; }}
.lf-tile:last-child {{ border-right: 0; }}
.lf-name {{ font-size: .7rem; letter-spacing: .07em; text-transform: uppercase; color: {theme.MUTED}; white-space: nowrap; }}
.lf-value {{ font-size: 1.32rem; font-weight: 600; line-height: 1.35; white-space: nowrap; }}
.lf-note {{ font-size: .78rem; color: {theme.MUTED}; }}
.lf-card {{ background: {theme.PANEL}; border: 1px solid {theme.LINE}; border-left: 3px solid var(--tone, {theme.LINE});
  border-radius: .5rem; padding: .75rem .95rem; margin-bottom: .1rem; }}
.lf-card h4 {{ margin: 0 0 .25rem; padding: 0; font-size: 1.02rem; font-weight: 650; }}
.lf-card p {{ margin: .2rem 0; font-size: .9rem; line-height: 1.45; }}
.lf-pill {{ display: inline-block; padding: .05rem .55rem; border-radius: 1rem; font-size: .74rem; font-weight: 600; white-space: nowrap;
  color: var(--tone); border: 1px solid color-mix(in srgb, var(--tone) 55%, transparent);
  background: color-mix(in srgb, var(--tone) 14%, transparent); }}
.lf-banner {{ border: 1px solid var(--tone); background: color-mix(in srgb, var(--tone) 16%, {theme.DEEP}); border-radius: .5rem;
  padding: .65rem 1rem; font-size: .95rem; }}
[data-testid="stVerticalBlock"]:has(> [data-testid="stElementContainer"] .lf-kept) > :not(:has(.lf-kept, .lf-live)) {{
  opacity: .45; filter: grayscale(1); }}
[data-testid="stElementContainer"]:has(> * .lf-kept) {{ order: -1; }}
.lf-table {{ width: 100%; border-collapse: collapse; font-size: .88rem; }}
.lf-table th {{ text-align: left; font-weight: 500; color: {theme.MUTED}; font-size: .72rem; letter-spacing: .06em;
  text-transform: uppercase; padding: .35rem .7rem; border-bottom: 1px solid {theme.LINE}; white-space: nowrap; }}
.lf-table td {{ padding: .38rem .7rem; border-bottom: 1px solid color-mix(in srgb, {theme.LINE} 55%, transparent); vertical-align: top; }}
.lf-table tr:last-child td {{ border-bottom: 0; }}
.lf-table .lf-right {{ text-align: right; white-space: nowrap; }}
.lf-legend {{ display: flex; flex-wrap: wrap; gap: .3rem 1.15rem; font-size: .86rem; }}
.lf-list {{ margin: .25rem 0; padding-left: 1.1rem; font-size: .88rem; line-height: 1.5; }}
.lf-mono {{ font-family: "Source Code Pro", monospace; font-size: .93em; letter-spacing: .01em; }}
.lf-dot {{ display: inline-block; width: .95rem; height: .58rem; border-radius: 2px; margin-right: .5rem; vertical-align: .02rem; }}
.lf-facts {{ margin: 0; padding: .5rem .7rem; display: grid; grid-template-columns: max-content 1fr; gap: .22rem 1rem; font-size: .9rem; }}
.lf-facts dt {{ color: {theme.MUTED}; }} .lf-facts dd {{ margin: 0; }}
.lf-line {{ position: relative; padding: 0 0 .8rem 1.3rem; border-left: 2px solid {theme.LINE}; margin-left: .35rem; font-size: .9rem; }}
.lf-line::before {{ content: ""; position: absolute; left: -.42rem; top: .3rem; width: .65rem; height: .65rem; border-radius: 50%;
  background: {theme.DEEP}; border: 2px solid var(--tone, {theme.ACCENT}); }}
.lf-heading {{ font-size: 1.12rem; font-weight: 650; margin: .35rem 0 0; }}
.lf-heading .lf-note {{ font-weight: 400; margin-left: .7rem; }}
.lf-muted {{ color: {theme.MUTED}; }}
[data-testid="stDeckGlJsonChart"] {{ background: {theme.SEA}; border-radius: .5rem; }}
@media (max-width: 1000px) {{
  .st-key-who p {{ max-width: 6.5rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }}
  .stMainBlockContainer [data-testid="stHorizontalBlock"] {{ flex-wrap: wrap; }}
  .stMainBlockContainer [data-testid="stColumn"] {{ min-width: calc(100% - 1.5rem); }}
  .lf-tile {{ border-bottom: 1px solid {theme.LINE}; }}
}}
.lf-brand {{ font-size: 2.1rem; font-weight: 700; letter-spacing: .01em; }}
</style>"""


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of a strip: its name, the number with its unit, a note (mostly its age), and its tone (`theme.TONES`)."""

    name: str
    value: str
    note: str = ""
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class MarkupColumn:
    """One column of a table: the key of its cells in the rows, its heading, whether it holds numbers, and whether cells are markup."""

    key: str
    heading: str
    right: bool = False
    markup: bool = False
    mono: bool = False


def strip(tiles: Iterable[Tile]) -> str:
    """Return tiles side by side."""
    return f'<div class="lf-strip">{"".join(map(_tile, tiles))}</div>'


def _tile(tile: Tile) -> str:
    value = f'<div class="lf-value" style="color:{theme.TONES[tile.tone]}">{escape(tile.value)}</div>'
    return f'<div class="lf-tile"><div class="lf-name">{escape(tile.name)}</div>{value}<div class="lf-note">{escape(tile.note)}</div></div>'


def pill(text: str, tone: str) -> str:
    """Return a word in a little frame of its tone."""
    return f'<span class="lf-pill" style="--tone:{theme.TONES[tone]}">{escape(text)}</span>'


def banner(text: str, tone: str, note: str = "") -> str:
    """Return a sentence nobody should overlook."""
    more = f' <span class="lf-muted">{escape(note)}</span>' if note else ""
    return f'<div class="lf-banner" role="status" style="--tone:{theme.TONES[tone]}"><b>{escape(text)}</b>{more}</div>'


def kept(text: str, note: str = "") -> str:
    """Return a sentence above a part of the page that shows earlier answers: all else in that part is greyed, except what is `live`."""
    return f'<div class="lf-kept">{banner(text, "warning", note)}</div>'


def live(markup: str) -> str:
    """Return markup that stays as it is in a part that is greyed."""
    return f'<div class="lf-live">{markup}</div>'


def card(title: str, body: str, tone: str = "muted", note: str = "") -> str:
    """Return a frame with a title and a body, which is markup."""
    foot = f'<p class="lf-note">{escape(note)}</p>' if note else ""
    return f'<div class="lf-card" style="--tone:{theme.TONES[tone]}"><h4>{escape(title)}</h4>{body}{foot}</div>'


def paragraph(text: str, muted: bool = False) -> str:
    """Return a paragraph of plain text."""
    return f'<p class="lf-muted">{escape(text)}</p>' if muted else f"<p>{escape(text)}</p>"


def facts(pairs: Mapping[str, str]) -> str:
    """Return names and their values, two columns of plain text."""
    return '<dl class="lf-facts">' + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs.items()) + "</dl>"


def swatch(colour: object, text: str) -> str:
    """Return a customer's colour and name."""
    return f'<span class="lf-dot" style="background:{theme.css(colour)}"></span>{escape(text)}'


def table(columns: Sequence[MarkupColumn], rows: Iterable[Mapping[str, str]], empty: str) -> str:
    """Return a table of texts, or the sentence `empty` when it has no rows."""
    lines = ["".join(_cell(column, row) for column in columns) for row in rows]
    if not lines:
        return paragraph(empty, muted=True)
    heads = "".join(f"<th{_right(column)}>{escape(column.heading)}</th>" for column in columns)
    return f'<table class="lf-table"><thead><tr>{heads}</tr></thead><tbody>{"".join(f"<tr>{line}</tr>" for line in lines)}</tbody></table>'


def _cell(column: MarkupColumn, row: Mapping[str, str]) -> str:
    value = row.get(column.key, "")
    text = value if column.markup else escape(value)
    if column.mono:
        text = f'<span class="lf-mono">{text}</span>'
    return f"<td{_right(column)}>{text}</td>"


def _right(column: MarkupColumn) -> str:
    return ' class="lf-right"' if column.right else ""


def lines(steps: Iterable[tuple[str, str, str]]) -> str:
    """Return a line of steps: what, a note under it, and its tone."""
    return "".join(
        f'<div class="lf-line" style="--tone:{theme.TONES[tone]}">{escape(what)}<div class="lf-note">{escape(note)}</div></div>'
        for what, note, tone in steps
    )
