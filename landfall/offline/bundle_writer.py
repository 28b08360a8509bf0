"""Writing a file for one receiver: first what it is to carry, then what will never come, then block after block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from landfall.offline.bundle_frames import FrameWriter
from landfall.offline.bundle_messages import ENTRIES_MAX, RANGES_MAX, BundleEntry, BundleGone, Carried, Contents, End
from landfall.offline.bundle_plan import BundlePlan
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication.effects import Loaded
from streams.replication.link_terms import Key

PART_RANGES_MAX = 16_384
Load = Callable[[str, Origin, int, int], Loaded | None]
"""`load(stream, origin, first, end)`: one block that starts at the first held offset of the range; None when nothing of it can be read."""


@dataclass(slots=True)
class BundleContents:
    """Content of a written file, and the offsets that were to go into it and could not be read."""

    blocks: int = 0
    records: int = 0
    unread: dict[Key, RangeSet] = field(default_factory=dict)


def write(writer: FrameWriter, about: Contents, plan: Sequence[BundlePlan], load: Load) -> BundleContents:
    """Write all of `plan`, with one block in memory at a time, and return what was written. Raises OSError.

    `about`: who writes the file and for whom; its list is made here.
    """
    for contents in _contents(about, plan):
        writer.write(contents)
    for one in plan:
        for reason, ranges in one.gone.items():
            for entry in _entries(one.key, ranges):
                writer.write(BundleGone(entry, reason))
    written = BundleContents()
    for one in plan:
        for first, end in one.held:
            _write_range(writer, one.key, first, end, load, written)
    writer.write(End())
    return written


def _write_range(writer: FrameWriter, key: Key, first: int, end: int, load: Load, written: BundleContents) -> None:
    while first < end:
        loaded = load(*key, first, end)
        begins = end if loaded is None else loaded.first
        if begins > first:
            written.unread.setdefault(key, RangeSet()).add(first, begins)
        if loaded is None:
            return
        writer.write(Carried(loaded.data))
        written.blocks += 1
        written.records += loaded.end - loaded.first
        first = loaded.end


def _contents(about: Contents, plan: Sequence[BundlePlan]) -> Iterator[Contents]:
    part: list[BundleEntry] = []
    for entry in (entry for one in plan for entry in _entries(one.key, one.held)):
        if len(part) == ENTRIES_MAX or sum(len(other.ranges) for other in part) > PART_RANGES_MAX:
            yield Contents(about.node, about.receiver, about.at_ms, part, last=False)
            part = []
        part.append(entry)
    yield Contents(about.node, about.receiver, about.at_ms, part, last=True)


def _entries(key: Key, ranges: RangeSet) -> Iterator[BundleEntry]:
    (stream, origin), listed = key, list(ranges)
    for at in range(0, len(listed), RANGES_MAX):
        yield BundleEntry(stream, origin.node, origin.generation, listed[at : at + RANGES_MAX])
