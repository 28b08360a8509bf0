"""What the tests of damage share: logs that were written, their copies at a port, ways to spoil them, and what damage may cost."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.block import Block
from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.checking import Finding, Tally, check
from streams.logs.disk import Disk
from streams.logs.files import Damage, FileLog, FileLogOptions, WriteLimits
from streams.logs.frames import FoundFrame, find_frames
from streams.logs.index import INDEX_NAME, IndexReader
from streams.logs.indexing import bring_down, remove_index
from streams.logs.levels import Level
from streams.logs.segments import file_path, merged_numbers, segment_numbers
from streams.ranges import RangeSet
from streams.records import OFFSET, TOPIC
from streams.words import Origin
from tests.streams.logkit import append_rows, content, copy_all, open_log, rows, unfinished, verified

COMMITS, ROWS = 12, 10
MERGED = FileLogOptions(WriteLimits(segment_bytes=1000), levels=(Level(20, 3, 60),))
Content = dict[tuple[str, Origin, int], dict[str, Any]]


def written_log(root: Path) -> tuple[Path, FileLog]:
    """The folder of a ship's closed log of COMMITS commits, and a port's copy of it."""
    folder = root / "ship"
    log, copy = open_log(folder), open_log(root / "port", "port-b")
    for commit in range(COMMITS):
        append_rows(log, rows(ROWS, start=commit * ROWS))
    copy_all(log, copy, ["containers"])
    log.close()
    return folder, copy


def reopened(folder: Path, found: list[Damage] | None = None) -> FileLog:
    damages: list[Damage] = [] if found is None else found
    return open_log(folder, options=FileLogOptions(on_damage=damages.append))


def flip_bit(path: Path, at: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


KINDS = ("live", "closed", "torn", "merging", "swapped", "merged", "trimmed", "bringing down")
"""What a disk may be found as, beside a port's copy: a log whose process was killed while it was appended to, or was closed, or left half
a frame; in the midst of a merge, or before what it freed was deleted; merged, and trimmed, long before; with no digest of its index.
"""


@dataclass
class Spoilable:
    """A ship's log as it was left in `folder`, what it holds (`truth`), all that it was ever given, and a port's copy."""

    kind: str
    folder: Path
    copy: FileLog
    origin: Origin
    truth: Content
    ever: Content

    def __post_init__(self) -> None:
        """What every byte of its files is for, by its index."""
        twin = self.folder.with_name("twin")
        shutil.copytree(self.folder, twin)
        with closing(IndexReader.open(twin / "log" / INDEX_NAME)) as index:
            numbers = (*segment_numbers(twin / "log"), *merged_numbers(twin / "log"))
            self.pieces = [piece for number in numbers for _, piece in index.pieces_in(number)]
            self.ends = index.file_ends()
            self.commit, last, end = index.mark()
        self.ends |= {number: file_path(twin / "log", number).stat().st_size for number in numbers if 0 < number < last} | {last: end}
        self.frames = {number: _frames(file_path(twin / "log", number)) for number in numbers}
        assert not list(check(twin / "log", BlockCodec(), Tally()))
        shutil.rmtree(twin)

    def files(self) -> list[Path]:
        """Every file in which a bit can be flipped, relative to the folder."""
        return [path.relative_to(self.folder) for path in sorted(self.folder.rglob("*")) if path.is_file() and path.stat().st_size]

    def spoiled(self, to: Path, flip: Flip) -> Path:
        """A copy in which that bit is another; nobody has written it for long."""
        shutil.copytree(self.folder, to)
        flip_bit(to / flip.path, flip.at, flip.bit)
        for wal in (to / "log").glob("*-wal"):
            os.utime(wal, (0, 0))
        return to

    def named(self, flip: Flip) -> bool:
        """Whether anything depends on that byte of a segment or merged file: what lies behind was not acknowledged, or not used yet."""
        return flip.at < self.ends.get(_number(flip.path), 0)

    def cost(self, flip: Flip) -> RangeSet:
        """What is held and lost with that byte: the block that it is in; without an index all of its frame that is in no other."""
        number = _number(flip.path)
        if not flip.index_lost:
            places = [(one.location, one) for one in self.pieces if one.location.segment == number]
            return RangeSet((one.first, one.end) for place, one in places if place.at <= flip.at < place.at + place.length)
        lost, elsewhere = RangeSet(), RangeSet()
        for of, frames in self.frames.items():
            for frame, spans in frames:
                (lost if of == number and frame.at <= flip.at < frame.end else elsewhere).update(spans)
        return lost.without(elsewhere).common(RangeSet((offset, offset + 1) for *_, offset in self.truth))

    def is_last_frame(self, flip: Flip) -> bool:
        """Whether no whole frame begins after that byte of its file."""
        return all(frame.at <= flip.at for frame, _ in self.frames[_number(flip.path)])


def _number(path: Path) -> int:
    """Of a segment or merged file; of all others 0."""
    return {".segment": 1, ".merged": -1}.get(path.suffix, 0) * int(path.stem if path.stem.isdecimal() else 0)


def _frames(path: Path) -> list[tuple[FoundFrame, list[tuple[int, int]]]]:
    """The whole frames of a file, and what offsets lie in each."""
    data = memoryview(path.read_bytes())
    found = [frame for frame in find_frames(data, 0) if isinstance(frame, FoundFrame)]
    blocks = [[Block.from_bytes(data[at:end]) for at, end in frame.header.spans(frame.blocks_at)] for frame in found]
    return [(frame, [(block.first, block.end) for block in of_frame]) for frame, of_frame in zip(found, blocks, strict=True)]


def spoilable(root: Path, kind: str) -> Spoilable:
    """A log of that kind. Its last commit is a producer's; its first three records are gone."""
    folder, left = root / "ship", root / "left"
    log, copy = open_log(folder, options=MERGED), open_log(root / "port", "port-b")
    ever: Content = {}
    for commit in range(COMMITS):
        append_rows(log, rows(ROWS, start=commit * ROWS))
        if commit == COMMITS - 3:
            ever = content(log, ["containers"])
            log.declare_gone("containers", log.origin, 0, 3, "thinned")
            if kind in ("merged", "trimmed", "bringing down"):
                _tidied(log)
            if kind == "trimmed":
                log.trim("containers", log.origin, 35)
    if kind == "merged":
        log.close()
        log = open_log(folder, options=MERGED)
    log.append([Append("containers", rows(ROWS, start=COMMITS * ROWS), "gateway", 1)])
    copy_all(log, copy, ["containers"])
    truth = content(log, ["containers"])
    if kind == "bringing down":
        bring_down(folder / "log" / INDEX_NAME, Disk())
        (folder / "log" / f"{INDEX_NAME}.sum").unlink()
    if kind in ("merging", "swapped"):
        _copied_at("streams.logs.merging" if kind == "merging" else "streams.logs.upkeep", log, folder, left)
    if kind == "closed":
        log.close()
    if not left.exists():
        shutil.copytree(folder, left)
    if kind == "torn":
        with file_path(left / "log", max(segment_numbers(left / "log"))).open("ab") as segment:
            segment.write(unfinished(left / "log")[:-1])
    if kind != "closed":
        log.close()
    origin = next(iter(copy.ledger("containers")))
    return Spoilable(kind, left, copy, origin, truth, ever | truth)


