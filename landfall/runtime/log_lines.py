"""What a process tells people while it runs: one line a sentence, to standard error."""

from __future__ import annotations

import logging
import sys
import time

from landfall.system.listen_address import ExhaustionFilter


def to_stderr(process: str) -> None:
    """From now on every logger's INFO and above goes to standard error, with the time and the process's name."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {process} %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("asyncio").addFilter(ExhaustionFilter(time.monotonic))
    for chatty in ("httpx", "py4j", "pyspark"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
