"""What Spark's checkpoint says: which micro-batches were begun and done, and the Positions each ends at."""

from __future__ import annotations

import json
from pathlib import Path

from streams.gap_skipping_reader import ReaderStanding, standings_from_json

SOURCE_LINE = 2
"""In an offset file: the version, Spark's own words, then a line per source. There is one source."""


def last_done(checkpoint: Path) -> int | None:
    """The last micro-batch that was done to the end; None before the first."""
    return _last(checkpoint / "commits")


def has_begun(checkpoint: Path) -> bool:
    """Whether a micro-batch was ever begun."""
    return _last(checkpoint / "offsets") is not None


def standings_after(checkpoint: Path, batch: int) -> dict[str, ReaderStanding]:
    """Per stream where micro-batch `batch`, begun already, ends. Raises FileNotFoundError for one Spark has forgotten."""
    return standings_from_json(json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[SOURCE_LINE]))


def _last(folder: Path) -> int | None:
    return max((int(one.name) for one in folder.iterdir() if one.name.isdigit()), default=None) if folder.is_dir() else None
