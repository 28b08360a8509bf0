"""A child process that does not outlive the process that started it, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

_BECOME = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""First code that the child runs. Its second part notices a parent that died before the first part."""


def started(command: Sequence[str], words: int | None = None) -> subprocess.Popen[bytes]:
    """Start `command`, whose first word is a path, in a session of its own, so that no Ctrl-C of a terminal reaches it. Its output goes
    where this process's output goes, or into `words` (subprocess.PIPE).

    The system (Linux alone) kills it as soon as the thread that called this has ended, for whatever reason: call it from the main
    thread.
    """
    become = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command]
    return subprocess.Popen(become, start_new_session=True, stdout=words, stderr=None if words is None else subprocess.STDOUT)
