"""One voyage for all end-to-end tests: stopped before B and C and looked at, then played to its end. In `make long`, one that is hard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.ordeal import Ordeal
from tests.e2e.played import Calm, Played, play
from tests.e2e.voyage import Voyage
from tests.support.leaks import descendants, kill_what_is_left


@pytest.fixture(scope="package", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """The voyage's processes serve all modules of this folder."""
    before = descendants()
    yield
    kill_what_is_left(before)


@pytest.fixture(scope="package", params=["calm", pytest.param("ordeal", marks=pytest.mark.long)])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    fate = Ordeal() if request.param == "ordeal" else Calm()
    voyage = Voyage(tmp_path_factory.mktemp("voyage") / "fleet", later=fate.later)
    try:
        yield play(voyage, fate)
    finally:
        voyage.shut()
