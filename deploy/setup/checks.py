"""Checks for what would stop Landfall later: found first and reported all together, each with what to do about it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from deploy.setup.setup_folders import CACHE, ROOT

PYTHON_MIN = (3, 11)
FREE_DISK_GB_MIN = 6.0
MEMORY_GB_MIN = 6.0
GB = 1_000_000_000


def of_python() -> Iterator[str]:
    """Yield problems of the Python that runs this."""
    if sys.version_info < PYTHON_MIN:
        yield (
            f"Python {sys.version_info.major}.{sys.version_info.minor} is too old; {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer is needed."
            "\n  Install it and name it: make demo PYTHON=python3.11"
        )
    if sys.maxsize < 2**32:
        yield "This Python is a 32-bit one, for which the packages are not built.\n  Use a 64-bit Python: make demo PYTHON=…"
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        yield "This Python can not make a virtual environment.\n  On Debian or Ubuntu: apt-get install python3-venv"


def of_machine(disk_needed: bool, whole_fleet: bool) -> Iterator[str]:
    """Yield problems of disk, memory and shell.

    Disk counts only when something is still to be installed. Memory counts where the whole fleet is to run: a ship's node takes less than
    1 GB.
    """
    free_gb = shutil.disk_usage(ROOT).free / GB
    if disk_needed and free_gb < FREE_DISK_GB_MIN:
        yield (
            f"Only {free_gb:.1f} GB are free where {ROOT} lies; {FREE_DISK_GB_MIN:.0f} GB are needed."
            "\n  Free some, or clone to a larger disk."
        )
    memory_gb = _memory_gb() if whole_fleet else None
    if memory_gb is not None and memory_gb < MEMORY_GB_MIN:
        yield (
            f"The machine has {memory_gb:.1f} GB of memory; {MEMORY_GB_MIN:.0f} GB are needed."
            "\n  Use a larger one: a whole fleet and Spark run on it at once."
        )
    if not shutil.which("bash"):
        yield "There is no bash, with which Spark starts Java.\n  On Debian or Ubuntu: apt-get install bash"
    try:
        CACHE.mkdir(exist_ok=True)
    except OSError as problem:
        yield f"{ROOT} can not be written: {problem.strerror}.\n  Clone to a folder of your own."


def _memory_gb(meminfo: Path = Path("/proc/meminfo")) -> float | None:
    """Return all of the machine's memory in GB, or None where Linux does not report it."""
    if not meminfo.exists():
        return None
    total = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemTotal:"))
    return int(total.split()[1]) * 1024 / GB
