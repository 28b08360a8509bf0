"""What the kernel says of a process."""

from __future__ import annotations

from pathlib import Path


def memory_mib(process: int) -> int:
    """Resident memory, MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) // 1024


def open_files(process: int) -> int:
    """How many files it has open."""
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())
