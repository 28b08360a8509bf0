"""The report of bytes that a log wrote and that no longer verify."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from landfall.storage.segments import file_path
from streams.model.identifiers import Origin

Lost = tuple[str, Origin, int, int]
"""Offsets `first .. end - 1` of (stream, origin), in this order."""
WANTED_AGAIN = "set aside; asked for again from peers"


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes `at .. at + length - 1` of file `segment` (see `landfall.storage.segments.file_path`) do not verify, and are never read again.

    A length of 0: they are in no file any more. `offsets` are the known lost offsets, which are wanted again. `cure`: what is done about
    it. `code` names the case.
    """

    segment: int
    at: int
    length: int
    why: str
    offsets: tuple[Lost, ...] = ()
    cure: str = WANTED_AGAIN
    code: str = field(kw_only=True)

    def __str__(self) -> str:
        """Return a text for people: the place, what was lost, and why."""
        place = f"{file_path(Path(), self.segment).name} byte {self.at:,}" if self.length and self.segment else ""
        lost = ", ".join(f"{stream}:{origin} offsets {first}..{end - 1}" for stream, origin, first, end in self.offsets)
        return ": ".join(part for part in (place, lost, self.why) if part)
