"""The marker: a small file outside the log's folder, in no backup of it, that shows whether this log is the latest of its node.

It has two slots of one sector each, written by turns. A slot is a JSON line with its checksum, so that a slot which was being written is no
loss.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import xxhash

from landfall.storage.disk import Disk
from streams.model.errors import Misuse

SLOT_BYTES = 512
SLOTS = 2


class _Seen(msgspec.Struct, frozen=True):
    """The node's generation, and a commit that its log has reached. The log may be further, never less far."""

    node: str
    generation: int
    commit: int


def check_node(node: str, found: str | None, where: object) -> None:
    """Raise Misuse when the log in `where`, which belongs to `found` (None: to no node yet), is not `node`'s. A log belongs to one node."""
    if found not in (None, node):
        raise Misuse(f"the log in {where} is {found}'s, not {node}'s", hint="give each node a log of its own", code="log_of_another")


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker of `node`'s log at `path`."""

    path: Path
    node: str
    disk: Disk

    def write(self, generation: int, commit: int) -> None:
        """Write `generation` and `commit` to the marker, on the disk too. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.disk.replace(self.path, self._slot(generation, commit) * SLOTS)

    def note(self, generation: int, commit: int) -> None:
        """Write consecutive commits to the marker, once written. A killed process does not lose them; after a power cut the marker may be
        older.

        Raises OSError; then the marker is as it was.
        """
        self.disk.overwrite(self.path, commit % SLOTS * SLOT_BYTES, self._slot(generation, commit))

    def why_not_latest(self, generation: int, commit: int) -> str | None:
        """Return why a log that stands at `generation` and `commit` can not be shown to be the latest; None when it can."""
        seen = _seen(self.path)
        if seen is None:
            return "the marker is missing, or does not read"
        if (seen.node, seen.generation) != (self.node, generation):
            return f"the marker names {seen.node}@{seen.generation:x}, the log {self.node}@{generation:x}"
        if commit < seen.commit:
            return f"the log ends at commit {commit}, but the marker has seen {seen.commit}"
        return None

    def reached(self, generation: int) -> int:
        """Return a commit that this log has reached and acknowledged in `generation`, as far as the marker knows; 0 where it names another
        generation.
        """
        seen = _seen(self.path)
        return seen.commit if seen is not None and (seen.node, seen.generation) == (self.node, generation) else 0

    def _slot(self, generation: int, commit: int) -> bytes:
        said = msgspec.json.encode(_Seen(self.node, generation, commit))
        return (_digest(said) + b" " + said).ljust(SLOT_BYTES - 1) + b"\n"


def marked_node(path: Path) -> str | None:
    """Return the node that the marker at `path` names; None when there is none, or it does not read."""
    seen = _seen(path)
    return None if seen is None else seen.node


def _seen(path: Path) -> _Seen | None:
    """Return the contents of the slots, the later one where both verify; None where none does."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = []
    for at in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES):
        digest, _, said = data[at : at + SLOT_BYTES].rstrip().partition(b" ")
        if digest == _digest(said):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                found.append(msgspec.json.decode(said, type=_Seen))
    return max(found, key=lambda one: (one.generation, one.commit), default=None)


def _digest(said: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(said).encode()
