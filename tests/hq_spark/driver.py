"""The analytics as a process of its own, for tests that kill it: `python -m tests.hq_spark.driver SETTINGS.json`.

Spark is started at once; a line on standard input lets the analytics begin, with the settings as they are then. So that the next
one can be got ready while one lives.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from hq.analytics.job import run_analytics
from hq.analytics.settings import AnalyticsSettings
from hq.spark_session import start_spark


def settings() -> AnalyticsSettings:
    return AnalyticsSettings.model_validate_json(Path(sys.argv[1]).read_text())


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    start_spark(settings().spark, settings().scratch_dir)
    sys.stdin.readline()
    run_analytics(settings())
