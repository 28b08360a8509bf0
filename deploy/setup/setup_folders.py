"""Where set-up finds and puts things."""

from __future__ import annotations

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
CACHE = ROOT / ".cache"
LOG = CACHE / "setup.log"
STAMPS = VENV / "landfall-setup.json"

BUILD_LOCK = ROOT / "requirements-build.lock"
RUN_LOCK = ROOT / "requirements.lock"
TEST_LOCK = ROOT / "requirements-dev.lock"
ROLES = ("edge", "shore", "hq", "pages", "sim")
"""Roles of a machine, each with a lock of its own: an extra of pyproject.toml."""
JARS_LOCK = ROOT / "deploy" / "spark" / "jars.lock"
KAFKA_LOCK = ROOT / "deploy" / "kafka" / "jars.lock"


def lock_of(purpose: str) -> Path:
    """Return the lock of the packages that a machine for `purpose` has: a role, `run` (all roles), `demo` or `test`."""
    if purpose == "test":
        return TEST_LOCK
    return ROOT / f"requirements-{purpose}.lock" if purpose in ROLES else RUN_LOCK


def stamps() -> dict[str, str]:
    """Return the steps that earlier runs finished: step → the digest of its inputs. A new environment has none."""
    try:
        finished: dict[str, str] = json.loads(STAMPS.read_text())
    except (OSError, ValueError):
        return {}
    return finished


def stamp(step: str, digest: str) -> None:
    """Remember that `step` is finished for inputs of this digest, in one piece or not at all."""
    fresh = STAMPS.with_name(f"{STAMPS.name}.{os.getpid()}")
    fresh.write_text(json.dumps({**stamps(), step: digest}, indent=1, sort_keys=True))
    fresh.replace(STAMPS)
