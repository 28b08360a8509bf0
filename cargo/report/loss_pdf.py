"""A loss report as a PDF: the same lines as its text, laid out to be printed, signed and handed over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files

import font_source_sans_pro
from fpdf import FPDF
from fpdf.fonts import TTFFont

from cargo.report.loss_report import LossReport, ReportedBox
from cargo.report.loss_text import LAW, box_texts, heading, headline, receipt_text, rows
from cargo.vocabulary.instants import time_text

FONT, FONT_FILES = "Source Sans Pro", {"": "SourceSansPro-Regular.ttf", "B": "SourceSansPro-Bold.ttf"}
"""Font with Latin of every country, Greek and Cyrillic; the letters that a report uses are embedded in it."""
STANDS_FOR = "?"
LACKING = f"{STANDS_FOR} stands for each letter that this page's font lacks: the report as text and as JSON has them."
TITLE_MM, VALUE_MM, BASIS_MM = 44.0, 76.0, 70.0
ROW_PT = 8
LINE_MM, ROW_LINES_MAX = 4.0, 40


def report_pdf(report: LossReport) -> bytes:
    """Return the report's PDF, A4. The same report gives the same bytes: its date is when the content was written."""
    page = _Page(report)
    page.add_page()
    page.set_font(FONT, "B", 14)
    page.cell(text=page.drawn(headline(report)), new_x="LMARGIN", new_y="NEXT")
    page.set_font(FONT, size=9)
    for line in heading(report)[2:]:
        page.multi_cell(0, text=page.drawn(line), new_x="LMARGIN", new_y="NEXT")
    page.ln(3)
    page.table_of(("Line", "Value", "From what"), list(rows(report)), (TITLE_MM, VALUE_MM, BASIS_MM))
    content = report.content
    for title, boxes in (
        ("Containers lost", content.lost),
        ("At risk: without a working tracker, in the same stacks", content.at_risk),
        ("Heard or seen again, so not lost", content.found),
    ):
        page.boxes(title, boxes)
    if report.sendings:
        page.ln(4)
        sent = [
            (time_text(one.sent_at_ms), f"{one.to} {one.name}".strip(), one.means, one.by, receipt_text(report, one))
            for one in report.sendings
        ]
        page.table_of(("Sent at", "To", "By what means", "Written down by", "Receipt"), sent, (35.0, 45.0, 30.0, 30.0, 50.0))
    page.set_font(FONT, size=9)
    if page.lacks:
        page.ln(4)
        page.multi_cell(0, text=LACKING, new_x="LMARGIN", new_y="NEXT")
    page.ln(12)
    page.cell(text="Master or company, name and signature: ______________________________   Date and time (UTC): ______________")
    return bytes(page.output())


class _Page(FPDF):
    """Pages that each identify the report and its state; `lacks`: whether the font lacks a letter of the text."""

    def __init__(self, report: LossReport) -> None:
        super().__init__(format="A4")
        for style, name in FONT_FILES.items():
            self.add_font(FONT, style, str(files(font_source_sans_pro) / "files" / name))
        self.lacks = False
        self._foot = f"{report.head.kind} report {report.id}, {report.state}, version {report.digest[:8]}"
        self.set_title(f"{headline(report)}: {self._foot}")
        self.set_creation_date(datetime.fromtimestamp(report.written_at_ms / 1000, UTC))
        self.set_auto_page_break(True, margin=18)

    def drawn(self, text: str) -> str:
        """Return the text, with a replacement for each letter that the current font lacks."""
        font = self.current_font
        has = font.cmap if isinstance(font, TTFFont) else {}
        drawn = "".join(letter if ord(letter) in has or letter == "\n" else STANDS_FOR for letter in text)
        self.lacks = self.lacks or drawn != text
        return drawn

    def footer(self) -> None:
        """Write the report, the page number, and the form that it is transcribed into."""
        self.set_y(-14)
        self.set_font(FONT, size=7)
        self.multi_cell(0, text=self.drawn(f"{self._foot}. Page {self.page_no()}. {LAW}"))

    def table_of(self, names: tuple[str, ...], body: Sequence[tuple[str, ...]], widths_mm: tuple[float, ...]) -> None:
        """Write a table whose head is repeated on each of its pages."""
        self.set_font(FONT, size=ROW_PT)
        rows_of = [[self._pieces(cell, width) for cell, width in zip(cells, widths_mm, strict=True)] for cells in (names, *body)]
        with self.table(col_widths=widths_mm, text_align="LEFT", line_height=LINE_MM) as table:
            for pieces in rows_of:
                for at in range(max(map(len, pieces))):
                    row = table.row()
                    for piece in pieces:
                        row.cell(piece[at] if at < len(piece) else "")

    def _pieces(self, text: str, width_mm: float) -> list[str]:
        """Return the text in pieces that each fit a row: none is higher than a page."""
        laid = self.multi_cell(width_mm - 2 * self.c_margin, text=self.drawn(text), dry_run=True, output="LINES")
        lines = laid if isinstance(laid, list) and laid else [""]
        return ["\n".join(lines[at : at + ROW_LINES_MAX]) for at in range(0, len(lines), ROW_LINES_MAX)]

    def boxes(self, title: str, boxes: Sequence[ReportedBox]) -> None:
        """Write a table of these boxes; nothing when there are none."""
        if not boxes:
            return
        self.ln(4)
        self.set_font(FONT, "B", 10)
        self.cell(text=self.drawn(f"{title} ({len(boxes)})"), new_x="LMARGIN", new_y="NEXT")
        table_rows = [(str(number), *box_texts(box)) for number, box in enumerate(boxes, 1)]
        self.table_of(("", "Container, as the papers have it", "When, and on what evidence"), table_rows, (10.0, 80.0, 100.0))
