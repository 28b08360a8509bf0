"""The check that a log's index has all that is in the log's files. Where it does not, a program that reads the folder on its own gets a
separate index.

The node brings its index up to date when it starts. Until then, the index alone may report less than what was acknowledged: as after a
write-ahead log was damaged, or did not come along with a copy of the folder.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from landfall.storage.damage import Damage
from landfall.storage.disk import Disk
from landfall.storage.epoch_marker import Marker, marked_node
from landfall.storage.file_blocks import FileLogReader
from landfall.storage.frames import FoundFrame, find_frames
from landfall.storage.index import BUSY_S, INDEX_NAME, UNREADABLE, IndexDamaged, IndexReader
from landfall.storage.index_integrity import sum_problem
from landfall.storage.index_writer import IndexWriter, remove_index
from landfall.storage.log_replay import Placing, Replay
from landfall.storage.log_view import PassedOver
from landfall.storage.rejected_records import Disowned
from landfall.storage.segments import file_path, mapped, segment_numbers, unreadable
from landfall.system.sqlite_files import connect_to_read
from streams.integrity.record_authorization import Entitled
from streams.model.block import Codec

INDEXED_S = 5.0
"""Time after which a commit that was not indexed is not being indexed, seconds: nobody writes this log, or its disk hangs."""
_LOOK_EVERY_S = 0.05

OnDamage = Callable[[Damage], None]


def index_problem(log: Path) -> str | None:
    """Return why the index does not have all that is in the files of the log in folder `log`. Return None when it has, or its node is about
    to bring it up to date.

    It looks at the index's bytes, where it has a digest, and past the last indexed commit, for INDEXED_S at most. Raises Unreadable.
    """
    index = log / INDEX_NAME
    if not index.exists():
        return "it is missing"
    try:
        if (altered := sum_problem(index)) is not None:
            return altered
        until_s, first = time.monotonic() + INDEXED_S, _mark(log)
        while (mark := _mark(log)) == first and (commit := _commit_behind(log, mark)) is not None:
            if time.monotonic() > until_s or time.time() - _written_s(log) >= INDEXED_S:
                return f"it ends at commit {mark[0]:,}, and the files go on to commit {commit:,}"
            time.sleep(_LOOK_EVERY_S)
    except (IndexDamaged, *UNREADABLE) as problem:
        return str(problem)
    except OSError as problem:
        raise unreadable(index, problem) from problem
    return None


@contextmanager
def recovered(
    log: Path, codec: Codec, on_damage: OnDamage, passed_over: PassedOver | None = None, entitled: Entitled | None = None
) -> Iterator[FileLogReader]:
    """Yield a reader of the log in folder `log`, which nobody writes. The reader has a separate index with all that is in the files.

    The index is made in the system's folder for temporary files, from the contents of the log's index, else from the files alone. It is
    deleted when the block ends. Nothing in `log` changes. What does not verify in the files is reported to `on_damage`. Raises Unreadable,
    RetryLater.
    """
    with TemporaryDirectory(prefix="landfall-index-") as folder:
        index = Path(folder) / INDEX_NAME
        _bring_up(log, index, codec, on_damage)
        with closing(FileLogReader(log, codec, index, passed_over, entitled)) as reader:
            yield reader


def _bring_up(log: Path, index: Path, codec: Codec, on_damage: OnDamage) -> None:
    disk, marker = Disk(), log.parent / "marker"
    placing = Placing(codec, Disowned(log, disk, codec), Marker(marker, marked_node(marker) or "", disk).reached)
    damages: list[Damage] = []
    try:
        if (altered := sum_problem(log / INDEX_NAME)) is not None:
            raise IndexDamaged(altered)
        with closing(connect_to_read(log / INDEX_NAME, BUSY_S)) as old, closing(sqlite3.connect(index)) as new:
            old.backup(new)
        Replay(log, placing, damages.append, IndexWriter.open_for(index, disk), whole=False).run().index.close()
    except (IndexDamaged, *UNREADABLE):
        remove_index(index)
        damages.clear()
        Replay(log, placing, damages.append, IndexWriter.open_for(index, disk), whole=True).run().index.close()
    for damage in damages:
        on_damage(damage)


def _mark(log: Path) -> tuple[int, int, int]:
    with closing(IndexReader.open(log / INDEX_NAME)) as index:
        index.load()  # another version's does not
        return index.mark()


def _written_s(log: Path) -> float:
    """Return when the newest segment was last written, by the file system (Unix time, s)."""
    return file_path(log, segment_numbers(log)[-1]).stat().st_mtime


def _commit_behind(log: Path, mark: tuple[int, int, int]) -> int | None:
    """Return the last commit in the files beyond the last indexed one; None when there is none."""
    commit, segment, end = mark
    last = None
    for number in [number for number in segment_numbers(log) if number >= segment]:
        with suppress(FileNotFoundError), mapped(log, number) as data:  # what was freed meanwhile was indexed before
            for found in find_frames(data, end if number == segment else 0):
                if isinstance(found, FoundFrame) and found.header.commit > commit:
                    last = found.header.commit
    return last
