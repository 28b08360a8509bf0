"""The check that the bytes of the index's two files are as SQLite left them, even where SQLite would ignore the difference silently.

The write-ahead log has its own checksums (https://www.sqlite.org/walformat.html): SQLite takes it up to the first frame that does not
verify. The database has none, so a digest of it is kept as it was last written. The digest is made only where the write-ahead log is
brought into the database, so it is rare.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from landfall.storage.disk import Disk

SUM_SUFFIX = ".sum"
_WAL_HEADER, _FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
_MAGIC = 0x377F0682
"""Magic number of a write-ahead log with checksums over little-endian numbers; one more means big-endian numbers."""
_FRAMES_AT_ONCE = 1024
_READ_AT_ONCE = 1 << 20

Numbers = npt.NDArray[np.uint32]


def keep_sum(index: Path, disk: Disk) -> None:
    """Write the digest of the database as it is now. The process that wrote the database calls it before any other writes. Raises
    OSError.
    """
    disk.replace(_sum_path(index), _sum(index))


def sum_problem(index: Path) -> str | None:
    """Return why the database does not match its digest; None when it matches, or there is no digest."""
    while (kept := _kept_sum(index)) is not None:
        found = _sum(index)
        if found == kept:
            return None
        if _kept_sum(index) == kept:  # else it was being written: the writer drops the digest first
            return "its bytes are not those that were written last"
    return None


def drop_sum(index: Path, disk: Disk) -> None:
    """Delete the digest, on the disk too, before the database is written. Raises OSError."""
    if _sum_path(index).exists():
        disk.remove(_sum_path(index))
        disk.sync_folder(index.parent)


def wal_problem(index: Path) -> str | None:
    """Return why SQLite does not take all of the write-ahead log; None when it does. A frame cut short, as a killed process leaves it, does
    not count.
    """
    path = index.with_name(f"{index.name}-wal")
    data = path.read_bytes() if path.exists() else b""
    if len(data) < _WAL_HEADER.size:
        return None
    magic, _, page_bytes, _, *salts, first, second = _WAL_HEADER.unpack_from(data)
    order = "<u4" if magic == _MAGIC else ">u4"
    opened = _summed(np.frombuffer(data, order, 6).astype(np.uint32)[None], (0, 0))[0]
    if magic not in (_MAGIC, _MAGIC + 1) or opened != (first, second):
        return "the header of its write-ahead log does not verify"
    length = _FRAME_HEADER.size + page_bytes
    count = (len(data) - _WAL_HEADER.size) // length
    frames = np.frombuffer(data, np.uint8, count * length, _WAL_HEADER.size).reshape(count, length)
    heads = frames[:, : _FRAME_HEADER.size].copy().view(">u4").astype(np.uint32)
    whole = _verified(frames, heads, (order, (first, second)))
    left = heads[whole:]
    older = (left[:, 2] == np.uint32((salts[0] - 1) & 0xFFFFFFFF)) & (left[:, 3] != salts[1])
    ours = (heads[:whole, 2:4] == np.array(salts, np.uint32)).all(axis=1)
    if ours.all() and older.all():
        return None  # what follows is of before SQLite restarted the file
    return f"frame {int(np.argmin(ours)) + 1 if not ours.all() else whole + 1} of {count} of its write-ahead log does not verify"


def _verified(frames: npt.NDArray[np.uint8], heads: Numbers, start: tuple[str, tuple[int, int]]) -> int:
    """Return how many frames there are before the first whose checksum does not match."""
    order, before = start
    for at in range(0, len(frames), _FRAMES_AT_ONCE):
        some = frames[at : at + _FRAMES_AT_ONCE]
        covered = np.concatenate((some[:, :8], some[:, _FRAME_HEADER.size :]), axis=1).view(order).astype(np.uint32)
        for place, found in enumerate(_summed(covered, before), at):
            if found != (int(heads[place, 4]), int(heads[place, 5])):
                return place
            before = found
    return len(frames)


def _summed(rows: Numbers, before: tuple[int, int]) -> list[tuple[int, int]]:
    """Return SQLite's checksum after each row; each continues from the one before: s0 += x0 + s1, s1 += x1 + s0 for each two numbers."""
    powers, weights = _weights(rows.shape[1] // 2)
    added = np.stack([(rows * weights[0]).sum(axis=1, dtype=np.uint32), (rows * weights[1]).sum(axis=1, dtype=np.uint32)], axis=1).tolist()
    found = []
    for first, second in added:
        before = tuple(
            (row[0] * before[0] + row[1] * before[1] + more) & 0xFFFFFFFF for row, more in zip(powers, (first, second), strict=True)
        )
        found.append(before)
    return found


@lru_cache(4)
def _weights(pairs: int) -> tuple[list[list[int]], Numbers]:
    """Return the weights of the two sums before `pairs` pairs of numbers, and of each of these numbers, in the two sums after them."""
    power, weights = [[1, 0], [0, 1]], np.empty((2, 2 * pairs), np.uint32)
    for pair in range(pairs - 1, -1, -1):
        for row in range(2):
            weights[row, 2 * pair] = (power[row][0] + power[row][1]) & 0xFFFFFFFF
            weights[row, 2 * pair + 1] = power[row][1]
        power = [[(first + second) & 0xFFFFFFFF, (first + 2 * second) & 0xFFFFFFFF] for first, second in power]
    return power, weights


def _sum_path(index: Path) -> Path:
    return index.with_name(index.name + SUM_SUFFIX)


def _kept_sum(index: Path) -> bytes | None:
    try:
        return _sum_path(index).read_bytes()
    except FileNotFoundError:
        return None


def _sum(index: Path) -> bytes:
    digest = xxhash.xxh3_128()
    with index.open("rb") as file:
        while part := file.read(_READ_AT_ONCE):
            digest.update(part)
    return digest.hexdigest().encode()
