"""MirrorMaker 2's jars, checked against `mirrormaker.lock` beside this file. No set-up fetches them: only who measures MirrorMaker does.

`python -m bench.duel.mirrorjars` fetches what is missing; `--lock` looks up anew which jars it asks for and writes the lock file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deploy.setup import jars
from deploy.setup.setup_folders import CACHE
from hq.java import Jar, locked_jars
from streams.model.errors import LandfallError

LOCK = Path(__file__).with_name("mirrormaker.lock")
FOLDER = CACHE / "mirrormaker" / "jars"
WHAT = "MirrorMaker's jars"
MODULES = (
    ("org.apache.kafka", "connect-mirror", "4.3.1"),
    ("org.apache.kafka", "connect-runtime", "4.3.1"),
    ("org.apache.kafka", "connect-json", "4.3.1"),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
"""MirrorMaker, what runs it and its converters, and what lets it write its log."""
LOCK_HEADER = "# Kafka MirrorMaker 2 and everything that it asks for. Made by `python -m bench.duel.mirrorjars --lock`.\n"


def locked() -> list[Jar]:
    """The jars, as the lock file names them."""
    return locked_jars(LOCK, FOLDER)


def main() -> int:
    """Fetch what is missing, or write the lock; 0 when done."""
    try:
        if sys.argv[1:] == ["--lock"]:
            jars.write_lock(LOCK, LOCK_HEADER, MODULES, WHAT)
        else:
            jars.make_ready(locked(), WHAT)
    except LandfallError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
