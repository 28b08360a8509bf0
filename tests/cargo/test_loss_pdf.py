"""Goal: names and cargo stand on the printed report in the letters they are written with."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace

import pytest

from cargo.report.loss_draft import next_draft
from cargo.report.loss_pdf import report_pdf
from cargo.report.loss_report import ReportBook
from cargo.vocabulary.registry_entries import Entry, Ship
from cargo.vocabulary.registry_fold import Registry
from tests.cargo.lossnews import papers, voyage
from tests.support.sea import SHIP, START_MS, Sea

FACTS = voyage()
STREAM = re.compile(rb"stream\r?\n(.*?)\r?\nendstream", re.DOTALL)


def letters(pdf: bytes) -> set[str]:
    """Those that the fonts of a PDF say they have drawn (their ToUnicode maps)."""
    maps = [inflated for one in STREAM.findall(pdf) if b"beginbfchar" in (inflated := inflate(one))]
    return {chr(int(code, 16)) for one in maps for code in re.findall(rb"<[0-9A-F]+> <([0-9A-F]{4})>", one)}


def inflate(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return stream


@pytest.mark.parametrize(
    ("name", "drawn"), [("Żeglarz z Łodzi", "ŻŁ"), ("ΛΑΔΙ", "ΛΔ"), ("Ящики", "Ящк"), ("Çağ Işıltısı", "ğş"), ("生糸 Maru", "")]
)
def test_letters_of_every_alphabet_with_cases_are_printed(name: str, drawn: str) -> None:
    ship = Entry("ship", SHIP, 9, START_MS, "clerk", Ship(SHIP, name, "9V1234", "563012345", "SG", 2_000, "Moe Teal"))
    made = next_draft([], replace(FACTS, registry=Registry([*papers(Sea(boxes=24)), ship])), "ship-a")
    assert made is not None
    [report] = ReportBook([made.body]).reports()
    assert report.content.lines["ship"].value == name
    pdf = report_pdf(report)
    assert set(drawn) <= letters(pdf)
    assert "生" not in letters(pdf)
    assert pdf == report_pdf(report)
