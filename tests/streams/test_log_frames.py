"""Goal: what stands in a file of the log was written by its own process: no bytes that a peer brings are ever taken for a frame."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.storage.file_header import HEAD_BYTES, Secret, read_head
from landfall.storage.file_log import Damage, FileLog, FileLogOptions
from landfall.storage.frame_prefix import PREFIX, REPAIRED_BYTES_MAX
from landfall.storage.frames import FoundFrame, FrameGone, FrameHeader, Hole, find_frames, frame_bytes
from landfall.storage.index import INDEX_NAME
from landfall.storage.index_writer import remove_index
from landfall.storage.log_check import CheckTally, check
from streams.codec import BlockCodec
from streams.model.block import Block
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin
from tests.streams.damagekit import flip_bit, reopened, segment
from tests.streams.logkit import NOW_MS, append_rows, content, copy_all, open_log, rows
from tests.support.refusals import refusal

STREAMS = ("containers", "alerts")
HEADER_BYTES_MAX = 100
"""More than any header of these tests takes."""
EVIL = Origin("evil", 3)


def opaque(payload: bytes) -> Block:
    """A block of a codec that nobody here knows: stored and relayed whole."""
    return Block("containers", EVIL, 0, 5, NOW_MS, NOW_MS, 99, payload)


def commands(root: Path, victim: FileLog) -> bytes:
    """Whole frames of a log of the liar's own, of later commits than the victim's: everything it holds is below the floor."""
    liar = open_log(root / "liar", "evil")
    copy_all(victim, liar, STREAMS)
    while liar._keeper.book.commit <= victim._keeper.book.commit:
        liar.open_generation("to count")
    begun = segment(root / "liar").stat().st_size
    for stream in STREAMS:
        liar.trim(stream, victim.origin, victim.own_end(stream, victim.origin))
    liar.close()
    return segment(root / "liar").read_bytes()[begun:]


def torn(folder: Path, before: int) -> None:
    """The process died while the liar's block was written."""
    with segment(folder).open("r+b") as file:
        file.truncate(before + (segment(folder).stat().st_size - before) * 2 // 3)


def flipped_body(folder: Path, before: int) -> None:
    flip_bit(segment(folder), before + 300)


def spoiled_header(folder: Path, before: int) -> None:
    """Two of its bits: one alone would be put right."""
    flip_bit(segment(folder), before + 22)
    flip_bit(segment(folder), before + 23)


@pytest.mark.parametrize("damage", [torn, flipped_body, spoiled_header])
@pytest.mark.parametrize("index_lost", [False, True])
def test_no_frame_is_taken_out_of_a_block(tmp_path: Path, damage: Callable[[Path, int], None], index_lost: bool) -> None:
    log = open_log(tmp_path / "ship")
    for stream in STREAMS:
        append_rows(log, rows(50), stream)
    truth, forged = content(log, STREAMS), commands(tmp_path, log)
    left, before = tmp_path / "left", segment(tmp_path / "ship").stat().st_size
    shutil.copytree(tmp_path / "ship", left)
    log.admit([opaque(os.urandom(500) + forged + os.urandom(5000))])
    if damage is not torn:
        append_rows(log, rows(1, start=50), "events")  # the damaged frame is not the last
    log.close()
    shutil.copyfile(segment(tmp_path / "ship"), segment(left))
    damage(left, before)
    if index_lost:
        remove_index(left / "log" / INDEX_NAME)
    log = reopened(left)
    assert content(log, STREAMS) == truth
    assert all(one.floor == 0 for stream in STREAMS for one in log.ledger(stream).values())
    log.close()


def test_a_block_full_of_beginnings_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a liar can know of a file is its format: nothing it fills a block with is looked at as a frame."""
    log, theirs = open_log(tmp_path), Secret.new()
    append_rows(log, rows(5))
    beginnings = b"".join((b"LFF1", bytes(12), theirs.head(), theirs.mark, bytes(12)))
    before = segment(tmp_path).stat().st_size
    log.admit([opaque(beginnings * 20_000)])
    append_rows(log, rows(5, start=5))
    log.close()
    spoiled_header(tmp_path, before)
    looked: list[int] = []

    def digest(self: Secret, data: bytes, plain: Callable[[Secret, bytes], bytes] = Secret.digest) -> bytes:
        looked.append(len(data))
        return plain(self, data)

    monkeypatch.setattr(Secret, "digest", digest)
    data = memoryview(segment(tmp_path).read_bytes())
    found = list(find_frames(data, 0))
    assert [type(one) for one in found].count(Hole) == 1
    bits = 8 * HEADER_BYTES_MAX
    assert len(looked) <= len(found) + bits, "each bit of the one header that does not verify is tried, and nothing of theirs"
    assert sum(looked) < 2 * len(data) + bits * HEADER_BYTES_MAX, "as a length it is tried too"


def test_every_file_has_a_secret_of_its_own_and_no_block_tells_it(tmp_path: Path) -> None:
    logs = [open_log(tmp_path / name, name) for name in ("ship-a", "ship-b")]
    secrets = set()
    for log, name in zip(logs, ("ship-a", "ship-b"), strict=True):
        append_rows(log, rows(5))
        secret, damaged = read_head(segment(tmp_path / name).read_bytes())
        assert secret is not None
        assert not damaged
        secrets.add(secret)
        sent = b"".join(block.to_bytes() for block in log.blocks("containers", log.origin, 0, 5))
        assert secret.value not in sent
        assert secret.mark not in sent
        log.close()
    assert len(secrets) == 2


def test_frames_are_found_as_far_as_a_file_goes(tmp_path: Path) -> None:
    """Cut off anywhere, what is whole is found, and the rest is told to be unfinished; zeros in its place are not."""
    log = open_log(tmp_path)
    for start in range(0, 9, 3):
        append_rows(log, rows(3, start=start))
    log.close()
    whole = segment(tmp_path).read_bytes()
    ends = [HEAD_BYTES] + [found.end for found in find_frames(memoryview(whole), 0)]
    for cut in range(1, len(whole)):
        found = list(find_frames(memoryview(whole[:cut]), 0))
        assert [one.end for one in found if isinstance(one, FoundFrame)] == [end for end in ends[1:] if end <= cut]
        holes = [one for one in found if isinstance(one, Hole)]
        assert all(hole.unfinished and hole.end == cut for hole in holes)
        assert len(holes) == (cut not in ends)
    [*_, last] = find_frames(memoryview(whole[: ends[-2] + 30] + bytes(500)), 0)
    assert isinstance(last, Hole)
    assert (last.at, last.end, last.unfinished) == (ends[-2], ends[-2] + 530, False)


@pytest.mark.parametrize("index_lost", [False, True])
@pytest.mark.parametrize("copy", [0, 1])
def test_one_copy_of_a_secret_is_enough(tmp_path: Path, copy: int, index_lost: bool) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(9))
    truth, origin = content(log, ["containers"]), log.origin
    log.close()
    flip_bit(segment(tmp_path), copy * HEAD_BYTES // 2 + 10)
    assert [(finding.where, finding.code) for finding in check(tmp_path / "log", BlockCodec(), CheckTally())] == [
        (f"0000000001.segment bytes {copy * HEAD_BYTES // 2} to {(copy + 1) * HEAD_BYTES // 2 - 1}", "segment_head_damaged")
    ]
    if index_lost:
        remove_index(tmp_path / "log" / INDEX_NAME)
    log = reopened(tmp_path)
    assert log.origin == origin
    assert content(log, ["containers"]) == truth
    assert append_rows(log, rows(1)) == 9
    log.close()
    assert segment(tmp_path).stat().st_size > HEAD_BYTES
    log = reopened(tmp_path)
    assert log.position("containers")[origin] == 10
    log.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_without_its_secret_a_file_is_served_while_there_is_an_index(tmp_path: Path, index_lost: bool) -> None:
    """Nothing is added to it: what comes next goes into a file that can be read again. Without an index it comes back from a peer."""
    log, copy = open_log(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    append_rows(log, rows(9))
    copy_all(log, copy, ["containers"])
    truth, origin = content(log, ["containers"]), log.origin
    log.close()
    for at in (10, HEAD_BYTES // 2 + 10):
        flip_bit(segment(tmp_path / "ship"), at)
    if index_lost:
        remove_index(tmp_path / "ship" / "log" / INDEX_NAME)
    found: list[Damage] = []
    log = reopened(tmp_path / "ship", found)
    assert (log.origin == origin) != index_lost
    assert content(log, ["containers"]) == ({} if index_lost else truth)
    append_rows(log, rows(2, start=9))
    later = content(log, ["containers"])
    log.close()
    remove_index(tmp_path / "ship" / "log" / INDEX_NAME)
    log = reopened(tmp_path / "ship", found)
    assert later.keys() - truth.keys() <= content(log, ["containers"]).keys()
    assert any((damage.at, damage.code) == (0, "frame_damaged") for damage in found)
    copy_all(copy, log, ["containers"])
    assert truth.items() <= content(log, ["containers"]).items()
    log.close()
    copy.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_files_of_another_version_are_refused_in_words(tmp_path: Path, index_lost: bool) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(9))
    log.close()
    old = b"LFF1" + segment(tmp_path).read_bytes()[HEAD_BYTES:]
    segment(tmp_path).write_bytes(old)
    if index_lost:
        remove_index(tmp_path / "log" / INDEX_NAME)
    with refusal(Misuse, "log_version", "LFF1", "LFF2"):
        open_log(tmp_path, options=FileLogOptions())
    assert segment(tmp_path).read_bytes() == old


def three_frames(folder: Path) -> tuple[bytes, list[FoundFrame | Hole]]:
    """A segment's bytes, and what is found in them: of its last three frames the middle one is to be hit."""
    log = open_log(folder)
    for start in range(0, 9, 3):
        append_rows(log, rows(3, start=start))
    log.close()
    data = segment(folder).read_bytes()
    return data, list(find_frames(memoryview(data), 0))


def test_any_bit_of_a_header_is_put_right_and_told(tmp_path: Path) -> None:
    """Of the mark, of the length, of the digest, of the header: it is as it was written, and what was wrong with it is known."""
    data, whole = three_frames(tmp_path)
    for hit in whole:
        assert isinstance(hit, FoundFrame)
        for at in range(hit.at, hit.blocks_at):
            for bit in range(8):
                spoiled = bytearray(data)
                spoiled[at] ^= 1 << bit
                found = list(find_frames(memoryview(spoiled), 0))
                [told] = [one.wrong for one in found if isinstance(one, FoundFrame) and one.wrong]
                assert found == [replace(one, wrong=told) if one is hit else one for one in whole]


def test_two_bits_of_a_header_cost_its_frame_and_no_other(tmp_path: Path) -> None:
    data, whole = three_frames(tmp_path)
    hit, chance = whole[-2], random.Random(5)
    assert isinstance(hit, FoundFrame)
    for _ in range(300):
        spoiled = bytearray(data)
        for at in chance.sample(range(8 * (hit.blocks_at - hit.at)), 2):
            spoiled[hit.at + at // 8] ^= 1 << at % 8
        found = list(find_frames(memoryview(spoiled), 0))
        assert found == [*whole[:-2], found[-2], whole[-1]]
        assert isinstance(found[-2], Hole)
        assert (found[-2].at, found[-2].end) == (hit.at, hit.end)


def test_of_a_header_too_long_to_try_its_prefix_alone_is_put_right(tmp_path: Path) -> None:
    """A checkpoint of thousands of producers, say: trying each bit would take minutes."""
    secret, long = Secret.new(), FrameHeader(commit=7, gone=(FrameGone("containers", "x" * REPAIRED_BYTES_MAX, 1, 0, 1, "lost"),))
    data = secret.head() + frame_bytes(long, [], secret)[0]
    [whole] = find_frames(memoryview(data), 0)
    assert isinstance(whole, FoundFrame)
    for at in range(PREFIX.size + 2):
        spoiled = bytearray(data)
        spoiled[HEAD_BYTES + at] ^= 1
        [found] = find_frames(memoryview(spoiled), 0)
        assert isinstance(found, FoundFrame) == (at < PREFIX.size)


def test_a_whole_block_in_the_place_of_another_is_damage(tmp_path: Path) -> None:
    """A disk that wrote to the wrong place: the header knows what stands there by its checksum."""
    log = open_log(tmp_path)
    append_rows(log, rows(3))
    append_rows(log, rows(3))
    log.close()
    data = bytearray(segment(tmp_path).read_bytes())
    [*_, one, other] = find_frames(memoryview(bytes(data)), 0)
    assert isinstance(one, FoundFrame)
    assert isinstance(other, FoundFrame)
    assert other.end - other.blocks_at == one.end - one.blocks_at
    data[one.blocks_at : one.end] = data[other.blocks_at : other.end]
    [(_, _, _, block)] = one.blocks(memoryview(data))
    assert isinstance(block, Corrupt)
    assert block.code == "block_misplaced"
