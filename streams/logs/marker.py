"""The marker: a small file outside the log's folder, in no backup of it, that shows whether this log is the latest of its node."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streams.logs.disk import Disk


class Marker(msgspec.Struct, frozen=True):
    """The node's generation, and a commit that its log has reached since. The log may be further, never less far."""

    node: str
    generation: int
    commit: int


def read_marker(path: Path) -> Marker | None:
    """The marker, or None when there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Marker)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def write_marker(path: Path, marker: Marker, disk: Disk) -> None:
    """From now on the marker says this. Raises OSError."""
    disk.replace(path, msgspec.json.encode(marker))


def why_not_latest(marker: Marker | None, node: str, generation: int, commit: int) -> str | None:
    """Why a log of `node` that stands at `generation` and `commit` can not be shown to be the latest; None when it can."""
    if marker is None:
        return "the marker is missing"
    if (marker.node, marker.generation) != (node, generation):
        return f"the marker names {marker.node}@{marker.generation:x}, the log {node}@{generation:x}"
    if commit < marker.commit:
        return f"the log ends at commit {commit}, but the marker has seen {marker.commit}"
    return None
