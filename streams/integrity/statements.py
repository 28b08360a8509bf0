"""Statements that an origin signs: the head of its chain, as a record of `<stream>.heads`.

The signature is over "landfall head 1", the stream, the origin (a line each) and the body's canonical JSON without `signature`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta

from streams.config.companion_streams import HEADS
from streams.integrity.altered_records import SUMS_BYTES
from streams.integrity.base64_text import from_text, to_text
from streams.integrity.canonical_bytes import DIGEST_BYTES
from streams.integrity.copy_reader import Copy, UnreadRows
from streams.integrity.hash_chain import RUN, Chain
from streams.integrity.merkle_tree import Entry, Tree
from streams.integrity.signing_keys import PUBLIC_BYTES, SIGNATURE_BYTES, SigningKey, key_text, signed_by
from streams.log import Append, LogReader
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from streams.model.ranges import Range
from streams.model.records import BODY, OFFSET, Record, body_text, to_batch

_TITLE = "landfall head 1"
STATEMENTS_FIRST_READ, STATEMENTS_A_READ = 4, 256
"""Number of statements in the first read and the maximum of a later one, the newest first: new records are covered by new statements."""
Text = Annotated[str, Meta(max_length=100)]
Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at_ms: Natural
    end: Natural
    head: Text
    key: Text
    newest_at_ms: Natural
    roots: list[Text]
    signature: Text
    tail: Text | None
    sums: list[Text] = []
    since: Natural = 0
    parts: list[Text] = []
    at: Natural | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """Signed head of a chain: `head` and `tail` (the root of the open run; None: empty, or not known) cover all rows before offset `end` of
    (stream, origin).

    `roots`: roots of the last runs closed before `end` that no earlier statement gave. `newest_at_ms`: the largest order time of these
    rows. `at_ms`: the origin's own time (fleet time, UTC ms) when it signed. `sums` (`streams.integrity.altered_records`): sums of each of
    `roots`, then of the open run if it has a root; or none. `parts`: for a commit signed at once, the roots of its rows alone, so that they
    are proven without any row before them; or none. They cover `since .. end - 1` in pieces of RUN offsets from `since` on. `at`: the
    offset of `<stream>.heads` for which it was signed, so that nobody can bring it in the place of another; None where its signer could not
    know.
    """

    stream: str
    origin: Origin
    end: int
    head: bytes
    tail: bytes | None
    roots: tuple[bytes, ...]
    newest_at_ms: int
    at_ms: int
    key: bytes
    signature: bytes = b""
    sums: tuple[bytes, ...] = ()
    since: int = 0
    parts: tuple[bytes, ...] = ()
    at: int | None = None

    @property
    def runs(self) -> int:
        """Number of runs that are closed before `end`."""
        return self.end // RUN

    @property
    def since_run(self) -> int:
        """Number of the run of the first of `roots`."""
        return self.runs - len(self.roots)

    def body(self) -> dict[str, Any]:
        """Return the statement as a record's body."""
        sums = {"sums": [to_text(one) for one in self.sums]} if self.sums else {}
        parts = {"parts": [to_text(one) for one in self.parts], "since": self.since} if self.parts else {}
        at = {} if self.at is None else {"at": self.at}
        return {
            **sums,
            **parts,
            **at,
            "at_ms": self.at_ms,
            "end": self.end,
            "head": to_text(self.head),
            "key": to_text(self.key),
            "newest_at_ms": self.newest_at_ms,
            "roots": [to_text(root) for root in self.roots],
            "signature": to_text(self.signature),
            "tail": None if self.tail is None else to_text(self.tail),
        }

    @classmethod
    def from_body(cls, stream: str, origin: Origin, body: str | bytes) -> Statement:
        """Return the statement in a record's body. Raises Corrupt for anything else. The signature is not checked."""
        try:
            read = msgspec.json.decode(body, type=_Body)
            tail = None if read.tail is None else _sized(read.tail, DIGEST_BYTES, "its tail")
            roots = tuple(_sized(root, DIGEST_BYTES, "one of its roots") for root in read.roots)
            key, signature = _sized(read.key, PUBLIC_BYTES, "its key"), _sized(read.signature, SIGNATURE_BYTES, "its signature")
            head = _sized(read.head, DIGEST_BYTES, "its head")
            sums = tuple(_sized(one, SUMS_BYTES, "one of its sums") for one in read.sums)
            parts = tuple(_sized(one, DIGEST_BYTES, "one of its parts") for one in read.parts)
            said = (read.end, head, tail, roots, read.newest_at_ms, read.at_ms, key, signature, sums, read.since, parts, read.at)
            one = cls(stream, origin, *said)
        except (msgspec.MsgspecError, ValueError) as problem:
            raise Corrupt(f"what {origin} signed of {stream} does not read: {problem}", code="statement_corrupt") from problem
        if one.since_run < 0:
            raise Corrupt(f"a statement up to offset {one.end} gives {len(roots)} roots of {one.runs} runs", code="statement_corrupt")
        if len(sums) not in (0, len(roots) + (tail is not None)):
            raise Corrupt(f"a statement gives {len(sums)} lists of sums of {len(roots)} roots", code="statement_corrupt")
        if (one.since and not parts) or (parts and len(parts) != len(range(one.since, one.end, RUN))):
            raise Corrupt(f"a statement gives {len(parts)} roots of offsets {one.since} to {one.end - 1}", code="statement_corrupt")
        return one

    def pieces(self) -> list[tuple[int, int, bytes]]:
        """Return the first offset, end and root of each of `parts`, and of each run that begins within them. The runs serve copies that
        have no rows before them: copies drop whole runs."""
        if not self.parts:
            return []
        firsts = range(self.since, self.end, RUN)
        parts = [(first, min(first + RUN, self.end), root) for first, root in zip(firsts, self.parts, strict=True)]
        runs = enumerate((*self.roots, self.tail), self.since_run)
        return parts + [(run * RUN, min((run + 1) * RUN, self.end), root) for run, root in runs if root and run * RUN > self.since]

    def signed(self) -> bool:
        """Return whether the holder of `key` signed this. The owner of the key is not checked."""
        return signed_by(self.key, self._message(), self.signature)

    def by(self, key: SigningKey) -> Statement:
        """Return the same statement, signed with `key`."""
        unsigned = replace(self, key=key.public)
        return replace(unsigned, signature=key.sign(unsigned._message()))

    def append(self) -> Append:
        """Return the record that publishes the statement."""
        record = Record(self.stream, device=self.origin.node, device_at_ms=self.at_ms, body=self.body())
        return Append(self.stream + HEADS, to_batch([record]))

    def __str__(self) -> str:
        return f"{self.stream}:{self.origin} up to offset {self.end - 1}, signed with {key_text(self.key)}"

    def _message(self) -> bytes:
        body = {name: value for name, value in self.body().items() if name != "signature"}
        return "\n".join((_TITLE, self.stream, str(self.origin), body_text(body))).encode()


