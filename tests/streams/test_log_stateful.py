"""Goal: whatever two nodes do with their logs, in any order, through crashes, records keep their offsets and content and copies agree."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streams.ledger import GONE_REASONS, GoneReason
from streams.log import Append, PeerKnowsMore
from streams.logs.files import FileLog, FileLogOptions, WriteLimits
from streams.logs.indexing import remove_index
from streams.logs.levels import Level
from streams.records import OFFSET
from streams.words import Origin, Position
from tests.streams.logkit import content, open_log, rows

STREAMS = ("containers", "events")
OPTIONS = FileLogOptions(WriteLimits(segment_bytes=3000, marker_commits=5), levels=(Level(20, 3, 60), Level(60, 3, 200)))
NODES = st.sampled_from(("ship-a", "port-b"))
Coordinates = tuple[str, Origin, int]


class TwoNodes(RuleBasedStateMachine):
    """A ship and a port append, exchange any blocks, drop, crash and come back; `truth` is every record that was ever acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="two-nodes-"))
        self.folders: dict[str, Path] = {}
        self.logs: dict[str, FileLog] = {}
        self.truth: dict[Coordinates, dict[str, Any]] = {}
        self.positions: dict[tuple[str, str], Position] = {}
        self.appended = 0
        self.lives = 0

    @initialize()
    def open_both(self) -> None:
        for node in ("ship-a", "port-b"):
            self.folders[node] = self.root / node
            self.logs[node] = open_log(self.folders[node], node, options=OPTIONS)

    def teardown(self) -> None:
        for log in self.logs.values():
            log.close()
        shutil.rmtree(self.root)

    @rule(node=NODES, streams=st.lists(st.sampled_from(STREAMS), min_size=1, max_size=3), count=st.integers(1, 12))
    def append(self, node: str, streams: list[str], count: int) -> None:
        log = self.logs[node]
        appends = [Append(stream, rows(count, start=self.appended + place * count, topics=5)) for place, stream in enumerate(streams)]
        before = {stream: log.ledger(stream).get(log.origin) for stream in streams}
        for append, answer in zip(appends, log.append(appends), strict=True):
            earlier = before[append.stream]
            assert answer.first >= (earlier.end() if earlier else 0)
            for place, row in enumerate(append.records.to_pylist()):
                key = (append.stream, answer.origin, answer.first + place)
                assert key not in self.truth, "an offset was given twice"
                self.truth[key] = {name: value for name, value in row.items() if value is not None}
        self.appended += count * len(streams)

    @rule(source=NODES, stream=st.sampled_from(STREAMS), low=st.integers(0, 40), length=st.integers(1, 30), backwards=st.booleans())
    def exchange(self, source: str, stream: str, low: int, length: int, backwards: bool) -> None:
        [target] = {"ship-a", "port-b"} - {source}
        for origin in self.logs[source].ledger(stream):
            before = self.logs[target].ledger(stream)
            offered = self.logs[source].ledger(stream)[origin].held.within(low, low + length)
            lacked = before[origin].wanted(offered) if origin in before else offered
            blocks = list(self.logs[source].blocks(stream, origin, low, low + length))
            assert sum(block.count for block in blocks) == offered.count()
            try:
                assert self.logs[target].admit(blocks[::-1] if backwards else blocks) == lacked.count()
            except PeerKnowsMore:
                assert origin == self.logs[target].origin
                self.logs[target].open_generation("a peer knows more")

    @rule(source=NODES)
    def exchange_everything(self, source: str) -> None:
        for stream in STREAMS:
            self.exchange(source, stream, 0, 10_000, backwards=False)

    @rule(node=NODES, stream=st.sampled_from(STREAMS), share=st.integers(0, 10))
    def trim(self, node: str, stream: str, share: int) -> None:
        log = self.logs[node]
        for origin, ledger in log.ledger(stream).items():
            log.trim(stream, origin, ledger.next_offset() * share // 20)

    @rule(
        node=NODES, stream=st.sampled_from(STREAMS), low=st.integers(0, 30), length=st.integers(0, 8), reason=st.sampled_from(GONE_REASONS)
    )
    def declare_gone(self, node: str, stream: str, low: int, length: int, reason: GoneReason) -> None:
        log = self.logs[node]
        for origin, ledger in log.ledger(stream).items():
            if origin.node == node and low + length <= ledger.end():
                log.declare_gone(stream, origin, low, low + length, reason)

    @rule(node=NODES, steps=st.integers(1, 8))
    def tidy(self, node: str, steps: int) -> None:
        """Upkeep changes no ledger and no history; the files it leaves are enough to build the index anew."""
        log = self.logs[node]
        before = {stream: log.ledger(stream) for stream in STREAMS}
        for _ in range(steps):
            log.upkeep.step()
        assert {stream: log.ledger(stream) for stream in STREAMS} == before

    @rule(node=NODES)
    def rebuild(self, node: str) -> None:
        """The index is thrown away: the files alone tell the same."""
        log = self.logs[node]
        before, origin = {stream: log.ledger(stream) for stream in STREAMS}, log.origin
        log.close()
        remove_index(self.folders[node] / "log" / "index.sqlite")
        self.logs[node] = open_log(self.folders[node], node, options=OPTIONS)
        assert {stream: self.logs[node].ledger(stream) for stream in STREAMS} == before
        assert self.logs[node].origin == origin

    @rule(node=NODES)
    def reopen(self, node: str) -> None:
        before = self.logs[node].origin
        self.logs[node].close()
        self.logs[node] = open_log(self.folders[node], node, options=OPTIONS)
        assert self.logs[node].origin == before

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
        self.logs[node] = open_log(after, node, options=OPTIONS)
        if not (index_lost and torn):
            assert self.logs[node].origin == before

    @invariant()
    def records_never_change(self) -> None:
        for log in self.logs.values():
            held = content(log, STREAMS)
            for key, row in held.items():
                assert self.truth[key].items() <= row.items()
            ledgers = {(stream, origin): ledger.held.count() for stream in STREAMS for origin, ledger in log.ledger(stream).items()}
            assert sum(ledgers.values()) == len(held)

    @invariant()
    def own_offsets_are_dense(self) -> None:
        for log in self.logs.values():
            for stream in STREAMS:
                for origin, ledger in log.ledger(stream).items():
                    if origin == log.origin:
                        assert ledger.next_offset() == ledger.end()

    @invariant()
    def positions_never_go_back(self) -> None:
        for node, log in self.logs.items():
            for stream in STREAMS:
                now = log.position(stream)
                assert now.reaches(self.positions.get((node, stream), Position()))
                self.positions[node, stream] = now

    @invariant()
    def copies_that_hold_the_same_tell_the_same_history(self) -> None:
        one, other = (content_by_topic(log, "box-1") for log in self.logs.values())
        assert {key: row for key, row in one.items() if key in other} == {key: row for key, row in other.items() if key in one}
        assert [key for key in one if key in other] == [key for key in other if key in one]


def content_by_topic(log: FileLog, topic: str) -> dict[Coordinates, dict[str, Any]]:
    """The history of a topic, in its order."""
    return {
        (row["stream"], Origin.parse(row["origin"]), row[OFFSET]): {name: value for name, value in row.items() if value is not None}
        for row in log.history(topic).rows.to_pylist()
    }


TestTwoNodes = pytest.mark.filterwarnings("error")(TwoNodes.TestCase)
TestTwoNodes.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
