"""Chance without state: a number depends on the seed, a channel's name and two keys, never on what was drawn before it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sim.arrays import Floats, Ints

_Bits = npt.NDArray[np.uint64]
_STEPS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


@dataclass(frozen=True, slots=True)
class Chance:
    """The random numbers of one seed: equal arguments give equal numbers, in whatever order and however many are asked for at a time."""

    seed: int

    def uniform(self, channel: str, first: Ints, second: Ints | int = 0) -> Floats:
        """Return numbers in [0, 1), one for each pair of keys; arrays broadcast. Good for simulation, not for secrets."""
        bits = self._bits(channel, first, second)
        bits >>= np.uint64(11)
        drawn = bits.astype(np.float64)
        drawn *= 2.0**-53
        return drawn

    def normal(self, channel: str, first: Ints, second: Ints | int = 0) -> Floats:
        """Return numbers of the standard normal distribution (Box-Muller), one for each pair of keys."""
        radius, angle = self.uniform(channel, first, second), self.uniform(channel + "'", first, second)
        np.log1p(np.negative(radius, out=radius), out=radius)
        radius *= -2.0
        angle *= 2.0 * np.pi
        np.cos(angle, out=angle)
        angle *= np.sqrt(radius, out=radius)
        return angle

    def between(self, channel: str, low: float, high: float, first: Ints, second: Ints | int = 0) -> Floats:
        """Return numbers spread evenly over [low, high), one for each pair of keys."""
        return low + (high - low) * self.uniform(channel, first, second)

    def shuffled(self, channel: str, count: int) -> Ints:
        """Return 0 to `count` - 1 in a random order."""
        return np.argsort(self._bits(channel, np.arange(count), 0), kind="stable")

    def _bits(self, channel: str, first: Ints, second: Ints | int) -> _Bits:
        start = _start(self.seed, channel)
        one = _mixed(np.atleast_1d(np.asarray(first, dtype=np.int64)).view(np.uint64) ^ start)
        if isinstance(second, int):
            one ^= _mixed_alone(self.seed, channel, second)
            return _mixed(one)
        return _mixed(one ^ _mixed(np.atleast_1d(np.asarray(second, dtype=np.int64)).view(np.uint64) + start))


@lru_cache(maxsize=4_096)
def _start(seed: int, channel: str) -> np.uint64:
    return np.uint64((seed * 0x9E3779B97F4A7C15 + zlib.crc32(channel.encode())) % 2**64)


@lru_cache(maxsize=4_096)
def _mixed_alone(seed: int, channel: str, second: int) -> np.uint64:
    """Return the mixed bits of a key that is the same for all."""
    return np.uint64(_mixed(np.array([second], dtype=np.int64).view(np.uint64) + _start(seed, channel))[0])


def _mixed(bits: _Bits) -> _Bits:
    """Apply the finishing step of SplitMix64 (Steele, Lea, Flood 2014), in place, and return the bits."""
    bits += np.uint64(0x9E3779B97F4A7C15)
    moved = np.empty_like(bits)
    for shift, factor in _STEPS:
        bits ^= np.right_shift(bits, shift, out=moved)
        bits *= factor
    bits ^= np.right_shift(bits, np.uint64(31), out=moved)
    return bits
