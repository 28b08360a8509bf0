"""What a person sees of set-up: each long step says what it does, how far it is and how long it took."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LOG_TAIL_LINES = 25
STILL_BUSY_EVERY_S = 10.0
ERASE_LINE = "\r\033[K"


class StepFailed(Exception):
    """A command of a step ended badly; the message is for the person who waits, and says where the whole log is."""


class Progress:
    """One line on a terminal that is rewritten as a step goes on; elsewhere (a log, CI) a new line every ten seconds."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._started_s = self._shown_s = time.monotonic()
        self._rewrites = sys.stdout.isatty()
        print(f"· {title} …", end="" if self._rewrites else "\n", flush=True)

    def show(self, doing: str) -> None:
        """Show what is being done now."""
        now_s = time.monotonic()
        if self._rewrites:
            print(f"{ERASE_LINE}· {self._title} … {now_s - self._started_s:.0f} s  {doing}"[:150], end="", flush=True)
        elif now_s - self._shown_s >= STILL_BUSY_EVERY_S:
            print(f"    {now_s - self._started_s:.0f} s  {doing}", flush=True)
            self._shown_s = now_s

    def done(self) -> None:
        """Print that the step is done, and how long it took."""
        print(f"{ERASE_LINE if self._rewrites else ''}✓ {self._title}: {time.monotonic() - self._started_s:.1f} s", flush=True)


@dataclass(frozen=True)
class Milestones:
    """Progress of a command: the number of its lines that match `pattern`, of `total`."""

    pattern: str = r"(?!)"
    total: int = 0


def run(
    title: str, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None, milestones: Milestones = Milestones()
) -> None:
    """Run `command` as one step; all its output goes to the end of `log`. Raises StepFailed with the last lines when it fails."""
    progress, doing, count, total = Progress(title), "", 0, milestones.total
    log.parent.mkdir(parents=True, exist_ok=True)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environ)
    with child, log.open("a", encoding="utf-8") as kept:
        print(f"\n$ {' '.join(command)}", file=kept)
        tail: list[str] = []
        for line in _lines(child.stdout):
            if line:
                kept.write(line)
                tail = [*tail[1 - LOG_TAIL_LINES :], line]
                count += bool(re.search(milestones.pattern, line))
                doing = (f"[{min(count, total)}/{total}] " if total else "") + line.strip()[:90]
            progress.show(doing)
    if child.returncode:
        raise StepFailed(f"{title}: failed with code {child.returncode}. Its last lines (all of them: {log}):\n\n{''.join(tail)}")
    progress.done()


def _lines(output: IO[str] | None) -> Iterator[str]:
    """Yield the lines as they come, and an empty one for every second without any."""
    assert output is not None
    lines: queue.Queue[str | None] = queue.Queue()

    def pump() -> None:
        for line in output:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=pump, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            line = ""
        if line is None:
            return
        yield line
