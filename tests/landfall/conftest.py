"""What holds for every test of the commands."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def umask_stays() -> Iterator[None]:
    """A command that a test calls in its own process sets that process's umask."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
