"""Goal: which readings came before is known exactly as a set would know it, in a fraction of its memory; of how many is bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cargo.vocabulary.reading_identity import IDENTITY_BYTES, identities
from intake.deduplicator import KnownIdentities, RepeatWindow, words_of
from tests.support.refusals import refusal

DEVICES = 501
ALL = identities(["MSKU1234565"] * DEVICES, [f"TRK-{number}" for number in range(DEVICES)], [1] * DEVICES, {}, {})


def of(numbers: Iterable[int]) -> list[bytes]:
    """The identities of one reading each of these devices."""
    return [ALL[number] for number in numbers]


@settings(derandomize=True)
@given(st.lists(st.lists(st.integers(0, 300), max_size=60), max_size=8))
def test_a_table_knows_what_a_set_knows(batches: list[list[int]]) -> None:
    """Many meet at one place: the table is nearly as full as it may be, and identities come again, in one batch too."""
    table, known = KnownIdentities(600), set[int]()
    for batch in batches:
        asked = sorted({*batch, 0, 17, 299})
        assert table.has(words_of(of(asked))).tolist() == [number in known for number in asked]
        table.add(words_of(of(batch)))
        known.update(batch)
        assert len(table) == len(known)
    assert table.has(words_of(of(range(301)))).tolist() == [number in known for number in range(301)]


def test_those_that_meet_at_one_place_are_told_apart() -> None:
    """The first of all these numbers is the same: they look at the same places, one after the other."""
    same = [(7).to_bytes(8, "little") + number.to_bytes(8, "little") for number in range(1, 65)]
    table = KnownIdentities(64)
    table.add(words_of(same[::2]))
    assert table.has(words_of(same)).tolist() == [True, False] * 32
    table.add(words_of(same[1::2]))
    assert len(table) == 64
    assert table.has(words_of(same)).all()
    with refusal(ValueError, "identities_too_many"):
        table.add(words_of(of([1])))


@settings(derandomize=True)
@given(st.integers(1, 40), st.lists(st.lists(st.integers(0, 500), max_size=90), max_size=10))
def test_a_window_remembers_the_last_ones_at_least_and_fewer_than_twice_as_many(most: int, batches: list[list[int]]) -> None:
    window, came = RepeatWindow(most), list[int]()
    for batch in batches:
        window.remember(of(batch))
        came += batch
        known = {number for number, before in enumerate(window.known(ALL)) if before}
        assert known.issuperset(came[-most:])
        assert known.issubset(came)
        assert len(known) < 2 * most


def test_a_window_of_half_a_million_takes_a_few_mebibytes() -> None:
    random, window = np.random.default_rng(3).bytes(IDENTITY_BYTES << 19), RepeatWindow(1 << 18)
    made = [random[at : at + IDENTITY_BYTES] for at in range(0, len(random), IDENTITY_BYTES)]
    tracemalloc.start()
    for first in range(0, len(made), 1 << 15):
        window.remember(made[first : first + (1 << 15)])
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken_bytes < 20 << 20
    assert all(window.known(made[1 << 18 :]))
