"""Goal: what a peer says is gone is not forgotten because the disk was full when it said so: it says it once in a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from landfall.node import block_store
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.model.errors import RetryLater
from streams.model.identifiers import Origin
from streams.model.ledger import Ledger
from streams.model.metrics import Metrics
from streams.model.ranges import RangeSet
from streams.replication import DeclareGone
from tests.streams.logkit import append_rows, open_log, rows

SHIP = Origin("ship-a", 7)


class FullAtFirst:
    """A log with no room for the first `refusals` calls."""

    def __init__(self, log: FileLog, refusals: int) -> None:
        self._log, self.refusals = log, refusals

    def ledger(self, stream: str) -> Ledger:
        return self._log.ledger(stream)

    @property
    def node(self) -> str:
        return self._log.node

    def declare_all_gone(self, *what: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            if not self.refusals:  # there is room again, and another peer has brought some of them
                append_rows(self._log, rows(5))
            raise RetryLater("no room")
        self._log.declare_all_gone(*what)


async def test_it_is_noted_once_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_store, "GONE_AGAIN_S", 0.0)
    reports: list[str] = []
    log = open_log(tmp_path)
    full = FullAtFirst(log, 3)
    store = block_store.Store(full, BlockCodec(), Metrics("test"), lambda reason, *_, **__: reports.append(reason))  # type: ignore[arg-type]
    await store.declare_gone(DeclareGone("containers", log.origin, RangeSet([(3, 5)]), "thinned"))
    await store.declare_gone(DeclareGone("containers", SHIP, RangeSet([(3, 9)]), "thinned"))
    assert full.refusals == 0
    assert log.ledger("containers")[SHIP].gone == {"thinned": RangeSet([(3, 9)])}
    assert log.ledger("containers")[log.origin].held == RangeSet([(0, 5)]), "what has come meanwhile is kept"
    assert not reports, "nobody has done anything wrong"
    log.close()
