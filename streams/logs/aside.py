"""Bytes that do not verify are kept aside, for whoever wants to know what happened to them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streams.errors import Corrupt
from streams.logs.damage import Damage
from streams.logs.disk import Disk
from streams.logs.segments import file_path, read_span

ASIDE = "aside"
ASIDE_BYTES_MAX = 64 << 20
"""Once so much lies aside, what comes further is reported only."""


@dataclass(frozen=True, slots=True)
class Aside:
    """The folder `aside` of the log in `log`: one file for each Damage, named `<file>.<first byte>`. `tell` hears of every one."""

    log: Path
    disk: Disk
    tell: Callable[[Damage], None]

    def __call__(self, damage: Damage) -> None:
        """Keep the bytes of `damage`, where there is room, then tell of it."""
        with suppress(OSError, Corrupt):  # the bytes are for people: nothing depends on them
            self._keep(damage)
        self.tell(damage)

    def _keep(self, damage: Damage) -> None:
        folder = self.log / ASIDE
        if damage.length == 0:
            return
        folder.mkdir(exist_ok=True)
        if sum(path.stat().st_size for path in folder.iterdir()) + damage.length <= ASIDE_BYTES_MAX:
            name = f"{file_path(self.log, damage.segment).name}.{damage.at}"
            self.disk.replace(folder / name, read_span(self.log, damage.segment, damage.at, damage.length))
