"""The endpoint looks after its connections more often than it does for people: what is due is done at once."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _looked_after_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intake.endpoint.SWEEP_EVERY_S", 0.02)
