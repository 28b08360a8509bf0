"""A disk whose power is cut: what was not synced is dropped, torn or reordered, and names not synced come and go."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
from pathlib import Path
from typing import Any

from landfall.storage.disk import Disk
from landfall.storage.index import INDEX_NAME
from landfall.system.shared_folders import FOLDER_MODE

SECTOR = 512
SNAPSHOTS_MAX = 16
SQLITE = tuple(prefix + INDEX_NAME + suffix for prefix in ("", "new-") for suffix in ("", "-wal"))
Names = dict[str, int]
"""Of what is in a folder, and which file or folder (inode) each of them is."""


def torn(chance: random.Random, old: bytes, new: bytes) -> bytes:
    """What may be left of a file that was `old` when synced and is `new` since: each sector the one or the other, any length between."""
    kind = chance.randrange(5)
    if kind < 2:
        return (old, new)[kind]
    length = chance.choice((len(old), len(new), chance.randint(*sorted((len(old), len(new))))))
    until = chance.randrange(len(new) + 1)
    found = bytearray()
    for at in range(0, length, SECTOR):
        is_new = at < until if kind == 2 else chance.random() < 0.5
        sector = (new if is_new else old)[at : at + SECTOR].ljust(SECTOR, b"\0")
        if not is_new and at >= len(old) and kind == 4:
            sector = chance.randbytes(SECTOR)  # what lay there before the file did
        found += sector
    return bytes(found[:length])


class CutDisk(Disk):
    """Knows of the real files and folders in `root` what is surely on the disk: of a file what was last synced of it, of a folder the names
    that were in it when it was synced. At the event it is armed for, it makes one image of what may be left after a cut at that instant: a
    name that is not synced is there or not, with all that is below it, a file not synced is torn. Whoever writes goes on and never knows.

    SQLite's files go past it. They are looked at before and after each of its commits: what a checkpoint moved is synced, later pages of
    the write-ahead log are not. A disk that `lies` syncs them never: any sector of any of the last SNAPSHOTS_MAX looks is what may be left.
    """

    def __init__(self, root: Path, chance: random.Random, *, lies: bool) -> None:
        """All that is in `root`, which is there for good, is on the disk."""
        self._root, self._log, self._chance, self._lies = root, root / "home" / "log", chance, lies
        self._open: dict[int, int] = {}
        """A descriptor of every file ever looked at: one that has no name any more may be back after the cut."""
        self._synced: dict[int, bytes] = {}
        self._names: dict[Path, Names] = {folder: self._named(folder) for folder in (root, *filter(Path.is_dir, root.rglob("*")))}
        for number in self._open:
            self._synced[number] = self._content(number)
        self._looks: list[dict[str, bytes]] = [self._sqlite()]
        self._wal_synced = self._looks[0].get(SQLITE[1], b"")
        self._checkpointed: bytes | None = None
        self._left: int | None = None
        self._image = root
        self.cut_at: str | None = None

    def arm(self, image: Path, events: int) -> None:
        """The power is cut at the next event but `events`; the folder `image` is what is left."""
        self._image, self._left = image, events

    def disarm(self) -> bool:
        """No power is cut any more; whether it was."""
        was_cut, self.cut_at, self._left = self.cut_at is not None, None, None
        return was_cut

    def event(self, name: str) -> None:
        """One instant of the writer."""
        self._look()
        if self._left is None or self.cut_at:
            return
        if self._left == 0:
            self.cut(name)
        self._left -= 1

    def cut(self, name: str) -> None:
        """Make the image now."""
        self.cut_at = name
        self._leave_folder(self._root, self._image)
        if (log := self._image / self._log.relative_to(self._root)).exists():
            self._leave_sqlite(log)

    def close(self) -> None:
        """Release the files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def open_to_append(self, path: Path) -> int:
        self.event("open")
        return super().open_to_append(path)

    def write(self, descriptor: int, data: bytes) -> None:
        self.event("write")
        super().write(descriptor, data)
        self.event("written")

    def sync(self, descriptor: int) -> None:
        self.event("sync")
        number = self._keep_open(Path(f"/proc/self/fd/{descriptor}"))
        self._synced[number] = self._content(number)
        self.event("synced")

    def truncate(self, descriptor: int, length: int) -> None:
        self.event("truncate")
        os.ftruncate(descriptor, length)
        self.event("truncated")
        self.sync(descriptor)

    def overwrite(self, path: Path, at: int, data: bytes) -> None:
        self.event("overwrite")
        super().overwrite(path, at, data)
        self.event("overwritten")

    def sync_folder(self, folder: Path) -> None:
        if not folder.is_relative_to(self._root):
            return
        self.event("sync folder")
        self._names[folder] = self._named(folder)
        self.event("folder synced")

    def connect(self, path: Path) -> sqlite3.Connection:
        disk = self

        class Connection(sqlite3.Connection):
            """Tells of every COMMIT and checkpoint, before and after."""

            def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
                if sql != "COMMIT" and "wal_checkpoint" not in sql:
                    return super().execute(sql, parameters)
                disk.event(f"before {sql}")
                done = super().execute(sql, parameters)
                disk.event(f"after {sql}")
                return done

        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Connection)
        connection.execute(f"PRAGMA wal_autocheckpoint = {self._chance.choice((8, 30, 1000))}")
        return connection

    def _named(self, folder: Path) -> Names:
        """What is in `folder` now, but for SQLite's own files."""
        return {path.name: self._keep_open(path) for path in sorted(folder.iterdir()) if path.name not in SQLITE}

    def _keep_open(self, path: Path) -> int:
        """The number of the file or folder, which no other gets while this disk is there."""
        number = path.stat().st_ino
        if path.is_file() and number not in self._open:
            self._open[number] = os.open(path, os.O_RDONLY)
        return number

    def _content(self, number: int) -> bytes:
        descriptor = self._open[number]
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def _leave_folder(self, folder: Path, image: Path) -> None:
        image.mkdir(FOLDER_MODE, exist_ok=True)
        durable, present = self._names.get(folder, {}), self._named(folder)
        for name in sorted(durable.keys() | present.keys()):
            number = self._chance.choice([durable.get(name), present.get(name)])
            if number in self._open:
                self._leave(number, image / name)
            elif number is not None:
                self._leave_folder(folder / name, image / name)

    def _leave(self, number: int, path: Path) -> None:
        if path.suffix == ".sum" and self._lies and self._chance.random() < 0.5:
            return  # the index's own rows have to tell
        self._write(path, torn(self._chance, self._synced.get(number, b""), self._content(number)), number)

    def _write(self, path: Path, content: bytes, number: int) -> None:
        """With the rights of the file of this number."""
        path.write_bytes(content)
        path.chmod(stat.S_IMODE(os.fstat(self._open[number]).st_mode))

    def _sqlite(self) -> dict[str, bytes]:
        found = {}
        for name in SQLITE:
            path = self._log / name
            if path.exists():
                found[name] = path.read_bytes()
        return found

    def _look(self) -> None:
        before, now = self._looks[-1], self._sqlite()
        self._checkpointed = None
        if now == before:
            return
        self._looks = [*self._looks[1 - SNAPSHOTS_MAX :], now]
        wal = now.get(SQLITE[1], b"")
        if before.get(SQLITE[0]) != now.get(SQLITE[0]):
            self._checkpointed, self._wal_synced = before.get(SQLITE[0]), wal
        elif wal[:32] != self._wal_synced[:32]:
            self._wal_synced = wal[:32] + self._wal_synced[32:]  # SQLite syncs the header when it begins the file anew

    def _leave_sqlite(self, image: Path) -> None:
        left = dict(self._looks[-1])
        wal, database = left.get(SQLITE[1], b""), left.get(SQLITE[0], b"")
        if self._lies:
            for name in SQLITE:
                seen = [look[name] for look in self._looks if name in look]
                if seen:
                    left[name] = torn(self._chance, self._chance.choice(seen), self._chance.choice(seen[-3:]))
                if self._chance.random() < 0.1:
                    left.pop(name, None)
        elif self._checkpointed is not None:
            left[SQLITE[0]] = torn(self._chance, self._checkpointed, database)
        elif wal:
            left[SQLITE[1]] = torn(self._chance, self._wal_synced, wal)
        for name, data in left.items():
            (image / name).write_bytes(data)
