"""One voyage for all end-to-end tests: stopped before B and C and looked at, then played to its end while its processes are killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.played import Played, play
from tests.e2e.voyage import Voyage
from tests.support.leaks import descendants, kill_what_is_left


@pytest.fixture(scope="package", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """The voyage's processes serve all modules of this folder."""
    before = descendants()
    yield
    kill_what_is_left(before)


@pytest.fixture(scope="package")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Voyage]:
    voyage = Voyage(tmp_path_factory.mktemp("voyage") / "fleet")
    yield voyage
    voyage.shut()


@pytest.fixture(scope="package")
def played(voyage: Voyage) -> Played:
    return play(voyage)
