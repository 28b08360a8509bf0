"""What a stream brings, as a plan reckons with it: how fast it grows, in which lane it goes, what its records take."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from edge.planning.record_bytes import BlockBytes, MessageCarrier
from edge.planning.record_samples import Sample
from streams.config.roles import Lane
from streams.replication.sender import LINGER_APART_S, LINGER_RECORDS, LINGER_S


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream that the ship writes: `records_per_s`, `together` in each commit. `block_bytes`: what a block of so many takes.

    `joined`: of what waits, so many records at most go as one block. `sample` makes so many of them, stamped. `offset`: one in the midst of
    the voyage.
    """

    stream: str
    lane: Lane
    records_per_s: float
    block_bytes: BlockBytes
    joined: int
    together: int = 1
    sample: Sample | None = None
    offset: int = 0

    def gathered(self) -> float:
        """Return how many records go in one transfer while nothing waits. They go as they are committed; readings and less urgent records
        as they gather (`streams/replication/sender.py`)."""
        if self.lane < Lane.READINGS or not self.records_per_s:
            return self.together
        commits_per_s = self.records_per_s / self.together
        commits = commits_per_s * gathering_s(commits_per_s, LINGER_S, LINGER_APART_S)
        return max(self.together, min(LINGER_RECORDS, commits * self.together))

    def live_bytes(self, carrier: MessageCarrier) -> float:
        """Return how many bytes a record takes on the link while nothing waits."""
        return self._bytes(carrier, max(1, round(self.gathered())))

    def backlog_bytes(self, carrier: MessageCarrier, waiting: float) -> float:
        """Return how many bytes a record takes on the link when so many wait."""
        return self._bytes(carrier, max(1, min(self.joined, round(waiting))))

    def stored_bytes(self) -> float:
        """Return how many bytes a record takes on the ship's disk, its small blocks merged."""
        return self.block_bytes(self.joined) / self.joined

    def _bytes(self, carrier: MessageCarrier, records: int) -> float:
        return carrier.transfer(round(self.block_bytes(records)), self.offset) / records


def gathering_s(per_s: float, for_s: float, apart_s: float) -> float:
    """Return the mean interval between transfers of gathered records, seconds. Records come `per_s` times a second at random. Each waits
    `for_s` for more of its kind, and until `apart_s` after the last transfer.

    The expectation of max(X + for_s, apart_s), X being exponential with mean 1/per_s."""
    return apart_s + exp(-per_s * (apart_s - for_s)) / per_s