def state(chain: Chain, at_ms: int, key: SigningKey, commit: Sequence[Entry] = (), at: int | None = None) -> Statement:
    """Return the origin's signed statement on the chain as far as it was followed. `commit`: its last rows, to be proven by themselves.
    `at`: the offset that the statement will have."""
    said = (chain.end, chain.head, chain.tail_root(), tuple(chain.roots), chain.newest_at_ms)
    parts = tuple(Tree(commit[at : at + RUN]).root() for at in range(0, len(commit), RUN))
    since = chain.end - len(commit) if commit else 0
    return Statement(chain.stream, chain.origin, *said, at_ms, key.public, sums=chain.all_sums(), since=since, parts=parts, at=at).by(key)


Said = tuple[int, Statement | Corrupt]
"""Entry at an offset of `<stream>.heads`: a statement, or why it does not read."""


def statements(copy: Copy, stream: str, origin: Origin, known: Iterable[Range] = ()) -> Iterator[Said]:
    """Yield all statements of (stream, origin) that this copy holds, in the order signed.

    `known`: offsets of `<stream>.heads` to skip. Blocks of an encoding that is not known here are skipped too.
    """
    ledger = copy.log.ledger(stream + HEADS).get(origin)
    for first, end in ledger.held.without(known) if ledger else ():
        yield from statements_at(copy, stream, origin, first, end)


def statements_at(copy: Copy, stream: str, origin: Origin, first: int, end: int) -> Iterator[Said]:
    """Yield the statements at offsets `first .. end - 1` of `<stream>.heads`."""
    for part in copy.rows(stream + HEADS, origin, first, end):
        if not isinstance(part, UnreadRows):
            yield from statements_in(part, stream, origin)


def statements_in(rows: pa.RecordBatch, stream: str, origin: Origin) -> Iterator[Said]:
    """Yield the entries in these rows of `<stream>.heads`."""
    for offset, body in zip(rows.column(OFFSET).to_pylist(), rows.column(BODY).to_pylist(), strict=True):
        try:
            one = Statement.from_body(stream, origin, body or "")
        except Corrupt as problem:
            yield offset, problem
        else:
            misplaced = one.at not in (None, offset)
            yield (
                offset,
                Corrupt(f"{one} stands at {offset}, and was signed for {one.at}", code="statement_misplaced") if misplaced else one,
            )


def newest_statements(copy: Copy, stream: str, origin: Origin) -> Iterator[Statement]:
    """Yield the readable statements that this copy holds, the newest first. The first read is small: mostly only the last statements are
    needed."""
    ledger, at_once = copy.log.ledger(stream + HEADS).get(origin), STATEMENTS_FIRST_READ
    for first, end in reversed(list(ledger.held)) if ledger else ():
        while first < end:
            low = max(first, end - at_once)
            yield from (one for _, one in reversed(list(statements_at(copy, stream, origin, low, end))) if isinstance(one, Statement))
            end, at_once = low, min(2 * at_once, STATEMENTS_A_READ)


def last_statement(log: LogReader, stream: str, origin: Origin) -> Statement | None:
    """Return the last statement that this copy holds; None when it holds none. Raises Corrupt when the statement does not read."""
    for batch in log.latest(stream + HEADS, stream, [origin.node]):
        if batch.origin == origin:
            return Statement.from_body(stream, origin, batch.records.column(BODY)[0].as_py() or "")
    return None


def _sized(text: str, size: int, what: str) -> bytes:
    data = from_text(text, what)
    if len(data) != size:
        raise ValueError(f"{what} has {len(data)} bytes, not {size}")
    return data
