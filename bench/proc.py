"""What the kernel says of a process."""

from __future__ import annotations

import os
import time
from pathlib import Path


def memory_mib(process: int) -> int:
    """Resident memory, MiB."""
    return _status(process, "VmRSS:")


def peak_mib(process: int) -> int:
    """The most resident memory it ever had, MiB."""
    return _status(process, "VmHWM:")


def _status(process: int, name: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1024


def open_files(process: int) -> int:
    """How many files it has open."""
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())


def cpu_s(process: int) -> float:
    """The CPU time it has used, in seconds."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def cpu_clock_s(process: int) -> float:
    """The same by its own clock, as clock_getcpuclockid(3) makes one of Linux' numbers: not in ticks."""
    return time.clock_gettime(~process << 3 | 2)
