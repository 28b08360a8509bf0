"""Headquarters' log, for each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.fanout.headquarters import Headquarters


@pytest.fixture
def hq(tmp_path: Path) -> Iterator[Headquarters]:
    """A log of its own, closed after the test."""
    headquarters = Headquarters(tmp_path)
    with closing(headquarters.log):
        yield headquarters
