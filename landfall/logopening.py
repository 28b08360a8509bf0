"""Opening a node's log from its folder, to look into it while the node runs or not."""

from __future__ import annotations

from pathlib import Path

from streams.codec import BlockCodec
from streams.errors import Misuse
from streams.logs.index import REBUILT
from streams.logs.kinds import AnyReader, open_reader
from streams.logs.segments import SEGMENTS
from streams.words import check_stream


def opened(folder: Path) -> AnyReader:
    """The log in `folder` or `folder/log`, for reading. Raises Misuse when there is none."""
    for place in (folder, folder / "log"):
        try:
            return open_reader(place, BlockCodec())
        except FileNotFoundError:
            if (place / SEGMENTS).exists():
                raise no_index(place) from None
    raise Misuse(f"there is no log in {folder}", hint="give a node's folder with --folder, as in its settings")


def no_index(log: Path) -> Misuse:
    """What is to be done where a log's files are there, and its index is not."""
    return Misuse(f"the index of the log in {log} is missing", hint=f"{REBUILT}; `landfall log check` looks at the files without it")


def known_stream(log: AnyReader, stream: str) -> str:
    """`stream` itself. Raises Misuse when the log knows none of that name."""
    try:
        check_stream(stream)
    except ValueError as problem:
        raise Misuse(str(problem), hint="`landfall stream ls` shows the names") from None
    if stream not in log.streams():
        raise Misuse(f"this log knows no stream {stream!r}", hint="`landfall stream ls` shows the names")
    return stream
