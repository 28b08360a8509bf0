"""The quarantine of bytes that do not verify: they are kept aside for later examination."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from landfall.storage.damage import Damage
from landfall.storage.disk import Disk
from landfall.storage.segments import file_path, read_span
from streams.model.errors import Corrupt, Unreadable

ASIDE = "aside"
_READ_AGAIN = "what follows in it is taken from the log's own files"
INDEX_SUFFIXES = ("", "-wal", "-shm")
ASIDE_BYTES_MAX = 64 << 20
"""Maximum number of bytes kept aside. Further bytes are reported only."""


@dataclass(frozen=True, slots=True)
class Aside:
    """The folder `aside` of the log in `log`: one file for each Damage, named `<file>.<first byte>`. `report` receives every Damage. It
    receives bytes with which no offsets are known to be lost once, however often they are found again.

    A damaged index goes there as a whole, as `<file>.<number>`.
    """

    log: Path
    disk: Disk
    report: Callable[[Damage], None]
    _reported: set[tuple[int, int, int, str]] = field(default_factory=set)

    def __call__(self, damage: Damage) -> None:
        """Keep the bytes of `damage`, where there is room, then report it."""
        if not damage.offsets:
            place = damage.segment, damage.at, damage.length, damage.why
            if place in self._reported:
                return
            self._reported.add(place)
        with suppress(OSError, Corrupt, Unreadable):  # the bytes are for people: nothing depends on them
            self._keep(damage)
        self.report(damage)

    def index(self, path: Path, why: str) -> None:
        """Set aside the damaged index at `path`, where there is room, and report it. The index must be closed."""
        files = [path.with_name(path.name + suffix) for suffix in INDEX_SUFFIXES]
        length = sum(file.stat().st_size for file in files if file.exists())
        with suppress(OSError):
            if self._has_room(length):
                number = sum(1 for kept in (self.log / ASIDE).glob(f"{path.name}.*"))
                for file in filter(Path.exists, files):
                    file.replace(self.log / ASIDE / f"{file.name}.{number}")
        self.report(Damage(0, 0, length, f"{path.name}: {why}", cure="set aside; rebuilt from what is stored", code="index_damaged"))

    def write_ahead_log(self, index: Path, why: str) -> None:
        """Keep a copy of this index's write-ahead log where there is room, and report it. SQLite takes it up to the first frame that does
        not verify.
        """
        wal = index.with_name(f"{index.name}-wal")
        with suppress(OSError):
            if self._has_room(wal.stat().st_size):
                shutil.copyfile(wal, self._free_name(wal))
        sentence = f"{index.name}: {why}: cut short with the power, or damaged"
        self.report(Damage(0, 0, wal.stat().st_size, sentence, cure=_READ_AGAIN, code="index_log_damaged"))

    def _free_name(self, path: Path) -> Path:
        number = sum(1 for kept in (self.log / ASIDE).glob(f"{path.name}.*"))
        return self.log / ASIDE / f"{path.name}.{number}"

    def _has_room(self, length: int) -> bool:
        folder = self.log / ASIDE
        folder.mkdir(exist_ok=True)
        return sum(path.stat().st_size for path in folder.iterdir()) + length <= ASIDE_BYTES_MAX

    def _keep(self, damage: Damage) -> None:
        if damage.length and self._has_room(damage.length):
            name = f"{file_path(self.log, damage.segment).name}.{damage.at}"
            self.disk.replace(self.log / ASIDE / name, read_span(self.log, damage.segment, damage.at, damage.length))
