"""Python runs this at its start where this folder is on PYTHONPATH (`COVERAGE=1 make …`): lines of the product are counted from then on."""

from __future__ import annotations

from tests.support import lines

lines.start()
