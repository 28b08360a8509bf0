"""What a file for one receiver is to carry, and what of a file is to be believed: the rules of a session, without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from landfall.system.text_files import json_of
from streams.config.companion_streams import HEADS
from streams.log import LogReader
from streams.model.errors import Misuse
from streams.model.identifiers import Origin, check_stream
from streams.model.ledger import GONE_REASONS, GoneReason, Ledger
from streams.model.ranges import Range, RangeSet, read_ranges
from streams.replication.link_terms import Key, Terms

Settled = Mapping[Key, RangeSet]


class PositionFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Report of a node on what it needs no more: per stream and origin, ranges of offsets."""

    landfall: str
    node: str
    settled: dict[str, dict[str, list[Range]]]


_TITLE = "position 1"


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """Plan for one (stream, origin): the offsets to carry, and those that will never come, by reason."""

    key: Key
    held: RangeSet
    gone: Mapping[GoneReason, RangeSet]


def position_file(log: LogReader, node: str) -> bytes:
    """Return as JSON what `node`, whose log this is, needs no more."""
    settled = {stream: {str(origin): list(one.settled()) for origin, one in log.ledger(stream).items()} for stream in log.streams()}
    return msgspec.json.format(msgspec.json.encode(PositionFile(_TITLE, node, settled)), indent=1)


def read_position_file(data: bytes, receiver: str) -> Settled:
    """Return what `receiver` needs no more, by its own report. Raises Misuse when the file is none, or another node's."""
    hint = "`landfall sync position` writes it, at the receiver"
    try:
        position_file = json_of(data, PositionFile)
        if position_file.landfall != _TITLE:
            raise ValueError(f"it is a {position_file.landfall!r}")
        settled = {
            (check_stream(stream), Origin.parse(origin)): read_ranges(ranges)
            for stream, origins in position_file.settled.items()
            for origin, ranges in origins.items()
        }
    except (msgspec.MsgspecError, ValueError) as problem:
        raise Misuse(f"this is no Position file: {problem}", hint=hint, code="position_unreadable") from problem
    if position_file.node != receiver:
        raise Misuse(f"this Position file is of '{position_file.node}', not of '{receiver}'", hint=hint, code="position_of_another")
    return settled


def wanted(log: LogReader, terms: Terms, settled: Settled) -> Iterator[BundlePlan]:
    """Yield what `terms.other` may have of this log and lacks, the most urgent streams first, with the heads signed for a stream before
    it."""
    for stream in sorted(log.streams(), key=lambda stream: (terms.lane(stream), not stream.endswith(HEADS), stream)):
        ledger: Ledger = log.ledger(stream)
        for origin, one in sorted(ledger.items()):
            if not terms.outgoing((stream, origin)):
                continue
            has = settled.get((stream, origin), RangeSet())
            gone = {reason: news for reason in GONE_REASONS if (news := one.gone.get(reason, RangeSet()).without(has))}
            if (held := one.held.without(has)) or gone:
                yield BundlePlan((stream, origin), held, gone)


def believed(terms: Terms, key: Key, refused: Callable[[str], None]) -> bool:
    """Return whether what `terms.other` signed of `key` may be taken here. If not, `refused` receives the reason."""
    if terms.incoming(key):
        return True
    refused(terms.why_not(key))
    return False
