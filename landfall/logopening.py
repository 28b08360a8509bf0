"""Opening a node's log from its folder, to look into it while the node runs or not."""

from __future__ import annotations

from pathlib import Path

from streams.codec import BlockCodec
from streams.errors import Misuse
from streams.logs.kinds import AnyReader, open_reader
from streams.words import check_stream


def opened(folder: Path) -> AnyReader:
    """The log in `folder` or `folder/log`, for reading. Raises Misuse when there is none."""
    for place in (folder, folder / "log"):
        try:
            return open_reader(place, BlockCodec())
        except FileNotFoundError:
            continue
    raise Misuse(f"there is no log in {folder}", hint="give a node's folder with --folder, as in its settings")


def known_stream(log: AnyReader, stream: str) -> str:
    """`stream` itself. Raises Misuse when the log knows none of that name."""
    try:
        check_stream(stream)
    except ValueError as problem:
        raise Misuse(str(problem), hint="`landfall stream ls` shows the names") from None
    if stream not in log.streams():
        raise Misuse(f"this log knows no stream {stream!r}", hint="`landfall stream ls` shows the names")
    return stream
