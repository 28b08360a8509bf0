"""Signer of a node's own log. Records that others act upon are signed in the commit that appends them, all others once they are due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

import pyarrow as pa

from streams.config.companion_streams import DERIVED, HEADS, KEPT, WAITING
from streams.integrity.copy_reader import Copy, UnreadRows
from streams.integrity.hash_chain import Chain, entries
from streams.integrity.merkle_tree import Entry
from streams.integrity.signing_keys import SigningKey
from streams.integrity.statements import last_statement, state
from streams.log import Append, Log
from streams.memory_release import large_work
from streams.model.block import Codec
from streams.model.clock import Clock
from streams.model.errors import LandfallError, Unreadable
from streams.model.identifiers import Origin
from streams.model.records import OFFSET

SIGNED_AT_ONCE = ("alerts", "events", "registry", "aboard/*", "terms/*", "reports", "homes")
"""Patterns of the streams that others act upon. They are signed in the commit that appends them. Of a node whose key is known, they are
accepted only with that signature."""
NEVER_SIGNED = ("metrics", "exceptions", "consumers", WAITING)
"""Streams with reports of a node on itself, for its operators: no claim is based on them."""
ROOTS_MAX = 512
"""Maximum number of roots in one statement: a long log is signed for the first time in several statements."""
LARGE_ROWS_MIN = 1 << 16
"""Number of rows from which signing is large work: it waits for other large work, and its memory is released afterwards."""


@dataclass(slots=True)
class _Followed:
    """A chain, and the offset up to which it is signed."""

    chain: Chain
    signed: int


_FollowedBy = dict[tuple[str, Origin], _Followed]


class Signer:
    """Signer that follows the chains of what its node appends. `witness` is for `Log.witnessed_by`, the other methods for any one thread.

    The state of the chains in memory can be read again from the log: after a crash, or a commit that failed.
    """

    def __init__(self, log: Log, codec: Codec, key: SigningKey, clock: Clock, report: Callable[..., None]) -> None:
        """Start without any chain in memory. `report`: as that of a node; called when something can not be signed."""
        self._log, self._copy, self._key, self._clock, self._report = log, Copy(log, codec), key, clock, report
        # Two, and no lock: the log's own guards the first, and who asks what is due may wait for that lock.
        self._at_once: _FollowedBy = {}
        self._later: _FollowedBy = {}
        self._unreadable: set[str] = set()

    def witness(self, stream: str, origin: Origin, batches: Sequence[pa.RecordBatch], ends: Callable[[str], int | None]) -> Append | None:
        """Return what is signed of these rows in their own commit; None for streams that are signed later, and where the chain can not be
        read."""
        if not signed_at_once(stream):
            return None
        at = ends(stream + HEADS)
        try:
            followed = self._up_to(stream, origin, batches[0].column(OFFSET)[0].as_py())
            for rows in batches:
                followed.chain.follow(rows)
            return self._statement(followed, [entry for rows in batches for entry in entries(rows)], at)
        except LandfallError as problem:
            self._at_once.pop((stream, origin), None)
            details = {"stream": stream, "problem": str(problem)}
            self._report("a commit could not be signed", "it is signed with the next one", code="signing_failed", **details)
            return None

    def due(self) -> list[Append]:
        """Return the appends that sign everything this node appended until now. The caller appends them, or calls `forget`.

        For streams that are signed at once, these are the commits that could not be signed then. A stream whose rows the disk can not read
        waits alone and is reported once. Raises what else reading the log raises.
        """
        found: list[Append] = []
        for stream in filter(is_signed, self._log.streams()):
            try:
                found += self._due(stream)
            except Unreadable as problem:
                self._later.pop((stream, self._log.origin), None)
                if stream not in self._unreadable:
                    self._report(
                        "what is due could not be signed", "tried again", code="signing_failed", stream=stream, problem=str(problem)
                    )
                self._unreadable.add(stream)
            else:
                self._unreadable.discard(stream)
        return found

    def forget(self) -> None:
        """Forget the chains, because what `due` returned could not be appended: the log is read again."""
        self._later.clear()

    def _due(self, stream: str) -> list[Append]:
        origin = self._log.origin
        end = self._log.position(stream)[origin]
        if signed_at_once(stream):
            return self._left_open(stream, origin, end)
        followed = self._later.get((stream, origin)) or self._begun(self._later, stream, origin)
        with large_work() if end - followed.chain.end >= LARGE_ROWS_MIN else nullcontext():
            return self._up_to_now(followed, end)

    def _up_to_now(self, followed: _Followed, end: int) -> list[Append]:
        stream, origin = followed.chain.stream, followed.chain.origin
        found, at = list[Append](), self._log.own_end(stream + HEADS, origin)  # nobody else appends there
        for part in self._copy.rows(stream, origin, followed.chain.end, end):
            _take(followed.chain, part)
            del part  # before the next is read
            if len(followed.chain.roots) >= ROOTS_MAX:
                found.append(self._statement(followed, at=at + len(found)))
        if followed.signed < followed.chain.end:
            found.append(self._statement(followed, at=at + len(found)))
        return found

    def _left_open(self, stream: str, origin: Origin, end: int) -> list[Append]:
        last = last_statement(self._log, stream, origin)
        if last is not None and last.end >= end:
            return []
        followed = self._begun(self._later, stream, origin)
        open_from = followed.signed
        found: list[Append] = []
        for part in self._copy.rows(stream, origin, followed.chain.end, end):
            _take(followed.chain, part)
            if followed.chain.end > open_from:
                rows = part.slice(max(0, part.num_rows - (followed.chain.end - open_from))) if isinstance(part, pa.RecordBatch) else None
                found.append(self._statement(followed, [] if rows is None else entries(rows)))
                open_from = followed.chain.end
        del self._later[stream, origin]
        return found

    def _statement(self, followed: _Followed, commit: Sequence[Entry] = (), at: int | None = None) -> Append:
        append = state(followed.chain, self._clock.now_ms(), self._key, commit, at).append()
        followed.chain.clear_stored()
        followed.signed = followed.chain.end
        return append

    def _up_to(self, stream: str, origin: Origin, end: int) -> _Followed:
        """Return the chain up to `end`. A chain with another end is from a commit that failed."""
        followed = self._at_once.get((stream, origin))
        if followed is None or followed.chain.end != end:
            followed = self._begun(self._at_once, stream, origin)
            for part in self._copy.rows(stream, origin, followed.chain.end, end):
                _take(followed.chain, part)
        return followed

    def _begun(self, followed: _FollowedBy, stream: str, origin: Origin) -> _Followed:
        """Return the chain as the last statement in the log leaves it."""
        for key in [key for key in followed if key[1] != origin]:
            del followed[key]
        last = last_statement(self._log, stream, origin)
        chain = Chain(stream, origin) if last is None else Chain(stream, origin, last.runs, last.head, last.newest_at_ms)
        begun = followed[stream, origin] = _Followed(chain, 0 if last is None else last.end)
        return begun


def is_signed(stream: str) -> bool:
    """Return whether origins sign what they append to `stream`, at once or later: not their reports to operators, nor signatures
    themselves.

    What thinning kept of a stream is signed if the stream is.
    """
    return stream.removesuffix(KEPT) not in NEVER_SIGNED and not stream.endswith(HEADS)


@lru_cache(maxsize=65_536)
def signed_at_once(stream: str) -> bool:
    """Return whether others act upon the records of `stream`: SIGNED_AT_ONCE."""
    return any(fnmatchcase(stream, pattern) for pattern in SIGNED_AT_ONCE) and not stream.endswith(DERIVED)


def _take(chain: Chain, part: pa.RecordBatch | UnreadRows) -> None:
    if isinstance(part, UnreadRows):
        chain.skip(part.end)
    else:
        chain.follow(part)
