"""A walk over the frames of a log's files while it runs: what stands around blocks is verified before an index has to be built from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from landfall.storage.damage import Damage
from landfall.storage.file_header import HEAD_BYTES
from landfall.storage.frames import FoundFrame, find_frames
from landfall.storage.index import INDEX_NAME, IndexReader
from landfall.storage.segments import file_path, mapped, merged_numbers, segment_numbers

CURE = "set aside; nothing is lost with it while the index is there"


class FrameWalk:
    """Walks over the files of the log in `log`, and tells `on_damage` of each place that does not verify, at every walk.

    `written`: the segment that is written, and how long it is by now. Not safe from several threads.
    """

    def __init__(self, log: Path, written: Callable[[], tuple[int, int]], on_damage: Callable[[Damage], None]) -> None:
        self._log, self._written, self._on_damage = log, written, on_damage

    def __call__(self) -> Iterator[int]:
        """One walk: how many bytes each frame has before its blocks. Raises IndexDamaged."""
        last, end = self._written()
        with closing(IndexReader.open(self._log / INDEX_NAME)) as index:
            ends = index.file_ends()
        for number in (*segment_numbers(self._log), *merged_numbers(self._log)):
            try:
                length = file_path(self._log, number).stat().st_size
                if number < 0 or number >= last:  # behind that it is being written, or was when a process died
                    length = min(length, ends.get(number, 0) if number < 0 else end if number == last else 0)
                yield from self._file(number, length)
            except FileNotFoundError:
                continue  # freed meanwhile

    def _file(self, number: int, length: int) -> Iterator[int]:
        with mapped(self._log, number) as data, data[:length] as named:
            if length:
                yield HEAD_BYTES
            for found in find_frames(named, 0):
                if isinstance(found, FoundFrame):
                    if found.wrong:
                        self._on_damage(
                            Damage(number, found.at, found.blocks_at - found.at, found.wrong, cure=CURE, code="frame_header_damaged")
                        )
                    yield found.blocks_at - found.at
                elif not (number < 0 and found.unfinished):  # blocks behind the last that is held
                    self._on_damage(Damage(number, found.at, found.end - found.at, found.why, cure=CURE, code="frame_damaged"))
                    yield found.end - found.at
