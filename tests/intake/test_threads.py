"""Goal: where sensors report, no thread of the process keeps those long that take in what they bring."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from intake.intake_service import SWITCH_S
from tests.intake.test_clean_stop import taking_in


async def test_where_sensors_report_threads_take_turns_soon(tmp_path: Path) -> None:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(5 * SWITCH_S)
    try:
        async with taking_in(tmp_path):
            assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    finally:
        sys.setswitchinterval(before_s)
