"""Goal: a container's number is compacted where it comes in, however a tracker writes it; other identities stay as they are."""

from __future__ import annotations

import pytest

from cargo.vocabulary.trade_codes import check_container, identity_problem, is_ilu, stored_number
from intake.topic_routes import Routes, TopicRoute

ILU, SHIPPERS = "ATBE1003091", "SOCU123456"


def route(written: str) -> TopicRoute | None:
    return Routes().route(f"landfall/containers/{written}/reading".encode())


@pytest.mark.parametrize("written", ["MSKU1234565", "msku1234565", "MSKU-123456-5", "msku 123456-5", "MSKU 1234565", "Msku-1234565"])
def test_one_box_is_one_topic_however_it_is_written(written: str) -> None:
    assert route(written) == TopicRoute("containers", "MSKU1234565", True)
    assert stored_number(written) == "MSKU1234565"


@pytest.mark.parametrize(
    ("written", "number", "valid"),
    [
        ("atbe-100309-1", ILU, True),
        ("socu 123456", SHIPPERS, False),
        ("msku-123456-0", "MSKU1234560", False),
        ("pallet-7", "pallet-7", False),
        ("NO-NUMBER-0350282", "NO-NUMBER-0350282", False),
        ("12345678901", "12345678901", False),
    ],
)
def test_other_identities_stay_findable_as_they_are(written: str, number: str, valid: bool) -> None:
    assert route(written) == TopicRoute("containers", number, valid)


@pytest.mark.parametrize("written", ["9501332.location", "pallet 7", ".", " ", "MSKU1234565.location", "-" * 25])
def test_no_number_makes_a_topic_of_something_else(written: str) -> None:
    """A ship's topics have a dot."""
    assert route(written) is None


def test_an_identity_is_told_for_what_it_is() -> None:
    assert is_ilu(ILU)
    assert not is_ilu("ATBE1003092")
    assert "ILU code (EN 13044)" in check_container(ILU).problem
    assert "shipper-owned" in identity_problem(SHIPPERS)
    assert "MSKU123456 is 5" in identity_problem("MSKU1234560")
    assert "ISO 6346" in identity_problem("12345678901")
    assert identity_problem("MSKU1234565") == ""
