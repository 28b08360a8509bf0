"""Held records that this version can not read, in blocks of a newer version: their offsets, and the report of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import typer

from landfall.cli.table_output import write_notes
from streams.log import LogReader
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet

NEWER = "a newer landfall reads them; here they are kept and passed on"
UNREAD = 1
"""Exit code of a command that left out what it could not read."""


def unread_of(
    log: LogReader, stream: str, origin: Origin, first: int = 0, *, since_at_ms: int | None = None, until_at_ms: int | None = None
) -> RangeSet:
    """Return the offsets from `first` on that this copy holds, as it stands now, in blocks of an encoding that is not known here. Only
    blocks that may have order times since <= time < until (UTC ms) count. Raises what `LogReader.spans` raises.
    """
    return RangeSet(
        (span.first, span.end)
        for span in log.spans(stream, origin, first)
        if not span.readable
        and (since_at_ms is None or since_at_ms <= span.order_last_ms)
        and (until_at_ms is None or span.order_first_ms < until_at_ms)
    )


def unread_words(stream: str, origin: Origin, unread: RangeSet) -> Iterator[str]:
    """Yield a sentence for each range of `unread`: what is left out, and why."""
    for first, end in unread:
        offsets = f"offset {first:,}" if end - first == 1 else f"offsets {first:,} to {end - 1:,}"
        yield f"{stream}:{origin}: {offsets} can not be read here: their block is of a newer version"


def unread_of_topic(log: LogReader, streams: Iterable[str], since_at_ms: int | None = None, until_at_ms: int | None = None) -> list[str]:
    """Return a sentence for each range of `streams` that may hold more of any topic within since <= order time < until, and is not read
    here.
    """
    return [
        f"{words}; whether they have more of this is not known"
        for stream in streams
        for origin in sorted(log.ledger(stream))
        for words in unread_words(stream, origin, unread_of(log, stream, origin, since_at_ms=since_at_ms, until_at_ms=until_at_ms))
    ]


def end_of_unread(sentences: Iterable[str]) -> None:
    """Report what was left out on standard error, with what to do, and end the command with UNREAD. With nothing to report, return."""
    if notes := list(sentences):
        write_notes([*notes, NEWER])
        raise typer.Exit(UNREAD)
