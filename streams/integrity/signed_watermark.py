"""Signed watermark of each origin in a copy: what lies past its last accepted statement is not proven yet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from streams.config.companion_streams import HEADS
from streams.integrity.copy_reader import Copy
from streams.integrity.key_trust import Trust
from streams.integrity.signer import is_signed
from streams.integrity.statements import newest_statements
from streams.model.errors import LandfallError
from streams.model.identifiers import Origin

TRIED_MAX = 1_024
"""Maximum number of statements of one origin, the newest first, that are tried until one is accepted."""


@dataclass(frozen=True, slots=True)
class Until:
    """Records before offset `end` are signed. `at_ms`: when their origin signed last (fleet time, UTC ms), None when it never has.

    Whether the records are what was signed is checked by the node as they come, and by `landfall log verify` at any time.
    """

    end: int = 0
    at_ms: int | None = None


class SignedUntil:
    """Watermarks per (stream, origin), looked up again when more statements are here. Safe from any thread."""

    def __init__(self, copy: Copy, trust: Callable[[str], Trust]) -> None:
        """Start without cached watermarks. `trust`: returns the known keys of a node, if any. Without known keys the node's own claim
        counts, as in `Trust`."""
        self._copy, self._trust = copy, trust
        self._found: dict[tuple[str, Origin], tuple[int, Trust, Until]] = {}
        self._lock = threading.Lock()

    def of(self, stream: str, origin: Origin) -> Until | None:
        """Return the watermark; None for a stream that is never signed. Raises what reading the log raises."""
        if not is_signed(stream):
            return None
        key, end, trust = (stream, origin), self._copy.log.position(stream + HEADS)[origin], self._trust(origin.node)
        with self._lock:
            known = self._found.get(key)
        if known is not None and known[:2] == (end, trust):
            return known[2]
        found, newest = self._look(stream, origin, trust)
        if newest:  # else a true one may yet come to stand where one is that is not believed
            with self._lock:
                self._found[key] = (end, trust, found)
        return found

    def end_where_known(self, key: tuple[str, Origin]) -> int | None:
        """Return the last offset that its origin has signed, plus one; None for a stream that is never signed, and where no key of that
        origin is known. 0 while the log can not be read."""
        stream, origin = key
        try:
            until = self.of(stream, origin) if self._trust(origin.node).keys else None
        except LandfallError:
            return 0
        return None if until is None else until.end

    def _look(self, stream: str, origin: Origin, trust: Trust) -> tuple[Until, bool]:
        """Return the watermark, and whether it is from the newest statement."""
        for tried, one in enumerate(islice(newest_statements(self._copy, stream, origin), TRIED_MAX)):
            if trust.problem(one) is None:
                return Until(one.end, one.at_ms), tried == 0
        return Until(), False
