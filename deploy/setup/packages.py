"""The project's own Python environment, made from lock files: every package at one version, its bytes known by hash."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import venv
from pathlib import Path

from deploy.setup.setup_folders import BUILD_LOCK, CACHE, LOG, ROOT, RUN_LOCK, STAMPS, VENV, VENV_PYTHON, lock_of, stamp, stamps
from deploy.setup.setup_progress import Milestones, Progress, run

LANDFALL = "landfall"
"""Step that installs this clone itself."""
PIP = (str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input")


def are_ready(purpose: str) -> bool:
    """Return whether the environment holds what the locks require, by the stamps of earlier runs."""
    finished = stamps()
    return all(finished.get(step) == digest for step, digest in _wanted(purpose).items())


def make_ready(purpose: str) -> None:
    """Make or repair the environment; what earlier runs finished is not done again."""
    if stamps().get("environment") != _environment_digest():
        _make_environment()
    for step, digest in _wanted(purpose).items():
        if stamps().get(step) != digest:
            if step == LANDFALL:
                _install_landfall()
            else:
                _install(lock_of(purpose))
            stamp(step, digest)
    if purpose == "test":
        stamp(_packages_of(RUN_LOCK), _digest(BUILD_LOCK, RUN_LOCK))


def _wanted(purpose: str) -> dict[str, str]:
    lock = lock_of(purpose)
    return {
        "environment": _environment_digest(),
        _packages_of(lock): _digest(BUILD_LOCK, lock),
        LANDFALL: _digest(ROOT / "pyproject.toml"),
    }


def _packages_of(lock: Path) -> str:
    return f"packages of {lock.name}"


def _make_environment() -> None:
    progress = Progress(f"an environment in {VENV.name}")
    venv.create(VENV, clear=True, with_pip=True)
    stamp("environment", _environment_digest())
    progress.done()


def _install(lock: Path) -> None:
    """Install the packages that build, then those of `lock`.

    A package that comes as source is built with the former, so that nothing without a known hash is ever run. For tests only what is
    imported is compiled, when it first is: to compile all of it takes a quarter of the set-up.
    """
    build_folder = CACHE / "tmp"
    build_folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "TMPDIR": str(build_folder)}
    compiling = ("--no-compile",) if lock == lock_of("test") else ()
    for part, wait in ((BUILD_LOCK, ""), (lock, " (a few minutes the first time)")):
        run(
            f"Python packages of {part.name}{wait}",
            (*PIP, "install", "--require-hashes", "--no-build-isolation", "--progress-bar=off", *compiling, "-r", str(part)),
            LOG,
            environ,
            Milestones(r"^(Collecting|Requirement already satisfied)", len(re.findall(r"^\S+==", part.read_text(), re.MULTILINE))),
        )


def _install_landfall() -> None:
    run("landfall itself", (*PIP, "install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)), LOG)


def _environment_digest() -> str:
    """Return what an environment belongs to, one Python and one folder: it can not be moved to another."""
    base = Path(sys.base_prefix)
    return f"{sys.version_info.major}.{sys.version_info.minor} {base} {STAMPS}"


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
