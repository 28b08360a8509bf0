"""The reason why an origin starts in a copy where it does.

Each node that raises a floor writes the reason to `consumers`, topic `floors/<stream>`, before it raises the floor. The home writes its
reasons to `homes`, and to what is made of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from streams.consumers import CONSUMERS
from streams.log import Append, LogReader
from streams.model.identifiers import Origin, Position
from streams.model.records import BODY, Record, to_batch

FLOORS = "floors/"
AGE, BYTES, UNKNOWN, UNSAID = "age", "bytes", "unknown", "unsaid"
_AT_HOME = "_at_home"
_WORDS = {
    AGE: "older than this node keeps it",
    BYTES: "beyond the bytes this node keeps",
    AGE + _AT_HOME: "older than its home keeps it",
    BYTES + _AT_HOME: "beyond the bytes its home keeps",
    UNKNOWN + _AT_HOME: "its home has dropped it",
    UNSAID: "nobody has said why",
}
Starts = Mapping[Origin, tuple[int, str]]
"""Floor per origin, and its reason: `age` or `bytes`, or the home's reason with `_at_home` behind it."""


def at_home(why: str) -> str:
    """Return the reason that a node gives when it drops what its home has dropped for `why`."""
    return why if why.endswith(_AT_HOME) else why + _AT_HOME


def in_words(why: str | None) -> str:
    """Return the reason in words, for people; empty where there is no floor. A release before this one did not record the reason."""
    return "" if why is None else _WORDS.get(why, why)


def append_starts(stream: str, starts: Starts) -> Append:
    """Return the record that reports why the floors of `stream` are where they are."""
    position = Position({origin: floor for origin, (floor, _) in starts.items()})
    why = {str(origin): why for origin, (_, why) in sorted(starts.items())}
    body = {"stream": stream, "position": position.to_json(), "why": why}
    return Append(CONSUMERS, to_batch([Record(FLOORS + stream, body=body)]))


def dropped_elsewhere(log: LogReader, stream: str) -> dict[Origin, dict[str, tuple[int, str]]]:
    """Return, per origin and node, the highest floor that the node has reported in `stream`, and the reason.

    That node can not bring what is wanted here and lies below. Raises what reading the log raises.
    """
    floors_by_origin: dict[Origin, dict[str, tuple[int, str]]] = {}
    for batch in log.latest(CONSUMERS, FLOORS + stream):
        body = json.loads(batch.records.column(BODY)[0].as_py())
        for origin, floor in Position.from_json(body["position"]).items():
            reported = floor, str(body["why"].get(str(origin), UNKNOWN))
            floors = floors_by_origin.setdefault(origin, {})
            floors[batch.origin.node] = max(reported, floors.get(batch.origin.node, reported))
    return floors_by_origin


def starts_of(log: LogReader, stream: str, nodes: Collection[str] | None = None) -> dict[Origin, str]:
    """Return why this copy's floors of `stream` are where they are, as far as one of `nodes` (None: any) has reported that floor."""
    floors = {origin: one.floor for origin, one in log.ledger(stream).items() if one.floor}
    found: dict[Origin, str] = {}
    for batch in log.latest(CONSUMERS, FLOORS + stream, nodes) if floors else ():
        body = json.loads(batch.records.column(BODY)[0].as_py())
        for origin, floor in Position.from_json(body["position"]).items():
            if floors.get(origin) == floor:
                found[origin] = str(body["why"].get(str(origin), UNKNOWN))
    return found
