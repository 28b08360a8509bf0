"""The watcher of a node's definitions of streams, and of withdrawn nodes, in the node's own log. They are in `registry`; on a ship and with
a customer, in what headquarters sends them of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from landfall.node.peers.withdrawn_nodes import Withdrawn
from streams.config.definition_format import read_fields
from streams.config.roles import Peer
from streams.config.stream_definitions import TYPE, Definitions, terms_of
from streams.gap_skipping_reader import PatientReader, ReaderStanding
from streams.log import Log, LogReader
from streams.model.identifiers import Position
from streams.model.records import BODY, TOPIC, read_body

if TYPE_CHECKING:  # who only reads definitions needs no network
    from landfall.node.peers.session_manager import Links

logger = logging.getLogger("landfall.node")

Said = tuple[str, int, Mapping[str, object]]
"""Settings of headquarters: a stream's name or pattern, the version, the fields as `read_fields` returns them."""


class Defining:
    """The keeper of `definitions` and `withdrawn` as the log has them. Call `take_up` once the log is open, before any session; then `run`
    it as background work.

    While it runs the log is read in a thread. `definitions` change on the event loop, in the same step in which the sessions are checked:
    so no session can begin in between by settings that no longer hold.
    """

    def __init__(self, me: Peer, definitions: Definitions, report: Callable[..., None]) -> None:
        self._definitions, self._report = definitions, report
        self._streams = taught_by(me)
        self.withdrawn = Withdrawn()
        self._positions: dict[str, Position] = {}
        self._unlearnt: list[Said] = []

    def take_up(self, log: LogReader) -> list[str]:
        """Learn what the log has gained since the last time. Return the names or patterns that are managed differently now."""
        self._read(log)
        return self._learn()

    def _read(self, log: LogReader) -> None:
        """Read what the log has gained since the last time, to be learnt. Withdrawn nodes are known at once: none is admitted meanwhile."""
        for stream in self._streams:
            reader, batches = PatientReader(log, stream), True
            while batches:
                polled = reader.poll(ReaderStanding(self._positions.get(stream, Position())))
                for batch in polled.batches:
                    self._unlearnt += _said(batch.records, self._refused)
                    self.withdrawn.learn(batch.records, self._refused_node)
                self._positions[stream], batches = polled.position, bool(polled.batches)

    def _learn(self) -> list[str]:
        said, self._unlearnt = self._unlearnt, []
        return _taught(self._definitions, said)

    async def run(self, log: Log, links: Links, redefined: Callable[[], None]) -> None:
        """Follow the log until cancelled: sessions use a change at once, and `redefined` is called after each."""
        loop, grown = asyncio.get_running_loop(), asyncio.Event()

        def changed(streams: frozenset[str]) -> None:
            if streams.intersection(self._streams):
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = log.subscribe(changed)
        grown.set()
        try:
            while True:
                await grown.wait()
                grown.clear()
                await asyncio.to_thread(self._read, log)
                links.end_withdrawn()
                before = links.shared() if self._unlearnt else {}
                if names := self._learn():
                    logger.info("streams are managed otherwise from now on: %s", ", ".join(names))
                    links.redefined(before)
                    redefined()
        finally:
            unsubscribe()

    def _refused_node(self, problem: str) -> None:
        self._report(
            "the registry's entry of a node does not read", "the node stays as it was", code="registry_entry_unreadable", problem=problem
        )

    def _refused(self, problem: str) -> None:
        self._report(
            "a stream's definition does not read", "the stream is managed as before", code="registry_entry_unreadable", problem=problem
        )


def taught_by(me: Peer) -> tuple[str, ...]:
    """Return the streams that define for `me` how streams are managed."""
    match me.role:
        case "ship":
            return ("registry", f"aboard/{me.identity}")
        case "customer":
            return (terms_of(me.identity),)
    return ("registry",)


def learn(definitions: Definitions, records: pa.RecordBatch, refused: Callable[[str], None] = lambda problem: None) -> list[str]:
    """Apply to `definitions` what registry records set of streams, and return the names managed differently now. A record that does not
    read goes to `refused`.
    """
    return _taught(definitions, _said(records, refused))


def _said(records: pa.RecordBatch, refused: Callable[[str], None]) -> list[Said]:
    """Return what registry records set of streams. A record that does not read goes to `refused`."""
    said: list[Said] = []
    for text in records.filter(pc.starts_with(records.column(TOPIC), f"{TYPE}/")).column(BODY).to_pylist():
        try:
            name, version, value = read_definition(text)
            said.append((name, version, read_fields(name, value)))
        except ValueError as problem:
            refused(str(problem))
    return said


def _taught(definitions: Definitions, said: Sequence[Said]) -> list[str]:
    return [name for name, version, fields in said if definitions.take(name, version, fields)]


def read_definition(body: str | None) -> tuple[str, int, Mapping[str, object]]:
    """Return name, version and value of a registry entry, by its record's body. Raises ValueError when it has none."""
    match read_body(body):
        case {"id": str(name), "version": int(version), "value": dict(value)}:
            return name, version, value
    raise ValueError("a registry entry has an id, a version and a value")
