"""Times at which a copy admitted records from elsewhere. They are kept next to each block, per run of offsets and to the minute, through
merges too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.storage.frames import Admitted
from landfall.storage.log_state import Piece

MINUTE_MS = 60_000


def taken_in(first: int, now_ms: int) -> Admitted:
    """Return the admission runs of a block that begins at offset `first` and is admitted now."""
    return ((first, now_ms // MINUTE_MS),)


def together(pieces: Iterable[Piece]) -> Admitted:
    """Return the admission runs of the block that these pieces, ascending, are merged into."""
    runs: list[tuple[int, int]] = []
    for piece in pieces:
        for first, _, minute in _runs(piece):
            if not runs or runs[-1][1] != minute:
                runs.append((first, minute))
    return () if all(minute == 0 for _, minute in runs) else tuple(runs)


def within(admitted: Admitted, first: int, end: int) -> Admitted:
    """Return the runs of offsets `first .. end - 1` alone."""
    begins = [at for at, _ in admitted]
    inside = admitted[max(0, bisect_right(begins, first) - 1) :]
    return tuple((max(at, first), minute) for at, minute in inside if at < end)


def admitted_at_ms(pieces: Iterable[Piece]) -> Iterable[tuple[int, int, int]]:
    """Return the first offset, end and admission time (UTC ms, the minute's end) of every run whose time is known."""
    return ((first, end, (minute + 1) * MINUTE_MS) for piece in pieces for first, end, minute in _runs(piece) if minute)


def times_of(offsets: npt.NDArray[np.int64], runs: Iterable[tuple[int, int, int]]) -> pa.Array:
    """Return the admission time of each of `offsets` (int64, UTC ms), by `runs` of `LogReader.admissions`; null where no run has it."""
    firsts, ends, times = (np.array(column, np.int64) for column in zip((0, 0, 0), *runs, strict=True))
    run = np.searchsorted(firsts[1:], offsets, side="right")
    return pa.array(times[run], mask=offsets >= ends[run])


def _runs(piece: Piece) -> Iterable[tuple[int, int, int]]:
    """Return the first offset, end and minute of every run of the piece."""
    runs = within(piece.admitted, piece.first, piece.end) or ((piece.first, 0),)
    ends = (*(first for first, _ in runs[1:]), piece.end)
    return ((first, end, minute) for (first, minute), end in zip(runs, ends, strict=True))
