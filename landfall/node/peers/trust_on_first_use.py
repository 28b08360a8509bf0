"""The keys that nodes were introduced with: the first key that a node shows in its own session is its own until a person decides otherwise.

A person decides so in the settings, in the registry, or on the spot: `landfall keys accept` adds a key to those by which a node is known
here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from landfall.storage.peers_file import keep_peers
from landfall.system.replaced_files import replace_file
from streams.config.roles import Peer, companions
from streams.integrity.key_trust import INTRODUCED, Trust
from streams.integrity.signing_keys import key_from_text, key_text
from streams.model.errors import LandfallError, Misuse, RetryLater
from streams.model.identifiers import NODE_PATTERN

FILE_NAME = "known.keys"
"""The file next to the log, with a line `NODE=ed25519:…` for each key, as `--key` of the commands reads it."""
ACCEPTED_NAME = "accepted.keys"
"""Lines of the same kind, which `landfall keys accept` adds."""
LOOK_EVERY_S = 2.0
"""Time between two checks of a running node for more accepted keys, seconds."""
OTHER_KEY = "a node shows another key than the one that is known as its own"
_HINT = "if that is right: `landfall keys accept {0} {1} --folder FOLDER`, or pin it in the registry (node/{0})"
_log = logging.getLogger("landfall.node")
Keys = Mapping[str, frozenset[bytes]]


class Introductions:
    """The first keys of nodes whose key was not given or pinned, and the nodes that are believed about their records before that. Call
    `heard` from the node's event loop; everything else from any thread.
    """

    def __init__(self, folder: Path, peers: Mapping[str, Peer], report: Callable[..., None]) -> None:
        """Read the kept keys. `folder`: the node's. `peers`: all nodes that are known, this one among them. Kept keys that do not read are
        reported.
        """
        self._file, self.peers, self._report = folder / FILE_NAME, peers, report
        try:
            keep_peers(folder / "log", peers)
        except OSError as problem:
            report(
                "who this node's peers are could not be written",
                "other programs on this machine use the old list",
                code="disk_refused",
                problem=str(problem),
            )
        self._shown, self._accepted = _read(self._file), folder / ACCEPTED_NAME
        self._state: tuple[int, ...] | None = None
        self._trust = introduced_to(folder)
        self._reported: set[tuple[str, bytes]] = set()

    def trust(self) -> Trust:
        """Return the keys that were kept; the same object until there are others."""
        return self._trust

    def heard(self, node: str, keys: Sequence[bytes], known: Callable[[str], Trust]) -> None:
        """Take the keys that `node` shows in its own session; it signs with the first of them now. The first keys it ever showed are kept,
        durably. Another key is reported, once, where it is not `known` otherwise.
        """
        if not keys:
            return
        if node not in self._trust.keys:
            self._shown[node] = frozenset(keys)
            self._trust = Trust({**self._trust.keys, node: frozenset(keys)}, INTRODUCED)
            self._keep()
            _log.info("%s shows its key, by which it is known from now on: %s", node, key_text(keys[0]))
        elif keys[0] not in self._trust.keys[node] and (node, keys[0]) not in self._reported:
            with suppress(LandfallError):  # what the registry says can not be read: its statements are checked against it all the same
                self._report_other_key(node, keys[0], known(node).keys.get(node, frozenset()))

    async def keep_looking(self) -> None:
        """Take up keys that are accepted while the node runs."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                found = self._accepted.stat()
            except OSError:
                continue
            if (state := (found.st_ino, found.st_mtime_ns, found.st_size)) != self._state:
                self._state = state
                self._trust = Trust(_joined(self._shown, await asyncio.to_thread(_read, self._accepted)), INTRODUCED)

    def vouches(self, bringer: str | None, node: str) -> bool:
        """Return whether records that `bringer` brings in the name of `node`, whose key is not known, are taken as its own. They are if
        `bringer` is the node itself, a node of its own ship or port, or headquarters, which may write the same anyway. None: this machine
        itself brings them.
        """
        one, other = self.peers.get(bringer or ""), self.peers.get(node)
        own = bringer in (None, node) or (one is not None and one.role == "hq")
        return own or (one is not None and other is not None and companions(one, other))

    def log_unknown(self, known: Callable[[str], Trust]) -> None:
        """Log the nodes without a known key, at the start."""
        if unknown := sorted(node for node in self.peers if not known(node).keys):
            _log.warning(
                "no key is known of %s: what others than headquarters bring in such a name, and is acted upon, is not believed until that "
                "node has once been in session here, which shows its key, or somebody gives or pins it (docs/guide/proof.md)",
                ", ".join(unknown),
            )

    def _report_other_key(self, node: str, shown: bytes, known: frozenset[bytes]) -> None:
        if shown not in known:
            self._reported.add((node, shown))
            details = {
                "peer": node,
                "shown": key_text(shown),
                "known": sorted(map(key_text, known)),
                "hint": _HINT.format(node, key_text(shown)),
            }
            self._report(OTHER_KEY, "what it signs with that is not believed", code="key_not_known", **details)

    def _keep(self) -> None:
        try:
            _write(self._file, self._shown)
        except OSError as problem:
            _log.warning("%s can not be written: %s; whom it would name is asked again after a start", self._file, problem)


def introduced_to(folder: Path) -> Trust:
    """Return the keys that were shown to the node of this folder in sessions, none before the first, and those that were accepted there."""
    return Trust(_joined(_read(folder / FILE_NAME), _read(folder / ACCEPTED_NAME)), INTRODUCED)


def accept_key(folder: Path, node: str, key: bytes) -> None:
    """Accept `key` too as a key of `node`, at the node of this folder, from now on. Raises Misuse for an invalid node name, and where there
    is no such folder; RetryLater when the file can not be written.
    """
    if not NODE_PATTERN.fullmatch(node):
        raise Misuse(
            f"{node[:100]!r} names no node",
            hint="write the name as in `node` of its settings: small letters, digits and dashes",
            code="node_name_invalid",
        )
    if not folder.is_dir():
        raise Misuse(
            f"there is no node in {folder}: no such folder",
            hint="give the folder of the node that is to believe the key",
            code="folder_missing",
        )
    path = folder / ACCEPTED_NAME
    try:
        _write(path, _joined(_read(path), {node: frozenset((key,))}))
    except OSError as problem:
        raise RetryLater(
            f"{path} can not be written: {problem.strerror}", hint="make room, and let this user write there", code="file_not_written"
        ) from problem


def _joined(one: Keys, other: Keys) -> dict[str, frozenset[bytes]]:
    return {node: one.get(node, frozenset()) | other.get(node, frozenset()) for node in {*one, *other}}


def _write(path: Path, keys: Keys) -> None:
    lines = (f"{node}={key_text(key)}\n" for node, some in sorted(keys.items()) for key in sorted(some))
    replace_file(path, "".join(lines).encode())


def _read(path: Path) -> dict[str, frozenset[bytes]]:
    """Read the keys of a file. A line that is no key is skipped: that node is asked again, and nothing is believed for it meanwhile."""
    found: dict[str, frozenset[bytes]] = {}
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return found
    for line in lines:
        node, _, text = line.partition("=")
        try:
            found[node] = found.get(node, frozenset()) | {key_from_text(text)}
        except Misuse as problem:
            _log.warning("a line of %s is passed over, for it does not read: %s", path, problem)
    return found
