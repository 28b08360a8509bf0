"""The analytics as a process of its own, for tests that kill it: `python -m tests.hq_spark.driver SETTINGS.json`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from hq.analytics.job import run_analytics
from hq.analytics.settings import AnalyticsSettings

if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    run_analytics(AnalyticsSettings.model_validate_json(Path(sys.argv[1]).read_text()))
