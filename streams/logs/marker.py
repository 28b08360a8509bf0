"""The marker: a small file outside the log's folder, in no backup of it, that shows whether this log is the latest of its node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from streams.logs.disk import Disk


class _Seen(msgspec.Struct, frozen=True):
    """The node's generation, and a commit that its log has reached. The log may be further, never less far."""

    node: str
    generation: int
    commit: int


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker of `node`'s log at `path`."""

    path: Path
    node: str
    disk: Disk

    def write(self, generation: int, commit: int) -> None:
        """From now on the marker says this, on the disk too. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.disk.replace(self.path, msgspec.json.encode(_Seen(self.node, generation, commit)))

    def why_not_latest(self, generation: int, commit: int) -> str | None:
        """Why a log that stands at `generation` and `commit` can not be shown to be the latest; None when it can."""
        try:
            seen = msgspec.json.decode(self.path.read_bytes(), type=_Seen)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return "the marker is missing, or does not read"
        if (seen.node, seen.generation) != (self.node, generation):
            return f"the marker names {seen.node}@{seen.generation:x}, the log {self.node}@{generation:x}"
        if commit < seen.commit:
            return f"the log ends at commit {commit}, but the marker has seen {seen.commit}"
        return None


def marked_node(path: Path) -> str | None:
    """The node that the marker at `path` names; None when there is none, or it does not read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Seen).node
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
