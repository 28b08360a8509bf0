"""`python -m bench [name …]`: every bench, or those named, one after another, each in a process of its own and in a short size.

`python -m bench.<name>` runs one alone; a row of docs/performance.md names the full size. Ends with 1 when any of them failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from bench.machine import machine

SHORT = {
    "codec": ("1000", "24"),
    "log": ("1000", "24"),
    "stored": ("1000", "24"),
    "reading": ("1000", "24"),
    "topics": ("2000000", "200000"),
    "standby": ("1",),
    "mqtt": ("100000",),
    "endless": ("endpoint", "5"),
    "brokered": ("3",),
    "losses": ("--kills", "1", "--cuts", "0"),
    "link": ("2000", "60"),
    "pacing": ("4",),
    "failover": ("10",),
    "duel": ("link", "10", "15", "1", "loopback", "240000", "20000", "meeting", "10000", "cycle", "10000"),
    "spark": ("2000", "250"),
    "sim": ("500",),
    "drift": ("500", "24"),
    "watchtable": ("40", "2"),
    "watchday": ("500", "6"),
    "lossashore": ("1",),
    "strangers": ("200", "5"),
    "pages": ("200", "2"),
    "voyage": (),
}
"""Bench → the arguments of its short size."""


def run(name: str) -> bool:
    """Run one bench, its output to ours; whether it went well."""
    words = [sys.executable, "-m", f"bench.{name}", *SHORT[name]]
    print(f"\n== {name} {' '.join(SHORT[name])}, at {json.dumps(machine())}", flush=True)
    began_s = time.monotonic()
    code = subprocess.run(words, check=False).returncode
    print(f"== {name}: {'done' if code == 0 else f'failed with code {code}'} after {time.monotonic() - began_s:.0f} s", flush=True)
    return code == 0


def main() -> int:
    """Run what was asked for; 0 when all of it went well."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(SHORT)}; all of them when none is named")
    names = parser.parse_args().names or list(SHORT)
    if unknown := [name for name in names if name not in SHORT]:
        parser.error(f"no bench {', '.join(unknown)}: there are {', '.join(SHORT)}")
    failed = [name for name in names if not run(name)]
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
