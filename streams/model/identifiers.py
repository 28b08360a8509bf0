"""Identifiers of the log: origin, coordinates and Position, and their text forms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from streams.model.errors import InvalidValue

NODE_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
STREAM_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(?:[./][A-Za-z0-9][A-Za-z0-9-]{0,62}){0,3}")
GENERATION_PATTERN = re.compile(r"[0-9a-f]{1,16}")
TOPIC_CHARS_MAX = 200
MARKS_MAX = 30
"""Maximum number of accents in a row that are composed, as in Unicode's Stream-Safe Text Format (UAX #15)."""
OFFSETS_MAX = (1 << 63) - 1
"""Upper bound of all offsets, exclusive, at every origin."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """Place where a record was first appended: a node, and the generation of that node's log.

    `generation` is a 63-bit number: the opening time in ms, then random bits. Later generations of one node have larger numbers, and two
    copies restored from one backup never open the same generation.
    """

    node: str
    generation: int

    def __post_init__(self) -> None:
        if not NODE_PATTERN.fullmatch(self.node):
            raise InvalidValue(
                f"a node's name is small letters, digits and dashes, at most 63, not {self.node[:100]!r}", code="node_name_invalid"
            )
        if not 0 < self.generation < 1 << 63:
            raise InvalidValue(f"a generation is a positive 63-bit number, not {self.generation}", code="origin_invalid")

    def __str__(self) -> str:
        return f"{self.node}@{self.generation:x}"

    @classmethod
    def parse(cls, text: str) -> Origin:
        """Return the origin written as `node@generation` (hexadecimal). Raises ValueError for anything else."""
        node, _, generation = text.partition("@")
        if not GENERATION_PATTERN.fullmatch(generation):
            raise InvalidValue(
                f"an origin is written like 'tokyo@18c2f', a node and its generation, not {text[:100]!r}", code="origin_invalid"
            )
        return cls(node, int(generation, 16))


@dataclass(frozen=True, slots=True, order=True)
class Coordinates:
    """Permanent address of one record, the same on every copy: stream, origin, offset."""

    stream: str
    origin: Origin
    offset: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.origin}:{self.offset}"


class Position(Mapping[Origin, int]):
    """Map from each origin to its next offset needed: every offset below it is held, gone or below the floor.

    Immutable. An origin that is not in the map stands at 0. Two Positions are equal when every origin stands at the same offset.
    """

    __slots__ = ("_next",)

    def __init__(self, offsets: Mapping[Origin, int] | None = None) -> None:
        for origin, offset in (offsets or {}).items():
            if not 0 <= offset <= OFFSETS_MAX:
                raise InvalidValue(f"a position's offset is 0 to 2^63 - 1, not {str(offset)[:30]} for {origin}", code="position_invalid")
        self._next = {origin: offset for origin, offset in sorted((offsets or {}).items()) if offset}

    def __getitem__(self, origin: Origin) -> int:
        return self._next.get(origin, 0)

    def __contains__(self, origin: object) -> bool:
        return origin in self._next

    def __iter__(self) -> Iterator[Origin]:
        return iter(self._next)

    def __len__(self) -> int:
        return len(self._next)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._next == other._next

    def __hash__(self) -> int:
        return hash(tuple(self._next.items()))

    def __repr__(self) -> str:
        return "Position(" + ", ".join(f"{origin}: {offset}" for origin, offset in self._next.items()) + ")"

    def advanced(self, origin: Origin, offset: int) -> Position:
        """Return this Position with `origin` at `offset`. An origin never moves back."""
        return Position({**self._next, origin: max(offset, self[origin])})

    def merged(self, other: Position) -> Position:
        """Return the Position with the larger of the two offsets at each origin."""
        return Position({origin: max(self[origin], other[origin]) for origin in {*self, *other}})

    def reaches(self, other: Position) -> bool:
        """Return whether this Position is at or beyond `other` at every origin."""
        return all(self[origin] >= offset for origin, offset in other.items())

    def to_json(self) -> dict[str, int]:
        """Return `{"node@generation": offset}`, in the order of the origins."""
        return {str(origin): offset for origin, offset in self._next.items()}

    @classmethod
    def from_json(cls, offsets: Mapping[str, int]) -> Position:
        """Return the Position that `to_json` wrote. Raises ValueError for anything else."""
        return cls({Origin.parse(origin): offset for origin, offset in offsets.items()})


def composed(text: str) -> str:
    """Return `text` with each accented letter as one character (Unicode NFC), as most keyboards write it. A text with more than MARKS_MAX
    accents in a row, which no language has, is returned unchanged: the time to compose grows with the square of their number."""
    runs = groupby(text, key=lambda character: unicodedata.combining(character) > 0)
    if text.isascii() or any(is_mark and len(list(run)) > MARKS_MAX for is_mark, run in runs):
        return text
    return unicodedata.normalize("NFC", text)


def composed_value(value: Any, nesting_left: int) -> Any:
    """Return the JSON value `value` with all its texts composed. Values nested deeper than `nesting_left` are returned unchanged."""
    match value:
        case str():
            return composed(value)
        case list() if nesting_left:
            return [composed_value(one, nesting_left - 1) for one in value]
        case dict() if nesting_left:
            return {key: composed_value(one, nesting_left - 1) for key, one in value.items()}
    return value


def folded(text: str) -> str:
    """Return `text` as a search compares it: composed, without surrounding blanks, without a difference between small and capital letters
    of any alphabet."""
    return composed(composed(text.strip()).casefold())


def check_stream(name: str) -> str:
    """Return `name` when it is a stream's name: `containers`, `customers/duckworks`, `aboard/9321483`. Raises ValueError otherwise."""
    if not STREAM_PATTERN.fullmatch(name):
        raise InvalidValue(f"a stream's name is like 'containers' or 'customers/duckworks', not {name[:100]!r}", code="stream_invalid")
    return name


def check_topic(topic: str) -> str:
    """Return `topic` when it is 1 to 200 printable characters. Raises ValueError otherwise."""
    if not 0 < len(topic) <= TOPIC_CHARS_MAX or not topic.isprintable():
        raise InvalidValue(
            f"a topic is 1 to {TOPIC_CHARS_MAX} printable characters, not {topic[: TOPIC_CHARS_MAX + 1]!r}", code="topic_invalid"
        )
    return topic
