"""The nodes that headquarters has withdrawn: its registry lists them, and a node that has the registry keeps no session with them any
more.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from streams.model.records import BODY, TOPIC, read_body

TYPE = "node"
"""Type of a node's registry entries: their topic is `node/<name>`."""


class Withdrawn:
    """The names of the nodes that are withdrawn now, by the last version of each one's entry, in whatever order they come."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[int, bool]] = {}

    def __contains__(self, node: object) -> bool:
        return isinstance(node, str) and self._said.get(node, (0, False))[1]

    def learn(self, records: pa.RecordBatch, refused: Callable[[str], None]) -> None:
        """Take the registry records about nodes. A record that does not read goes to `refused`; the node stays as it was."""
        for text in records.filter(pc.starts_with(records.column(TOPIC), f"{TYPE}/")).column(BODY).to_pylist():
            try:
                match read_body(text):
                    case {"id": str(name), "version": int(version), "value": dict(value)}:
                        if version > self._said.get(name, (0, False))[0]:
                            self._said[name] = (version, value.get("withdrawn") is True)
                    case _:
                        raise ValueError("a registry entry has an id, a version and a value")
            except ValueError as problem:
                refused(str(problem))
