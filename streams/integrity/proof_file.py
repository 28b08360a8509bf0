"""The proof file: one JSON object with exactly one valid encoding, so that a file with any byte altered is another file.

Sorted keys, no spaces, one line. Bytes are base64url. A float that JSON can not express is `{"bits": "<its 16 hexadecimal digits>"}`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from streams.integrity.base64_text import from_text, to_text
from streams.integrity.canonical_bytes import digest
from streams.integrity.merkle_tree import Leaf, Path
from streams.model.errors import Corrupt
from streams.model.records import Value, body_text

FORMAT = 3
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Cell = bool | Int64 | float | str | dict[str, str]


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class PathForm(_Form, frozen=True):
    """Path of consecutive leaves to the root: the number of the first leaf, and the sibling digests, from the bottom."""

    index: Int64
    beside: list[str]

    @classmethod
    def of(cls, path: Path) -> PathForm:
        """Return the path in its written form."""
        return cls(path.index, [to_text(sibling) for sibling in path.siblings])

    def path(self, leaves: int) -> Path:
        """Return the path in a tree of `leaves` leaves. Raises ValueError."""
        return Path(self.index, leaves, tuple(from_text(sibling, "what is next to its path") for sibling in self.beside))


class LeafForm(_Form, frozen=True):
    """The leaf of another topic, without the topic's name and rows."""

    key: str
    rows: str

    @classmethod
    def of(cls, leaf: Leaf) -> LeafForm:
        """Return the leaf in its written form."""
        return cls(to_text(leaf.key), to_text(leaf.rows))

    def leaf(self) -> Leaf:
        """Return the leaf. Raises ValueError."""
        return Leaf(from_text(self.key, "the key of a topic next to it"), from_text(self.rows, "the rows of a topic next to it"))


class ShownRow(_Form, frozen=True, tag="shown"):
    """A record with all its columns that are not null."""

    row: dict[str, Cell]


class WithheldRow(_Form, frozen=True, tag="withheld"):
    """A record of the topic outside the span of time: its order time and its digest."""

    order_at_ms: Int64
    digest: str


class Present(_Form, frozen=True, tag="present"):
    """A run with records of the topic: all of them, by offset."""

    run: Int64
    root: str
    leaves: Int64
    path: PathForm
    rows: list[ShownRow | WithheldRow]


class Absent(_Form, frozen=True, tag="absent"):
    """A run without a record of the topic: the leaves between which the topic's leaf would be, and the one path of both."""

    run: Int64
    root: str
    leaves: Int64
    path: PathForm
    left: LeafForm | None
    right: LeafForm | None


class NotShown(_Form, frozen=True, tag="not_shown"):
    """A run whose records the copy that made the proof did not have whole: only its root, and the copy's claim why."""

    run: Int64
    root: str
    why: str


class Section(_Form, frozen=True):
    """Records of one origin in one stream: every run from that of `start`'s end (None: from the first) to that of `end`'s end.

    `start` and `end` are bodies of statements.
    """

    stream: str
    origin: str
    start: dict[str, Any] | None
    end: dict[str, Any]
    runs: list[Present | Absent | NotShown]


class ProofFile(_Form, frozen=True):
    """A claim on one topic and one span of time (order time, UTC ms, the end not included), and its proof."""

    landfall_proof: Int64
    topic: str
    since_at_ms: Int64
    until_at_ms: Int64
    interval_ms: Int64 | None
    sections: list[Section]
    completeness: dict[str, Any]
    unsigned: list[str]
    """Streams and origins that have records of the topic and span and never signed them, as `<stream> of <origin>`: only the claim of the
    file's maker."""
    digest: str = ""

    def sealed(self) -> ProofFile:
        """Return the same file with its digest."""
        return msgspec.structs.replace(self, digest=to_text(self._digest()))

    def intact(self) -> bool:
        """Return whether the digest is that of the rest. A forger of the file can also write another digest: only signatures count."""
        return self.digest == to_text(self._digest())

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return body_text(msgspec.to_builtins(self)).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> ProofFile:
        """Return the file that `to_bytes` wrote. Raises Corrupt for anything else."""
        try:
            proof = msgspec.json.decode(data, type=cls)
            again = proof.to_bytes()
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            raise Corrupt(f"this is no proof file: {problem}", code="proof_unreadable") from problem
        if again != data:
            at = next((at for at, (one, other) in enumerate(zip(again, data, strict=False)) if one != other), min(len(again), len(data)))
            raise Corrupt(f"this is not how a proof file is written, from byte {at} on", code="proof_unreadable")
        if proof.landfall_proof != FORMAT:
            raise Corrupt(
                f"proof files of format {proof.landfall_proof} are not known here",
                hint="use the landfall that made it",
                code="proof_version",
            )
        return proof

    def _digest(self) -> bytes:
        return digest(msgspec.structs.replace(self, digest="").to_bytes())


def to_cells(row: Mapping[str, Value | None]) -> dict[str, Cell]:
    """Return a record's columns in their written form."""
    return {name: _cell(value) for name, value in row.items() if value is not None}


def from_cells(row: Mapping[str, Cell]) -> dict[str, Value]:
    """Return the columns that `to_cells` wrote, exact to the bit. Raises ValueError."""
    return {name: _value(cell) for name, cell in row.items()}


def _cell(value: Value) -> Cell:
    if isinstance(value, float) and not math.isfinite(value):
        return {"bits": struct.pack(">d", value).hex()}
    return value


def _value(cell: Cell) -> Value:
    if not isinstance(cell, dict):
        if isinstance(cell, int) and not -(1 << 63) <= cell < 1 << 63:
            raise ValueError(f"{cell} is no 64-bit number")
        return cell
    if set(cell) != {"bits"} or len(cell["bits"]) != 16:
        raise ValueError(f"{cell} is no value")
    value: float = struct.unpack(">d", bytes.fromhex(cell["bits"]))[0]
    if _cell(value) != cell:
        raise ValueError(f"{cell} is not in its one form")
    return value
