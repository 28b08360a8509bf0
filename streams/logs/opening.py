"""Opening a log: one writer, what the index missed, where the segments end, and whether this is the latest copy."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from streams.block import Codec
from streams.errors import Misuse
from streams.logs.damage import Damage
from streams.logs.disk import Disk
from streams.logs.index import INDEX_NAME, IndexDamaged
from streams.logs.indexing import IndexWriter, remove_index
from streams.logs.replaying import Opened, OtherFiles, Replay


def lock_folder(folder: Path) -> int:
    """A descriptor that keeps all other writers out until it is closed. Raises Misuse when there is one already."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(descriptor)
        raise Misuse(
            f"another process writes the log in {folder}", hint="a log has one writer: stop the other, or use its append door"
        ) from problem
    return descriptor


def open_folder(folder: Path, disk: Disk, codec: Codec, on_damage: Callable[[Damage], None]) -> Opened:
    """Brings the index up to the files: from its mark on, or wholly when it is missing, damaged, or of other files than there are.

    Raises RetryLater when the disk is full.
    """
    path = folder / INDEX_NAME
    seen = 0
    if path.exists():
        try:
            return Replay(folder, codec, on_damage, IndexWriter.open_for(path, disk), whole=False).run()
        except OtherFiles as problem:
            seen = problem.commit
        except IndexDamaged:
            pass  # built anew below, from the files alone
    opened = _rebuilt(folder, disk, codec, on_damage)
    lost = f"the log's files end at commit {opened.book.commit}, but {seen} were indexed" if opened.book.commit < seen else None
    return replace(opened, doubt=lost or opened.doubt)


def _rebuilt(folder: Path, disk: Disk, codec: Codec, on_damage: Callable[[Damage], None]) -> Opened:
    """The index made anew beside the old one, and put in its place when it is whole: readers see the one or the other."""
    path, beside = folder / INDEX_NAME, folder / f"new-{INDEX_NAME}"
    remove_index(beside)
    opened = Replay(folder, codec, on_damage, IndexWriter.open_for(beside, disk), whole=True).run()
    opened.index.close()
    remove_index(path)
    beside.rename(path)
    return replace(opened, index=IndexWriter.open_for(path, disk))
