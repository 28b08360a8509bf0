"""Names for the arrays the simulator works with: one element per box, per reading or per instant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""Measures; NaN where nothing was measured."""
Ints = npt.NDArray[np.int64]
"""Codes, indices, and times in UTC ms."""
Flags = npt.NDArray[np.bool_]

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
NEVER_MS = 1 << 62
"""A time later than any story."""
