"""A node's ledger as it is sent to a peer: a digest per stream and, where digests differ, each origin's ranges."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import zip_longest

import msgspec

from streams.model.errors import Corrupt
from streams.model.identifiers import Origin, check_stream
from streams.model.ledger import GONE_REASONS, GoneReason, OriginLedger
from streams.model.ranges import Range, RangeSet
from streams.replication.sync_messages import ORIGINS_MAX, RANGES_MAX, OriginSummary, Summary

Settled = Mapping[Origin, tuple[RangeSet, RangeSet]]
"""Settled offsets of each origin, and those of them that are gone."""


def digest_of(settled: Settled) -> bytes:
    """Return 8 bytes that are equal when two nodes have settled the same offsets of the same origins, and consider the same of them gone.

    Origins without settled offsets do not count.
    """
    entries = [(origin.node, origin.generation, list(ranges), *gone) for origin, (ranges, gone) in sorted(settled.items()) if ranges]
    return hashlib.blake2b(msgspec.msgpack.encode(entries), digest_size=8).digest()


def summaries(stream: str, ledger: Mapping[Origin, OriginLedger]) -> list[Summary]:
    """Return the ledger of one stream in as many messages as needed, each of at most ORIGINS_MAX origins; at least one."""
    origins = [summary for origin, origin_ledger in sorted(ledger.items()) for summary in _summary(origin, origin_ledger)]
    chunks = [origins[at : at + ORIGINS_MAX] for at in range(0, len(origins), ORIGINS_MAX)] or [[]]
    return [Summary(stream, chunk, last=chunk is chunks[-1]) for chunk in chunks]


def settled_by(summary: OriginSummary) -> RangeSet:
    """Return the offsets that a peer claims to have settled. Raises Corrupt for invalid ranges."""
    settled = checked_ranges(summary.beyond)
    settled.add(0, summary.next_offset)
    settled.add(0, summary.floor)
    return settled


def gone_by(summary: OriginSummary) -> Iterator[tuple[GoneReason, RangeSet]]:
    """Yield the offsets that will never come, as the peer claims, with their reasons. Raises Corrupt for an unknown reason."""
    for reason, ranges in summary.gone:
        yield checked_reason(reason), checked_ranges(ranges)


def checked_reason(reason: str) -> GoneReason:
    """Return `reason` when it is one of the three. Raises Corrupt otherwise."""
    for known in GONE_REASONS:
        if reason == known:
            return known
    raise Corrupt(f"offsets are gone for one of {GONE_REASONS}, not {reason!r}", code="message_corrupt")


def checked_stream(name: str) -> str:
    """Return `name` when it is a valid stream name. Raises Corrupt otherwise."""
    try:
        return check_stream(name)
    except ValueError as problem:
        raise Corrupt(str(problem), code="message_corrupt") from problem


def checked_ranges(ranges: list[Range]) -> RangeSet:
    """Return the ranges as a set. Raises Corrupt when one is reversed."""
    try:
        return RangeSet(ranges)
    except ValueError as problem:
        raise Corrupt(str(problem), code="message_corrupt") from problem


def chunked(ranges: RangeSet) -> Iterator[list[Range]]:
    """Yield the ranges in lists of at most RANGES_MAX."""
    listed = list(ranges)
    for at in range(0, len(listed), RANGES_MAX):
        yield listed[at : at + RANGES_MAX]


def _summary(origin: Origin, origin_ledger: OriginLedger) -> Iterator[OriginSummary]:
    """Yield one summary, and as many more as needed to report all that is held beyond a hole, and all that is gone."""
    settled = origin_ledger.settled()
    next_offset = settled.run_from(0)
    beyond = settled.without([(0, next_offset)])
    gone = [(str(reason), chunk) for reason, ranges in sorted(origin_ledger.gone.items()) for chunk in chunked(ranges)]
    lost_chunks = [[part] for part in gone] if len(gone) > len(GONE_REASONS) else [gone]
    for held, lost in zip_longest(chunked(beyond), lost_chunks, fillvalue=()):
        yield OriginSummary(origin.node, origin.generation, next_offset, origin_ledger.floor, list(held), list(lost))
