"""A pytest plugin: a failing example of Hypothesis is reported as it was found, which saves minutes of making it smaller."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """From now on no example is shrunk. All else is as the tests' own profile says."""
    settings.register_profile("unshrunk", settings.default, phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target))
    settings.load_profile("unshrunk")
