"""Goal: a text that a person typed is one text, however the keyboard writes accents, and found in small letters or capitals."""

from __future__ import annotations

import time

import pytest

from landfall.access.password_checks import PASSWORD_CHARS_MAX, hash_password, password_bytes, verifies
from streams.model.identifiers import MARKS_MAX, composed, folded

ACUTE = "\u0301"


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (f"Zoe\u0308 Ne{ACUTE}e", "Zoë Née"),
        ("plain", "plain"),
        ("\u1112\u1161\u11ab", "한"),
        ("\ud800e" + ACUTE, "\ud800é"),
    ],
)
def test_an_accent_is_part_of_its_letter(typed: str, text: str) -> None:
    assert composed(typed) == text
    assert composed(text) == text


def test_accents_without_end_cost_no_time_and_stay() -> None:
    """Composing takes time by the square of their number: 100,000 take half a minute."""
    odd = "a" + f"{ACUTE}\u0316" * 50_000
    began_s = time.process_time()
    assert composed(odd) == odd
    assert time.process_time() - began_s < 1
    assert composed("a" + ACUTE * MARKS_MAX) == "á" + ACUTE * (MARKS_MAX - 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (" BK-1\t", "bk-1"),
        ("ÄÖ", "a\u0308ö"),
        ("Straße", "STRASSE"),
        ("ΝΑΎΛΟΣ", "ναύλος"),
        ("БК", "бк"),
        ("\u0390", "\u1fd3"),
    ],
)
def test_a_search_knows_no_capitals(one: str, other: str) -> None:
    assert folded(one) == folded(other) == folded(folded(one))


def test_a_password_is_the_same_on_every_keyboard() -> None:
    kept = hash_password("le café crème")
    assert verifies(kept, password_bytes(f"le cafe{ACUTE} cre\u0300me"))
    assert not verifies(kept, password_bytes("le cafe creme"))
    assert verifies(hash_password(f"le cafe{ACUTE} cre\u0300me"), password_bytes("le café crème"))
    longest = hash_password("salt, " * 33 + "é.")
    assert verifies(longest, password_bytes("salt, " * 33 + f"e{ACUTE}."))
    assert not verifies(longest, password_bytes("salt, " * 33 + "é.."))
    assert len("salt, " * 33 + "é.") == PASSWORD_CHARS_MAX
