"""What the tests of damage share: logs that were written, their copies at a port, ways to spoil them, and what damage may cost."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from landfall.storage.disk import Disk
from landfall.storage.file_log import Damage, FileLog, FileLogOptions, WriteLimits
from landfall.storage.frames import FoundFrame, find_frames
from landfall.storage.index import INDEX_NAME, IndexReader
from landfall.storage.index_writer import bring_down, remove_index
from landfall.storage.log_check import CheckTally, LogFinding, check
from landfall.storage.log_state import FileLocation
from landfall.storage.merge_levels import Level
from landfall.storage.segments import file_path, merged_numbers, segment_numbers
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.block import Block
from streams.model.identifiers import Origin
from streams.model.records import OFFSET, TOPIC
from tests.streams.logkit import append_rows, content, copy_all, open_log, rows, unfinished, verified

COMMITS, ROWS = 12, 10
STREAMS = {"containers": ROWS, "events": 4, "ships": 3}
"""What each commit has of each stream."""
MERGED = FileLogOptions(WriteLimits(segment_bytes=1000), levels=(Level(20, 3, 60),))
Coordinates = tuple[str, Origin, int]
Content = dict[Coordinates, dict[str, Any]]


def written_log(root: Path) -> tuple[Path, FileLog]:
    """The folder of a ship's closed log of COMMITS commits, and a port's copy of it."""
    folder = root / "ship"
    log, copy = open_log(folder), open_log(root / "port", "port-b")
    for commit in range(COMMITS):
        append_rows(log, rows(ROWS, start=commit * ROWS))
    copy_all(log, copy, ["containers"])
    log.close()
    return folder, copy


def commit_of(number: int) -> list[Append]:
    """The appends of the `number`-th commit: to several streams."""
    return [Append(stream, rows(count, start=number * count)) for stream, count in STREAMS.items()]


def segment(folder: Path) -> Path:
    return folder / "log" / "segments" / "0000000001.segment"


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
            self.pieces = [found for number in numbers for found in index.pieces_in(number)]
            self.ends = index.file_ends()
            self.commit, last, end = index.mark()
        self.ends |= {number: file_path(twin / "log", number).stat().st_size for number in numbers if 0 < number < last} | {last: end}
        self.frames = {number: _frames(twin / "log", number) for number in numbers}
        assert not list(check(twin / "log", BlockCodec(), CheckTally()))
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

    def cost(self, flip: Flip) -> set[Coordinates]:
        """What is held and lost with that byte: the block that it is in, unless another frame has it too and there is no index to say
        which counts. A bit of anything else is put right, or there twice.
        """
        number = _number(flip.path)
        if not flip.index_lost:
            hit = [(key, one) for key, one in self.pieces if one.location.segment == number and _within(flip.at, one.location)]
            return {(*key, offset) for key, one in hit for offset in range(one.first, one.end)}
        lost, elsewhere = set[Coordinates](), set[Coordinates]()
        for of, frames in self.frames.items():
            for place, block in (one for _, blocks in frames for one in blocks):
                held = {(block.stream, block.origin, offset) for offset in range(block.first, block.end)}
                (lost if of == number and _within(flip.at, place) else elsewhere).update(held)
        return (lost - elsewhere) & self.truth.keys()

    def is_last_frame(self, flip: Flip) -> bool:
        """Whether no whole frame begins after that byte of its file."""
        return all(frame.at <= flip.at for frame, _ in self.frames[_number(flip.path)])


def _within(at: int, place: FileLocation) -> bool:
    return place.at <= at < place.at + place.length


def _number(path: Path) -> int:
    """Of a segment or merged file; of all others 0."""
    return {".segment": 1, ".merged": -1}.get(path.suffix, 0) * int(path.stem if path.stem.isdecimal() else 0)


def _frames(log: Path, number: int) -> list[tuple[FoundFrame, list[tuple[FileLocation, Block]]]]:
    """The frames of a file, and the blocks in each."""
    data = memoryview(file_path(log, number).read_bytes())
    found = [frame for frame in find_frames(data, 0) if isinstance(frame, FoundFrame)]
    places = [
        [(FileLocation(number, at, end - at), Block.from_bytes(data[at:end])) for _, at, end, _ in frame.blocks(data)] for frame in found
    ]
    return list(zip(found, places, strict=True))


def in_one_block(path: Path, at: int) -> bool:
    """Whether that byte of a segment or merged file is in a block, and not in what stands around it."""
    data = memoryview(path.read_bytes())
    frames = [frame for frame in find_frames(data, 0) if isinstance(frame, FoundFrame)]
    return any(frame.blocks_at <= at < frame.end for frame in frames)


def spoilable(root: Path, kind: str, options: FileLogOptions = MERGED) -> Spoilable:
    """A log of that kind, of several streams a commit. Its last commit is a producer's; the first three containers' records are gone."""
    folder, left = root / "ship", root / "left"
    log, copy = open_log(folder, options=options), open_log(root / "port", "port-b")
    ever: Content = {}
    for commit in range(COMMITS):
        log.append(commit_of(commit))
        if commit == COMMITS - 3:
            ever = content(log, STREAMS)
            log.declare_gone("containers", log.origin, 0, 3, "thinned")
            if kind in ("merged", "trimmed", "bringing down"):
                _tidied(log)
            if kind == "trimmed":
                log.trim("containers", log.origin, 35)
    if kind == "merged":
        log.close()
        log = open_log(folder, options=MERGED)
    [first, *more] = commit_of(COMMITS)
    log.append([replace(first, producer="gateway", sequence=1), *more])
    copy_all(log, copy, STREAMS)
    truth = content(log, STREAMS)
    if kind == "bringing down":
        bring_down(folder / "log" / INDEX_NAME, Disk())
        (folder / "log" / f"{INDEX_NAME}.sum").unlink()
    if kind in ("merging", "swapped"):
        _copied_at("landfall.storage.merged_files" if kind == "merging" else "landfall.storage.log_upkeep", log, folder, left)
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

    findings: list[LogFinding]
    found: list[Damage]
    marker: bytes
    new: bool


def check_spoiled(was: Spoilable, spoiled: Path, flip: Flip) -> None:
    """It is told, what it hit is lost and nothing else, and comes back; no offset is given twice."""
    findings, found = list(check(spoiled / "log", BlockCodec(), CheckTally())), list[Damage]()
    marker, cost, ever = (spoiled / "marker").read_bytes(), was.cost(flip), was.ever if flip.index_lost else was.truth
    if flip.index_lost:
        remove_index(spoiled / "log" / INDEX_NAME)
    log = open_log(spoiled, options=FileLogOptions(MERGED.limits, found.append, levels=MERGED.levels))
    held = content(log, STREAMS)
    verified(log)
    assert was.truth.keys() - held.keys() == cost, "what was hit is lost, and nothing else"
    assert held.items() <= ever.items()
    check_told(was, flip, Told(findings, found, marker, log.origin != was.origin))
    check_topic(log, f"box-{flip.at % 7}", held)
    copy_all(was.copy, log, STREAMS)
    assert was.truth.items() <= content(log, STREAMS).items() <= ever.items()
    [answer] = log.append([Append("containers", rows(1), "gateway", 1)])
    assert (answer.first, answer.repeated) == (COMMITS * ROWS, True)
    [answer] = log.append([Append("containers", rows(1))])
    assert ("containers", answer.origin, answer.first) not in was.ever
    log.close()


def check_told(was: Spoilable, flip: Flip, told: Told) -> None:
    """As docs/internals/log.md says of each kind of file."""
    cost, offsets = was.cost(flip), [(s, o, at) for damage in told.found for s, o, first, end in damage.offsets for at in range(first, end)]
    assert len(offsets) == len(set(offsets)), "each is told once"
    in_doubt = was.kind == "torn"  # where the index is built anew, nobody knows any more what was torn
    match flip.path.suffix:
        case ".segment" | ".merged" if not was.named(flip):
            assert not offsets
        case ".merged" if flip.index_lost and was.is_last_frame(flip) and not cost:
            assert not offsets, "what another file has too may be a torn end"
        case ".segment" | ".merged" if flip.index_lost:
            assert told.found
            assert cost.issuperset(offsets)
            assert in_doubt or not (told.new and offsets), "where the offsets that are lost are known, none is in doubt"
        case ".segment" | ".merged":
            assert told.findings
            assert cost == set(offsets)
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
    """Whether a slot of the marker that was not hit names the log's generation, and a commit that it has reached."""
    whole = msgspec.json.encode({"node": was.origin.node, "generation": was.origin.generation})[:-1]
    return any(int(commit) <= was.commit for commit in re.findall(re.escape(whole) + rb',"commit":([0-9]+)}', marker))


def check_topic(log: FileLog, topic: str, held: Content) -> None:
    """Its history, and its latest, are what is held of it."""
    offsets = sorted(key[2] for key, row in held.items() if key[0] == "containers" and row[TOPIC] == topic)
    assert sorted(log.history(topic, streams=["containers"]).rows.column(OFFSET).to_pylist()) == offsets
    assert [one.records.column(OFFSET).to_pylist() for one in log.latest("containers", topic)] == [offsets[-1:]]
