"""A disk whose power can be cut: a file system of its own that stops at an instant, with all that was not synced gone.

An ext4 in a file, mounted; the cut is its own `shutdown` (FS_IOC_SHUTDOWN without flushing the journal, what xfstests cut the power with):
what the kernel still had in memory is never written. Mounted again, the journal is replayed as after a power cut. Needs root and mount.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

SHUTDOWN, NO_FLUSH = 0x8004587D, 2
MIB = 1 << 20
UNMOUNTED_WITHIN_S = 30.0


class CutDisk:
    """A disk at `folder`, of `size_mib`. Use it as `with CutDisk(…) as disk:`; raises OSError where it can not be mounted."""

    def __init__(self, folder: Path, size_mib: int = 1_024) -> None:
        self.folder, self._image = folder, folder.with_suffix(".img")
        self._size = size_mib * MIB

    def __enter__(self) -> Self:
        self.format()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._unmount()
        self._image.unlink()

    def format(self) -> None:
        """An empty disk, whatever was on it."""
        if self.folder.is_mount():
            self._unmount()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._image.unlink(missing_ok=True)
        with self._image.open("wb") as file:
            file.truncate(self._size)
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self._image))
        self._mount()

    def cut(self) -> None:
        """From this instant nothing reaches the disk; whoever writes fails. What was synced is there after `back`."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_FLUSH))
        finally:
            os.close(descriptor)

    def back(self) -> None:
        """The power is back. Whoever had files open there has ended."""
        self._unmount()
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop,noatime,commit=300", str(self._image), str(self.folder))

    def _unmount(self) -> None:
        deadline_s = time.monotonic() + UNMOUNTED_WITHIN_S
        while subprocess.run(["umount", str(self.folder)], capture_output=True, check=False).returncode:
            if time.monotonic() > deadline_s:
                raise OSError(f"{self.folder} is still in use")
            time.sleep(0.05)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")
