"""A set of identities that takes 32 to 64 bytes for each it may hold, where Python's own takes some 130: a ship's node knows half a million
of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cargo.vocabulary.reading_identity import IDENTITY_BYTES
from streams.model.errors import InvalidValue

Words = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.intp]
_WORDS = IDENTITY_BYTES // 8


def words_of(identities: Sequence[bytes]) -> Words:
    """Identities as numbers, two of each: (identities, 2)."""
    return np.frombuffer(b"".join(identities), np.uint64).reshape(-1, _WORDS)


class KnownIdentities:
    """Up to `most` identities in a table of places, of which half at least are free: two that meet at one place find the next soon.

    For what `cargo.vocabulary.reading_identity.identities` gives: spread evenly over all bits. One of zeros alone, 1 in 2^128, is never
    known.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._places = np.zeros((1 << (2 * most - 1).bit_length(), _WORDS), np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has(self, words: Words) -> npt.NDArray[np.bool_]:
        """Of each of these whether it is known."""
        known = np.zeros(len(words), np.bool_)
        for rows, places in self._walk(words):
            known[rows] = (self._places[places] == words[rows]).all(axis=1)
        return known

    def add(self, words: Words) -> None:
        """These are known from now on. Raises ValueError for more than there is room for, known ones counted too."""
        if self._count + len(words) > self.most:
            raise InvalidValue(f"{len(words)} identities beside {self._count} are more than {self.most}", code="identities_too_many")
        for rows, places in self._walk(words):
            free = ~self._places[places].any(axis=1)
            self._places[places[free]] = words[rows[free]]
            self._count += len(np.unique(places[free]))

    def _walk(self, words: Words) -> Iterator[tuple[_Places, _Places]]:
        """The rows that have found neither themselves nor a free place, and where each looks next."""
        rows, last = np.arange(len(words)), len(self._places) - 1
        places = (words[:, 0] & np.uint64(last)).astype(np.intp)
        while len(rows):
            yield rows, places
            standing = self._places[places]
            taken = standing.any(axis=1) & (standing != words[rows]).any(axis=1)
            rows, places = rows[taken], (places[taken] + 1) & last
