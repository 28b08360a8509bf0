"""Goal: whatever two nodes do with their logs, in any order, through crashes, records keep their offsets and content and copies agree."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from streams.logs.files import FileLog, FileLogOptions, WriteLimits
from streams.logs.indexing import remove_index
from streams.logs.levels import Level
from tests.streams.livedlogs import LivedLogs
from tests.streams.logkit import open_log
from tests.streams.twologs import NODES, STREAMS

OPTIONS = FileLogOptions(WriteLimits(segment_bytes=1500, marker_commits=5), levels=(Level(20, 3, 60), Level(60, 3, 200)))


class TwoNodes(LivedLogs):
    """Logs in files: beside all else they are merged, and their processes are killed with half a frame written."""

    def open(self, node: str) -> FileLog:
        return open_log(self.folders[node], node, options=OPTIONS)

    @rule(node=NODES, steps=st.integers(1, 8))
    def tidy(self, node: str, steps: int) -> None:
        """Upkeep changes no ledger and no history; the files it leaves are enough to build the index anew."""
        log = self.logs[node]
        before = {stream: log.ledger(stream) for stream in STREAMS}
        for _ in range(steps):
            log.upkeep.step()
        assert {stream: log.ledger(stream) for stream in STREAMS} == before

    @rule(node=NODES)
    def tidy_all_and_rebuild(self, node: str) -> None:
        """What is left of the files, once nothing more can be freed, tells the same as all that were written."""
        log = self.logs[node]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streams.logs.upkeep.HALF_DEAD_BYTES", 500)
            while log.upkeep.step():
                pass
        self.rebuild(node)

    @rule(node=NODES, torn=st.binary(max_size=60), index_lost=st.booleans())
    def crash(self, node: str, torn: bytes, index_lost: bool) -> None:
        """The disk as a killed process leaves it, perhaps with half a frame at the end, perhaps with its index deleted."""
        self.lives += 1
        after = self.root / f"{node}-{self.lives}"
        shutil.copytree(self.folders[node], after)
        self.logs[node].close()
        with max((after / "log" / "segments").iterdir()).open("ab") as segment:
            segment.write(b"LFF1" + torn if torn else b"")
        if index_lost:
            remove_index(after / "log" / "index.sqlite")
        before = self.logs[node].origin
        self.folders[node] = after
        self.logs[node] = self.open(node)
        if not (index_lost and torn):
            assert self.logs[node].origin == before


TestTwoNodes = pytest.mark.timeout(600)(pytest.mark.filterwarnings("error")(TwoNodes.TestCase))
TestTwoNodes.settings = settings(max_examples=10, stateful_step_count=40, deadline=None)


class TwoNodesForLong(TwoNodes):
    """The same, longer and more often."""


TestTwoNodesForLong = pytest.mark.torture(pytest.mark.filterwarnings("error")(TwoNodesForLong.TestCase))
TestTwoNodesForLong.settings = settings(max_examples=400, stateful_step_count=100, deadline=None)
