"""`landfall …` in this process: what it prints and how it ends."""

from __future__ import annotations

import pytest

from landfall.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Its exit code, what it printed, and its complaints with line ends as blanks."""
    code = 0
    try:
        main([str(word) for word in words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, " ".join(printed.err.split())
