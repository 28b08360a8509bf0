"""The programs that tests run against (a broker, a browser, a database server, git), from Debian's packages when they may be installed."""

from __future__ import annotations

import ctypes.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from deploy.setup.setup_folders import LOG
from deploy.setup.setup_progress import run

SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
PROGRAMS = {
    "mosquitto": "mosquitto",
    "mosquitto_pub": "mosquitto-clients",
    "chromium": "chromium",
    "postgres": "postgresql",
    "git": "git",
    "libatomic.so.1": "libatomic1",
}
"""Program → its package; and the one library that Playwright's own Node.js asks for beyond what Chromium brings."""


def missing() -> list[str]:
    """Return the packages whose programs are not on this machine."""
    return [package for program, package in PROGRAMS.items() if not _is_here(program)]


def problems() -> Iterator[str]:
    """Yield the one line to run, when packages are missing and may not be installed from here."""
    if missing() and not _may_install():
        yield (
            f"The tests run against programs that are not on this machine: {', '.join(missing())}."
            f"\n  sudo apt-get update && sudo apt-get install --no-install-recommends {' '.join(missing())}"
        )


def make_ready() -> None:
    """Install what is missing. Call only when `problems` found none."""
    packages = missing()
    if packages:
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run("Debian's list of packages", ("apt-get", "update"), LOG, environ=environ)
        command = ("apt-get", "install", "--yes", "--no-install-recommends", *packages)
        run(f"Debian packages: {', '.join(packages)}", command, LOG, environ=environ)


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _is_here(program: str) -> bool:
    if program == "postgres":
        return any(Path("/usr/lib/postgresql").glob("*/bin/postgres")) or shutil.which("postgres", path=SEARCHED) is not None
    if program == "libatomic.so.1":
        return ctypes.util.find_library("atomic") is not None or any(Path("/usr/lib").glob(f"*-linux-gnu/{program}"))
    return shutil.which(program, path=SEARCHED) is not None
