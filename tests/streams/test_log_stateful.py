"""Goal: whatever two nodes do with their logs, in any order, through crashes, records keep their offsets and content and copies agree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from landfall.storage.disk import Disk
from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from landfall.storage.index_writer import remove_index
from landfall.storage.merge_levels import Level
from streams.log import Append, PeerKnowsMore
from tests.streams.livedlogs import PRODUCERS, BackedUpLogs
from tests.streams.logkit import open_log, rows, unfinished
from tests.streams.twologs import NODES, STREAMS


class BusyDisk(Disk):
    """A disk on which something else happens, once, in the middle of a sync of a merged file."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None
        self.merged: set[int] = set()

    def open_to_append(self, path: Path) -> int:
        descriptor = super().open_to_append(path)
        if path.suffix == ".merged":
            self.merged.add(descriptor)
        else:
            self.merged.discard(descriptor)
        return descriptor

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        if descriptor in self.merged and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()


DISK = BusyDisk()
OPTIONS = FileLogOptions(WriteLimits(segment_bytes=1500, marker_commits=5), disk=DISK, levels=(Level(20, 3, 60), Level(60, 3, 200)))


class TwoNodes(BackedUpLogs):
    """Logs in files: beside all else they are merged, moved and copied, and their processes are killed with half a frame written."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 500)
        self.patch.setattr("landfall.storage.log_upkeep.QUIET_LOOKS", 2)

    def teardown(self) -> None:
        self.patch.undo()
        DISK.meanwhile = None
        super().teardown()

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
        while self.logs[node].upkeep.step():
            pass
        self.rebuild(node)

    @rule(node=NODES, stream=st.sampled_from(STREAMS), producer=PRODUCERS, commits=st.integers(3, 8))
    def live_for_a_while(self, node: str, stream: str, producer: str, commits: int) -> None:
        """What was said once, long ago, is still known when its segment is gone."""
        self.produce(node, stream, producer, 2)
        for other in STREAMS:
            self.fill(node, other, commits)
        self.tidy_all_and_rebuild(node)

    @rule(node=NODES, stream=st.sampled_from(STREAMS), first=st.integers(0, 60), length=st.integers(1, 20), trimmed=st.booleans())
    def drop_while_it_tidies(self, node: str, stream: str, first: int, length: int, trimmed: bool) -> None:
        """What is trimmed or declared gone while upkeep writes what it merged or moves is not taken back."""
        self.fill(node, stream, 3)
        log = self.logs[node]
        end = log.ledger(stream)[log.origin].end()
        first = min(first, end)

        def drop() -> None:
            if trimmed:
                log.trim(stream, log.origin, first)
            else:
                log.declare_gone(stream, log.origin, first, min(first + length, end), "lost")

        DISK.meanwhile = drop
        while log.upkeep.step():
            pass
        DISK.meanwhile = None

    @rule(node=NODES, stream=st.sampled_from(STREAMS), count=st.integers(1, 5))
    def copy_the_disk(self, node: str, stream: str, count: int) -> None:
        """Another machine goes on with a copy of the disk, marker included; then this one hears what that appended under its name."""
        self.lives += 1
        twin = self.root / f"twin-{self.lives}"
        shutil.copytree(self.folders[node], twin)
        log, other = self.logs[node], open_log(twin, node, options=OPTIONS)
        if other.origin != log.origin:
            other.close()
            return
        append = Append(stream, rows(count, start=self.appended, topics=5))
        self.appended += count
        [answer] = other.append([append])
        blocks = list(other.blocks(stream, answer.origin, answer.first, answer.first + count))
        other.close()
        before = {one: log.ledger(one) for one in STREAMS}
        with pytest.raises(PeerKnowsMore):
            log.admit(blocks)
        assert {one: log.ledger(one) for one in STREAMS} == before
        log.open_generation("a peer knows more")
        assert log.admit(blocks) == count
        assert log.own_end(stream, answer.origin) == answer.first
        self.note(append, answer.origin, answer.first)

    @rule(node=NODES, torn=st.integers(0, 60), index_lost=st.booleans())
    def crash(self, node: str, torn: int, index_lost: bool) -> None:
        """The disk as a killed process leaves it, perhaps with half a frame at the end, perhaps with its index deleted."""
        self.lives += 1
        after = self.root / f"{node}-{self.lives}"
        shutil.copytree(self.folders[node], after)
        self.logs[node].close()
        with max((after / "log" / "segments").iterdir()).open("ab") as segment:
            segment.write(unfinished(after / "log")[:-1][:torn])
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
