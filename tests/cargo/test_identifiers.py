"""Container, ship and place numbers: the check digits of the standards, and help for people who mistype them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import iso6346

from cargo.vocabulary.trade_codes import check_container, is_container, is_imo, is_locode, looks_like_container, make_container, make_imo
from tests.support.refusals import refusal

OWNERS = st.from_regex(r"[A-Z]{3}[UJZR]", fullmatch=True)


@pytest.mark.parametrize("number", ["CSQU3054383", "TASU1170000", "MSKU1234565"])
def test_numbers_of_the_standard_hold(number: str) -> None:
    """Goal: published examples pass, also as people write them."""
    assert is_container(number)
    assert check_container(f" {number[:4].lower()} {number[4:10]}-{number[10]} ").valid


def test_a_wrong_check_digit_is_told_with_the_right_one() -> None:
    """Goal: the message names what would be right, and the right number is among the guesses."""
    found = check_container("CSQU3054384")
    assert not found.valid
    assert "is 3, not 4" in found.problem
    assert "CSQU3054383" in found.candidates


def test_a_missing_check_digit_is_supplied() -> None:
    """Goal: ten characters are a number whose check digit was left off."""
    assert check_container("CSQU305438").candidates == ("CSQU3054383",)


@pytest.mark.parametrize("text", ["", "x", "CSQU30543", "1234", "CSQU30543833333", "ЖSQU3054383", "CSQU305438\u0663"])
def test_nonsense_is_no_number_and_no_crash(text: str) -> None:
    """Goal: any text has an answer."""
    assert not check_container(text).valid
    assert not is_container(text)


@given(OWNERS, st.integers(0, 999_999))
def test_made_numbers_hold(owner: str, serial: int) -> None:
    """Goal: what is made passes its own check."""
    assert is_container(make_container(owner, serial))


@given(st.from_regex(r"[A-Z]{3}[UJZR][0-9]{7}", fullmatch=True))
def test_a_check_digit_is_what_python_stdnum_says_it_is(number: str) -> None:
    """Goal: our own table of values is that of the standard."""
    made = make_container(number[:4], int(number[4:10]))
    assert iso6346.is_valid(made)
    assert is_container(number) == iso6346.is_valid(number)


@given(OWNERS, st.integers(0, 999_999), st.integers(4, 9), st.integers(1, 9))
def test_one_wrong_digit_is_found_out_and_put_right(owner: str, serial: int, at: int, by: int) -> None:
    """Goal: one wrong digit never passes unless ISO 6346's own blind spot (remainder 10 is written 0) hides it; the right number is
    guessed."""
    number = make_container(owner, serial)
    wrong = number[:at] + str((int(number[at]) + by) % 10) + number[at + 1 :]
    found = check_container(wrong)
    if not found.valid:
        assert number in found.candidates


@given(st.text(max_size=20))
def test_any_text_is_answered(text: str) -> None:
    """Goal: no input raises, and every guess is valid."""
    assert all(is_container(number) for number in check_container(text).candidates)


def test_a_number_with_a_wrong_check_digit_still_looks_like_one() -> None:
    """Goal: data under a bad number is flagged, not dropped."""
    assert looks_like_container("CSQU3054384")
    assert not looks_like_container("CSQU305438")


def test_owners_and_serials_out_of_range_are_refused() -> None:
    """Goal: no number is made from what can not be one."""
    owner_code, serial_number = "owner_code_invalid", "serial_invalid"
    for owner, serial, code in [
        ("CSQX", 1, owner_code),
        ("csqu", 1, owner_code),
        ("CSQU", -1, serial_number),
        ("CSQU", 1_000_000, serial_number),
    ]:
        with refusal(ValueError, code):
            make_container(owner, serial)


def test_ships_and_places() -> None:
    """Goal: IMO check digits, and the form of UN/LOCODE."""
    assert is_imo("9074729")
    assert not is_imo("9074728")
    assert is_imo(make_imo(932148))
    assert is_locode("SGSIN")
    assert not is_locode("SG SIN")
    with refusal(ValueError, "imo_stem_invalid"):
        make_imo(99)
