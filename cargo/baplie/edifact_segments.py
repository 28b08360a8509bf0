"""EDIFACT's syntax (ISO 9735): a file's bytes to numbered segments, and segments to bytes. Their meaning is not known here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydifact.control.characters import Characters
from pydifact.exceptions import EDISyntaxError
from pydifact.parser import Parser
from pydifact.segments import Segment as PydifactSegment
from pydifact.serializer import Serializer
from pydifact.tokenizer import Tokenizer

from cargo.baplie.bay_plan import PlanProblem

TEXT_CHARS_MAX = 60
CHARSET = "latin-1"
"""Character set of written files: set C of EDIFACT, ISO 8859-1."""
SEPARATORS_MAX = 1_000
"""Maximum number of elements and components in a segment. The largest that a directory allows has some dozen."""
TAG_CHARS = 3
UNTAGGED_MAX = 100
"""Maximum number of segments in a file whose tag is not TAG_CHARS letters or digits."""
SEGMENTS_MAX = 500_000
"""Maximum number of segments in a file: 20 for each of 24,000 boxes."""
_USUAL = "UNA:+.? '"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_PADDING = " \t\x00\x1a"
"""Characters that programs leave around a file: blanks, NULs, and the old end-of-text mark (Ctrl-Z)."""
_ENVELOPE = ("UNA", "UNB", "UNG", "UNH")
_NO_RELEASE = "\x00"
_SAYS_CHARSET_C = re.compile(rb"\s*(?:UNA.{6}\s*)?UNB.UNOC", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment: its number in the file (from 1, UNA not counted), its tag, and its elements with their components."""

    number: int
    tag: str
    elements: tuple[tuple[str, ...], ...]

    def at(self, element: int, component: int = 0) -> str:
        """Return that component without blanks around it, both counted from 0 after the tag; empty when it is not there.

        A character that does not print is `.`, as it is written."""
        parts = self.elements[element] if element < len(self.elements) else ()
        return _printed(parts[component].strip()) if component < len(parts) else ""

    @property
    def text(self) -> str:
        """Beginning of the segment, as a person finds it in the file."""
        whole = "+".join([self.tag, *(":".join(parts) for parts in self.elements)])
        shown = whole if len(whole) <= TEXT_CHARS_MAX else f"{whole[:TEXT_CHARS_MAX]}…"
        return _printed(shown)

    def wrong(self, problem: str, hint: str) -> PlanProblem:
        """Return a problem at this segment."""
        return PlanProblem(self.number, self.text, problem, hint)


def read_segments(content: bytes) -> tuple[list[Segment], list[PlanProblem]]:
    """Return all segments of a file, and its syntax problems. Never raises for what it contains.

    ISO 8859-1 where UNB has UNOC, else UTF-8 or, where that fails, ISO 8859-1. Line breaks anywhere mean nothing unless UNA makes them the
    terminator; UNA's separators are used. Text after the end (UNZ) that begins no other message is skipped."""
    if content.startswith(_UTF_16):
        hint = "save it as ISO 8859-1 or UTF-8, or get it again as the ship's program wrote it"
        return [], [PlanProblem(0, "", "it is written in UTF-16, which no EDIFACT file is", hint)]
    text, characters = _advised(content)
    segments: list[Segment] = []
    untagged = 0
    for piece in _pieces(text, characters):
        number = len(segments) + 1
        if segments and segments[-1].tag == "UNZ" and not piece.lstrip(_PADDING).startswith(_ENVELOPE):
            break
        parts = piece.count(characters.data_separator) + piece.count(characters.component_separator)
        if parts > SEPARATORS_MAX or number > SEGMENTS_MAX or untagged > UNTAGGED_MAX:
            what = f"no segment has over {SEPARATORS_MAX} elements, no file over {SEGMENTS_MAX} segments, or so many without a tag"
            return segments, [PlanProblem(number, _printed(piece[:TEXT_CHARS_MAX]), what, "this is no bay plan: get it again")]
        try:
            for raw in Parser().convert_tokens_to_raw_segments(Tokenizer().get_tokens(piece, characters)):
                tag, *elements = ((part,) if isinstance(part, str) else tuple(part) for part in raw)
                segments.append(Segment(number, tag[0].strip(), tuple(elements)))
                untagged += len(segments[-1].tag) != TAG_CHARS or not segments[-1].tag.isalnum()
        except EDISyntaxError:
            return segments, [PlanProblem(number, "", "the segment has no terminator", "the file was cut off: get it again")]
    return segments, []


def write_segments(segments: Iterable[Sequence[str | Sequence[str]]]) -> bytes:
    """Return a file of these segments, each a tag with its elements (a text, or its components); empty elements at an end are left out.

    One segment a line. Characters that ISO 8859-1 lacks, and those that do not print, become `.`."""
    made = []
    for tag, *elements in segments:
        while elements and not any(elements[-1]):
            elements.pop()
        parts = [_plain(part) if isinstance(part, str) else [_plain(component) for component in part] for part in elements]
        made.append(PydifactSegment(str(tag), *parts))
    return Serializer(Characters.from_str(_USUAL)).serialize(made, break_lines=True).encode(CHARSET)


def _advised(content: bytes) -> tuple[str, Characters]:
    """Return the text after UNA, and the separators that it names or the usual ones."""
    text, characters = _text(content).lstrip(), Characters.from_str(_USUAL)
    if text.startswith("UNA") and len(text) >= len(_USUAL):
        characters, text = Characters.from_str(text[: len(_USUAL)]), text[len(_USUAL) :]
        if characters.escape_character == " ":
            characters.escape_character = _NO_RELEASE
    for line_break in {"\r", "\n"} - {characters.segment_terminator}:
        text = text.replace(line_break, "")
    return text.strip(_PADDING), characters


def _text(content: bytes) -> str:
    """Return the text in the charset that the file names, where it names UNOC; any other as UTF-8 if it can be."""
    if _SAYS_CHARSET_C.match(content):
        return content.decode(CHARSET)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode(CHARSET)


def _pieces(text: str, characters: Characters) -> Iterator[str]:
    """Yield each segment with its terminator; the last one without, if the text ends before it. Empty segments are left out.

    Time grows with the text alone. The parser's time grows with the square of its input, so it gets one segment at a time."""
    released, ends = re.escape(characters.escape_character), re.escape(characters.segment_terminator)
    for piece in re.finditer(rf"(?:{released}.|[^{released}{ends}]+)+(?:{ends}|{released}?$)", text, re.DOTALL):
        yield piece[0]


def _printed(text: str) -> str:
    return "".join(letter if letter.isprintable() else "." for letter in text)


def _plain(text: str) -> str:
    known = text.encode(CHARSET, "replace").decode(CHARSET)
    return _printed("".join(there if there == meant else "." for there, meant in zip(known, text, strict=True)))
