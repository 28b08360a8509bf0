"""Location of the altered records of a run, by power sums over its rows that its origin signs together with its root.

    x_i = i + 1, i from 0: the row's place in its run
    h_i = the first 4 bytes of the row's digest, little endian, modulo P
    s_k = sum of h_i * x_i ** k modulo P, k from 0 to 2 * LOCATED_MAX - 1, 4 bytes each

A root shows only that something differs. The difference of two lists of sums depends on the differing rows alone. These rows are the
errors of a Reed-Solomon code over GF(P), and are found with the algorithm of Berlekamp and Massey. Sums prove nothing: they show where to
look once a root has shown that something differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from streams.integrity.merkle_tree import Entry, row_digest_of

P = (1 << 31) - 1
"""Prime modulus, small enough that products of two residues fit in 64 bits."""
LOCATED_MAX = 8
"""Maximum number of altered records that can be located, of all records up to one statement."""
SUMS_BYTES = 2 * LOCATED_MAX * 4

Residues = npt.NDArray[np.int64]


def sums_of(rows: Sequence[Entry]) -> bytes:
    """Return the sums of the rows of a run from its first on, SUMS_BYTES long."""
    return _sums(rows).astype("<u4").tobytes()


def located(rows: Sequence[Entry], signed: bytes) -> list[int]:
    """Return the indexes in the run, ascending, of those `rows` that differ from the ones of which `signed` are the sums; none when more
    than LOCATED_MAX differ."""
    difference = (np.frombuffer(signed, "<u4").astype(np.int64) - _sums(rows)) % P
    locator = _locator(difference.tolist())
    at = np.arange(1, len(rows) + 1, dtype=np.int64)
    value = np.zeros(len(rows), np.int64)
    for coefficient in locator:
        value = (value * at + coefficient) % P
    places: list[int] = np.flatnonzero(value == 0).tolist()
    return places if 0 < len(places) == len(locator) - 1 <= LOCATED_MAX else []


def _sums(rows: Sequence[Entry]) -> Residues:
    digests = b"".join(row_digest_of(entry)[:4] for _, entry in rows)
    residues = np.frombuffer(digests, "<u4").astype(np.int64) % P
    sums: Residues = (_powers(-(-len(rows) // 1024) * 1024)[:, : len(rows)] * residues % P).sum(axis=1) % P
    return sums


@lru_cache(maxsize=8)
def _powers(count: int) -> Residues:
    powers = np.ones((2 * LOCATED_MAX, count), np.int64)
    at = np.arange(1, count + 1, dtype=np.int64)
    for k in range(1, 2 * LOCATED_MAX):
        powers[k] = powers[k - 1] * at % P
    return powers


def _locator(sums: Sequence[int]) -> list[int]:
    """Return the polynomial whose roots are the x of the differing rows, its highest power first (Massey 1969, over GF(P))."""
    current, previous = [1], [1]
    length, shift, scale = 0, 1, 1
    for at, one in enumerate(sums):
        discrepancy = (one + sum(current[k] * sums[at - k] for k in range(1, min(length, len(current) - 1) + 1))) % P
        if discrepancy == 0:
            shift += 1
            continue
        factor = discrepancy * pow(scale, -1, P) % P
        before, padded = current, [*current, *[0] * max(0, len(previous) + shift - len(current))]
        for k, coefficient in enumerate(previous):
            padded[k + shift] = (padded[k + shift] - factor * coefficient) % P
        current = padded
        if 2 * length > at:
            shift += 1
        else:
            length, previous, scale, shift = at + 1 - length, before, discrepancy, 1
    return [*current, *[0] * (length + 1 - len(current))]
