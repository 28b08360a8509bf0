"""The file in a log's folder that names every peer that its node ever knew, for processes that read the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from landfall.system.replaced_files import replace_file
from streams.config.roles import Peer
from streams.model.errors import Corrupt, Unreadable

PEERS = "peers.json"
"""Name of the file in the log's folder, so that all who may read the log may read it. It lists every node that its node ever knew, by name,
with role and identity.
"""


class KnownPeers:
    """A node's peers, as the file in the folder of its log lists them at each call. It is safe to use from any thread."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / PEERS
        self._read: tuple[int, Mapping[str, Peer]] = (0, {})

    def peer(self, node: str) -> Peer | None:
        """Return the peer of this name; None when the file has none, or there is no file. Raises Corrupt for a file that can not be
        understood, Unreadable for one that can not be read now.
        """
        try:
            changed_at = self._file.stat().st_mtime_ns
            if changed_at != self._read[0]:
                self._read = changed_at, _read_peers(self._file)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise Unreadable(f"{self._file} can not be read: {problem.strerror}", hint="look at the disk, and whose it is") from problem
        return self._read[1].get(node)


def keep_peers(folder: Path, peers: Mapping[str, Peer]) -> None:
    """Write these peers to the folder of the node's log, for the processes that read it. Peers written before stay: their records are still
    in the log. Raises OSError."""
    file = folder / PEERS
    try:
        before = _read_peers(file)
    except (FileNotFoundError, Corrupt):  # a damaged file is made again
        before = {}
    if (known := before | dict(peers)) != before:
        replace_file(file, msgspec.json.format(msgspec.json.encode(known, order="sorted"), indent=1))


def _read_peers(file: Path) -> dict[str, Peer]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Peer])
    except msgspec.MsgspecError as problem:
        raise Corrupt(
            f"{file} can not be understood: {problem}", hint="start its node again, which writes it again", code="peers_corrupt"
        ) from None
