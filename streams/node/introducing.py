"""The keys that nodes were introduced with: the first that a node shows in its own session is its own until a person says otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from streams.errors import LandfallError, Misuse
from streams.policy import Peer, companions
from streams.proof.keys import key_from_text, key_text
from streams.proof.trust import INTRODUCED, Trust
from streams.replacing import replace_file

FILE_NAME = "known.keys"
"""Beside the log, a line `NODE=ed25519:…` for each key: as `--key` of the commands reads it."""
OTHER_KEY = "a node shows another key than the one that is known as its own"
_HINT = "if that is right, pin it in the registry (node/{0}), or give it in node.known.keys"
_log = logging.getLogger("landfall.node")


class Introductions:
    """Of a node whose key nobody gave or pinned: the first key it showed, and in whose hands what it wrote is believed before that. Call
    `heard` from the node's event loop; all else from any thread.
    """

    def __init__(self, folder: Path, peers: Mapping[str, Peer], report: Callable[..., None]) -> None:
        """`folder`: the node's. `peers`: all nodes that are known, this one among them. What was kept and does not read is told of."""
        self._file, self.peers, self._report = folder / FILE_NAME, peers, report
        self._trust = introduced_to(folder)
        self._told: set[tuple[str, bytes]] = set()

    def trust(self) -> Trust:
        """The keys that were kept; the same object until there are others."""
        return self._trust

    def heard(self, node: str, keys: Sequence[bytes], known: Callable[[str], Trust]) -> None:
        """In its own session `node` shows these keys, the first of which it signs with now. The first it ever showed are kept, durably;
        another is told of, once, where it is not `known` otherwise.
        """
        if not keys:
            return
        if node not in self._trust.keys:
            self._trust = Trust({**self._trust.keys, node: frozenset(keys)}, INTRODUCED)
            self._keep()
            _log.info("%s shows its key, by which it is known from now on: %s", node, key_text(keys[0]))
        elif keys[0] not in self._trust.keys[node] and (node, keys[0]) not in self._told:
            with suppress(LandfallError):  # what the registry says can not be read: its statements are held against it all the same
                self._tell_other(node, keys[0], known(node).keys.get(node, frozenset()))

    def vouches(self, bringer: str | None, node: str) -> bool:
        """Whether what `bringer` brings in the name of `node`, whose key is not known, is taken for its own: from itself, and from who may
        say the same anyway, a node of its own ship or port, and headquarters. None: what this machine itself brings.
        """
        one, other = self.peers.get(bringer or ""), self.peers.get(node)
        own = bringer in (None, node) or (one is not None and one.role == "hq")
        return own or (one is not None and other is not None and companions(one, other))

    def tell_unknown(self, known: Callable[[str], Trust]) -> None:
        """Tell the log of whom no key is known yet, at the start."""
        if unknown := sorted(node for node in self.peers if not known(node).keys):
            _log.warning(
                "no key is known of %s: what others than headquarters bring in such a name, and is acted upon, is not believed until that "
                "node has once been in session here, which shows its key, or somebody gives or pins it (docs/proof.md)",
                ", ".join(unknown),
            )

    def _tell_other(self, node: str, shown: bytes, known: frozenset[bytes]) -> None:
        if shown not in known:
            self._told.add((node, shown))
            details = {"peer": node, "shown": key_text(shown), "known": sorted(map(key_text, known)), "hint": _HINT.format(node)}
            self._report(OTHER_KEY, "what it signs with that is not believed", **details)

    def _keep(self) -> None:
        lines = (f"{node}={key_text(key)}\n" for node, keys in sorted(self._trust.keys.items()) for key in sorted(keys))
        try:
            replace_file(self._file, "".join(lines).encode())
        except OSError as problem:
            _log.warning("%s can not be written: %s; whom it would name is asked again after a start", self._file, problem)


def introduced_to(folder: Path) -> Trust:
    """The keys that were shown to the node of this folder in sessions; none before the first."""
    return Trust(_read(folder / FILE_NAME), INTRODUCED)


def _read(path: Path) -> dict[str, frozenset[bytes]]:
    """A line that is no key is passed over: that node is asked again, and nothing is believed for it meanwhile."""
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