def _tidied(log: FileLog) -> None:
    while log.upkeep.step():
        pass


def _copied_at(module: str, log: FileLog, folder: Path, to: Path) -> None:
    """The folder as it is when upkeep, in this module, reaches a commit point first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module}.commit_point", lambda _: to.exists() or shutil.copytree(folder, to))
        _tidied(log)


@dataclass(frozen=True)
class Flip:
    """Where a bit was flipped, and whether the index was lost besides."""

    path: Path
    at: int
    bit: int
    index_lost: bool


@dataclass(frozen=True)
class Told:
    """What who checks is told, what who opens and reads, the marker that was found, and whether a generation was opened."""

    findings: list[Finding]
    found: list[Damage]
    marker: bytes
    new: bool


def check_spoiled(was: Spoilable, spoiled: Path, flip: Flip) -> None:
    """It is told, what it hit is lost and nothing else, and comes back; no offset is given twice."""
    findings, found = list(check(spoiled / "log", BlockCodec(), Tally())), list[Damage]()
    marker, cost, ever = (spoiled / "marker").read_bytes(), was.cost(flip), was.ever if flip.index_lost else was.truth
    if flip.index_lost:
        remove_index(spoiled / "log" / INDEX_NAME)
    log = open_log(spoiled, options=FileLogOptions(MERGED.limits, found.append, levels=MERGED.levels))
    held = content(log, ["containers"])
    verified(log)
    assert RangeSet((key[2], key[2] + 1) for key in was.truth.keys() - held.keys()) == cost, "what was hit is lost, and nothing else"
    assert held.items() <= ever.items()
    check_told(was, flip, Told(findings, found, marker, log.origin != was.origin))
    check_topic(log, f"box-{flip.at % 7}", held)
    copy_all(was.copy, log, ["containers"])
    assert was.truth.items() <= content(log, ["containers"]).items() <= ever.items()
    [answer] = log.append([Append("containers", rows(1), "gateway", 1)])
    assert (answer.first, answer.repeated) == (COMMITS * ROWS, True) or (flip.index_lost and not answer.repeated)
    [answer] = log.append([Append("containers", rows(1))])
    assert ("containers", answer.origin, answer.first) not in was.ever
    log.close()


def check_told(was: Spoilable, flip: Flip, told: Told) -> None:
    """As docs/log.md says of each kind of file."""
    cost, offsets = was.cost(flip), RangeSet((first, end) for damage in told.found for _, _, first, end in damage.offsets)
    in_doubt = was.kind == "torn"  # where the index is built anew, nobody knows any more what was torn
    match flip.path.suffix:
        case ".segment" | ".merged" if not was.named(flip):
            assert not offsets
        case ".merged" if flip.index_lost and was.is_last_frame(flip) and not cost:
            assert not offsets, "what another file has too may be a torn end"
        case ".segment" | ".merged" if flip.index_lost:
            assert told.found or told.new
        case ".segment" | ".merged":
            assert told.findings
            assert offsets == cost
            assert not told.new
        case ".sqlite" if was.kind == "bringing down":
            assert not told.new, "without a digest what holds nothing is not told"
        case ".sqlite" | ".sqlite-wal" | ".sum":
            assert told.findings
            assert told.found
            assert in_doubt or not told.new
        case ".sqlite-shm":
            assert not told.new
        case _:
            assert flip.path.name == "marker"
            assert told.new or is_true(told.marker, was)


def is_true(marker: bytes, was: Spoilable) -> bool:
    """Whether a marker names the log's generation, and a commit that it has reached: a bit of that number may be another."""
    try:
        said = msgspec.json.decode(marker)
        return bool(Origin(said["node"], said["generation"]) == was.origin and said["commit"] <= was.commit)
    except (msgspec.MsgspecError, ValueError, KeyError):
        return False


def check_topic(log: FileLog, topic: str, held: Content) -> None:
    """Its history, and its latest, are what is held of it."""
    offsets = sorted(key[2] for key, row in held.items() if row[TOPIC] == topic)
    assert sorted(log.history(topic).rows.column(OFFSET).to_pylist()) == offsets
    assert [one.records.column(OFFSET).to_pylist() for one in log.latest("containers", topic)] == [offsets[-1:]]
