"""Which of the voyages a test is asked of: without a mark, of both."""

from __future__ import annotations

import pytest

ordeal_alone = pytest.mark.parametrize("played", [pytest.param("ordeal", marks=pytest.mark.long)], indirect=True)
"""What can only be seen in the long voyage."""
calm_alone = pytest.mark.parametrize("played", ["calm"], indirect=True)
"""What another voyage would show no other way."""
