"""Which machine a figure was measured on, when, and how busy it was."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path


def machine() -> dict[str, object]:
    """Return the processor, cores, memory, kernel, Python, the date (UTC) and the load of the last minute.

    These stand next to every figure.
    """
    return {
        "at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1_min": round(os.getloadavg()[0], 1),
    }


def _field(file: str, name: str) -> str | None:
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
