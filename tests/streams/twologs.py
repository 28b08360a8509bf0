"""Two nodes' logs, whatever their kind, as a state machine: what they do, in any order, and what holds after every step."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from landfall.storage.index_writer import remove_index
from landfall.storage.log_kinds import AnyLog
from landfall.storage.row_tables import ORIGIN, STREAM
from streams.log import Append, Log, PeerKnowsMore
from streams.model.identifiers import Origin, Position
from streams.model.ledger import GONE_REASONS, GoneReason, OriginLedger
from streams.model.ranges import RangeSet
from streams.model.records import OFFSET, ORDER_AT, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, TOPIC
from tests.streams.logkit import content, rows

STREAMS = ("containers", "events")
TOPICS = tuple(f"box-{number}" for number in range(5))
NODES = st.sampled_from(("ship-a", "port-b"))
Coordinates = tuple[str, Origin, int]


class TwoLogs(RuleBasedStateMachine):
    """A ship and a port append, exchange any blocks, drop, crash and come back; `truth` is every record that was ever acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="two-nodes-"))
        self.folders: dict[str, Path] = {}
        self.logs: dict[str, AnyLog] = {}
        self.truth: dict[Coordinates, dict[str, Any]] = {}
        self.positions: dict[tuple[str, str], Position] = {}
        self.appended = 0
        self.lives = 0
        self.looked = 0

    @initialize()
    def open_both(self) -> None:
        for node in ("ship-a", "port-b"):
            self.folders[node] = self.root / node
            self.logs[node] = self.open(node)

    def open(self, node: str) -> AnyLog:
        """The log of `node` in its folder, for writing."""
        raise NotImplementedError

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
            self.note(append, answer.origin, answer.first)
        self.appended += count * len(streams)

    def note(self, append: Append, origin: Origin, first: int) -> None:
        """What was appended is there from now on, from offset `first`."""
        for place, row in enumerate(append.records.to_pylist()):
            key = (append.stream, origin, first + place)
            assert key not in self.truth, "an offset was given twice"
            self.truth[key] = {name: value for name, value in row.items() if value is not None}

    @rule(source=NODES, stream=st.sampled_from(STREAMS), low=st.integers(0, 40), length=st.integers(1, 30), backwards=st.booleans())
    def exchange(self, source: str, stream: str, low: int, length: int, backwards: bool) -> None:
        [target] = {"ship-a", "port-b"} - {source}
        for origin in self.logs[source].ledger(stream):
            before = self.logs[target].ledger(stream)
            offered = self.logs[source].ledger(stream)[origin].held.within(low, low + length)
            lacked = lacking(before.get(origin, OriginLedger()), offered)
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

    @rule(node=NODES)
    def rebuild(self, node: str) -> None:
        """The index is thrown away: what is kept beside it tells the same."""
        log = self.logs[node]
        before, origin = {stream: log.ledger(stream) for stream in STREAMS}, log.origin
        log.close()
        remove_index(self.folders[node] / "log" / "index.sqlite")
        self.logs[node] = self.open(node)
        assert {stream: self.logs[node].ledger(stream) for stream in STREAMS} == before
        assert self.logs[node].origin == origin

    @rule(node=NODES)
    def reopen(self, node: str) -> None:
        before = self.logs[node].origin
        self.logs[node].close()
        self.logs[node] = self.open(node)
        assert self.logs[node].origin == before

    @invariant()
    def records_never_change(self) -> None:
        """What is held is there as it was acknowledged, and alike at both; one topic after another tells all of it, and no more."""
        both = [content(log, STREAMS) for log in self.logs.values()]
        assert all(both[1].get(key, row) == row for key, row in both[0].items())
        for log, held in zip(self.logs.values(), both, strict=True):
            for key, row in held.items():
                assert self.truth[key].items() <= row.items()
            ledgers = {(stream, origin): ledger.held for stream in STREAMS for origin, ledger in log.ledger(stream).items()}
            assert sum(ranges.count() for ranges in ledgers.values()) == len(held)
            assert all(key[2] in ledgers[key[:2]] for key in held)
            topic = TOPICS[self.looked % len(TOPICS)]
            of_topic = {key: row for key, row in held.items() if self.truth[key][TOPIC] == topic}
            check_history(log, topic, of_topic)
            check_latest(log, STREAMS[self.looked % len(STREAMS)], topic, of_topic)
        self.looked += 1

    @invariant()
    def an_offset_is_held_or_gone_or_below_the_floor(self) -> None:
        for log in self.logs.values():
            for stream in STREAMS:
                for origin, ledger in log.ledger(stream).items():
                    for reason, ranges in ledger.gone.items():
                        assert not ledger.held.common(ranges), f"{stream}:{origin} holds what is {reason}"
                    assert not ledger.held.within(0, ledger.floor)

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


def lacking(ledger: OriginLedger, offered: RangeSet) -> RangeSet:
    """What of `offered` is neither held nor gone nor below the floor, told without asking the ledger itself."""
    left = offered.without(ledger.held).without([(0, ledger.floor)])
    for ranges in ledger.gone.values():
        left = left.without(ranges)
    return left


def check_history(log: Log, topic: str, held: dict[Coordinates, dict[str, Any]]) -> None:
    """The topic's history is all that is `held` of it, in its order, so that copies that hold the same tell the same.

    Beside it, what was kept of it where what it stands for is gone, or below the floor: once each.
    """
    told = [{name: value for name, value in row.items() if value is not None} for row in log.history(topic).rows.to_pylist()]
    due = sorted(held, key=lambda key: (held[key][ORDER_AT], str(key[1]), key[2], key[0]))
    assert [row for row in told if row[STREAM] in STREAMS] == [{STREAM: key[0], ORIGIN: str(key[1]), **held[key]} for key in due], topic
    ledgers = {stream: log.ledger(stream) for stream in STREAMS}
    kept = {source(row) for row in content(log, [f"{stream}.kept" for stream in STREAMS]).values() if row[TOPIC] == topic}
    dropped = [(stream, origin, offset) for stream, origin, offset in kept if is_dropped(ledgers[stream].get(origin), offset)]
    assert sorted(source(row) for row in told if row[STREAM] not in STREAMS) == sorted(dropped), topic


def source(row: dict[str, Any]) -> Coordinates:
    """What a kept row stands for."""
    return row[SOURCE_STREAM], Origin.parse(row[SOURCE_ORIGIN]), row[SOURCE_OFFSET]


def is_dropped(ledger: OriginLedger | None, offset: int) -> bool:
    """Whether it is gone, or below the floor."""
    return ledger is not None and (offset < ledger.floor or any(offset in ranges for ranges in ledger.gone.values()))


def check_latest(log: Log, stream: str, topic: str, held: dict[Coordinates, dict[str, Any]]) -> None:
    """What comes as the topic's latest is the last that is `held` of it, of each origin."""
    last = {origin: offset for of, origin, offset in sorted(held) if of == stream}
    assert {batch.origin: batch.records.column(OFFSET).to_pylist() for batch in log.latest(stream, topic)} == {
        origin: [offset] for origin, offset in last.items()
    }, f"the latest of {topic} in {stream}"
