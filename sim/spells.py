"""What lasts a while and is then over, many times over for each box: without power, with its doors open, with a weak compressor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.arrays import NEVER_MS, Floats, Ints


@dataclass(frozen=True, slots=True)
class Spells:
    """From when until when: `from_at_ms` until `until_at_ms`, (boxes x spells) in UTC ms; NEVER_MS where there is none. Those of one box do
    not overlap."""

    from_at_ms: Ints
    until_at_ms: Ints

    @classmethod
    def from_columns(cls, *columns: tuple[Ints, Ints]) -> Spells:
        """Return one spell of each box after the other, each given as (from, until)."""
        return cls(np.stack([since for since, _ in columns], axis=1), np.stack([until for _, until in columns], axis=1))

    def of(self, boxes: Ints) -> Spells:
        """Return those of some boxes, which then have the numbers 0, 1, 2 …"""
        return Spells(self.from_at_ms[boxes], self.until_at_ms[boxes])

    def each(self) -> Iterator[tuple[int, int, int]]:
        """Yield every one, box by box: (box, from, until)."""
        for box, spell in np.argwhere(self.from_at_ms < NEVER_MS).tolist():
            yield box, int(self.from_at_ms[box, spell]), int(self.until_at_ms[box, spell])

    def lasting_ms(self, boxes: Ints, at_ms: Ints) -> Ints:
        """Return how long one has lasted, of each box at each instant; 0 outside of them."""
        since, until = self.from_at_ms[boxes], self.until_at_ms[boxes]
        lasting: Ints = np.where((since <= at_ms[:, None]) & (at_ms[:, None] < until), at_ms[:, None] - since, 0).max(axis=1, initial=0)
        return lasting

    def share(self, edges_ms: Ints) -> Floats:
        """Return how much of the time from each edge to the next lies within one, 0 to 1: (edges - 1) x boxes. The edges are evenly
        spaced."""
        share: Floats = np.zeros((len(edges_ms) - 1, len(self.from_at_ms)))
        for since, until in zip(self.from_at_ms.T, self.until_at_ms.T, strict=True):
            meets = np.flatnonzero((since < edges_ms[-1]) & (until > edges_ms[0]))
            begun = np.maximum(since[meets], edges_ms[:-1, None])
            share[:, meets] += np.maximum(np.minimum(until[meets], edges_ms[1:, None]) - begun, 0)
        share /= edges_ms[1] - edges_ms[0]
        return share
