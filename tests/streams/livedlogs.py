"""Two nodes' logs, whatever their kind, with all that lives on them: producers who retry, consumers, thinning; backups that come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from landfall.storage.backup import backup, restore
from streams.consumers import Consumer
from streams.log import Append, Appended
from streams.model.errors import Trimmed
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM
from streams.retention.thinner import Thinning
from tests.streams.logkit import NOW_MS, content, rows
from tests.streams.twologs import NODES, STREAMS, Coordinates, TwoLogs

PRODUCERS = st.sampled_from(("gateway", "rules"))
DAY_MS = 86_400_000


@dataclass
class Memory:
    """What a node's log must remember: each producer's last append and its answer, and what each consumer has read and committed."""

    sent: dict[tuple[str, str], tuple[Append, Appended]] = field(default_factory=dict)
    read: dict[str, set[Coordinates]] = field(default_factory=lambda: {stream: set() for stream in STREAMS})


class LivedLogs(TwoLogs):
    """As `TwoLogs`; what a node remembers of its producers and consumers survives all that its log survives."""

    def __init__(self) -> None:
        super().__init__()
        self.memories = {node: Memory() for node in ("ship-a", "port-b")}

    @rule(node=NODES, stream=st.sampled_from(STREAMS), producer=PRODUCERS, count=st.integers(1, 5))
    def produce(self, node: str, stream: str, producer: str, count: int) -> None:
        """A producer with an outbox: its sequences go up."""
        log, sent = self.logs[node], self.memories[node].sent
        append = self.next_of(node, stream, producer, count)
        assert not log.repeats(append)
        [answer] = log.append([append])
        assert (answer.origin, answer.count, answer.repeated) == (log.origin, count, False)
        self.note(append, answer.origin, answer.first)
        sent[stream, producer] = append, answer
        self.appended += count

    def next_of(self, node: str, stream: str, producer: str, count: int) -> Append:
        """What the producer at that node appends next."""
        sent = self.memories[node].sent
        before = sent[stream, producer][0].sequence if (stream, producer) in sent else None
        return Append(stream, rows(count, start=self.appended, topics=5), producer, (before or 0) + 1)

    @rule(node=NODES, stream=st.sampled_from(STREAMS), commits=st.integers(3, 8))
    def fill(self, node: str, stream: str, commits: int) -> None:
        """Enough small commits one after another that there is something to merge and a segment to leave."""
        for _ in range(commits):
            self.append(node, [stream], 3)

    @rule(node=NODES, stream=st.sampled_from(STREAMS), rows_max=st.integers(1, 30))
    def consume(self, node: str, stream: str, rows_max: int) -> None:
        """A consumer that was made anew reads on: nothing twice, nothing left out but what is gone or below the floor."""
        log, read = self.logs[node], self.memories[node].read[stream]
        consumer = Consumer(log, f"reader/{stream}", stream)
        before = consumer.position()
        polled = consumer.poll_from_floor(rows_max)
        found = {(stream, row.coordinates.origin, row.coordinates.offset) for batch in polled.batches for row in batch.rows()}
        assert not found & read, "read twice"
        for origin, ledger in log.ledger(stream).items():
            due = ledger.held.within(before[origin], max(before[origin], polled.position[origin]))
            assert {offset for _, of, offset in found if of == origin} == {at for first, end in due for at in range(first, end)}
        consumer.commit(polled.position)
        read |= found

    @rule(node=NODES, stream=st.sampled_from(STREAMS))
    def thin(self, node: str, stream: str) -> None:
        """What tells most is kept under its coordinates before the rest is gone."""
        log = self.logs[node]
        before = content(log, [stream])
        with short_runs():
            thinned = Thinning(log, stream, lambda *_: RangeSet(), lambda *_: {}).step(NOW_MS + DAY_MS)
        after = content(log, [stream])
        assert (thinned is None) == (after == before)
        if thinned is not None:
            lost = before.keys() - after.keys()
            kept = {_source(row): row for row in content(log, [f"{stream}.kept"]).values()}
            assert len(lost & kept.keys()) == thinned.kept > 0
            assert all(kept[key]["number"] == before[key]["number"] for key in lost & kept.keys())

    @rule(node=NODES, stream=st.sampled_from(STREAMS), rows_max=st.integers(1, 30))
    def read_on_at_the_other(self, node: str, stream: str, rows_max: int) -> None:
        """A consumer takes its Position to the other copy. Of what that copy is behind in, it gets nothing, nor of what stands after a
        hole; and it is told where that copy has dropped more than it has read.
        """
        [other] = {"ship-a", "port-b"} - {node}
        position = Consumer(self.logs[node], f"reader/{stream}", stream).position()
        traveller = Consumer(self.logs[other], f"traveller/{stream}", stream)
        traveller.commit(traveller.position().merged(position))
        at, ledgers = traveller.position(), self.logs[other].ledger(stream)
        assert at.reaches(position)
        if any(at[origin] < ledger.floor for origin, ledger in ledgers.items()):
            with pytest.raises(Trimmed):
                traveller.poll(rows_max)
            return
        polled = traveller.poll(rows_max)
        found = {row.coordinates for batch in polled.batches for row in batch.rows()}
        for origin, ledger in ledgers.items():
            assert polled.position[origin] <= max(at[origin], ledger.next_offset())
            due = ledger.held.within(at[origin], polled.position[origin])
            assert {one.offset for one in found if one.origin == origin} == {offset for first, end in due for offset in range(first, end)}

    @invariant()
    def who_retries_is_told_where_its_records_are(self) -> None:
        """Every producer's answer may have been lost: each sends its last again. Nothing is appended."""
        for node, log in self.logs.items():
            before = {stream: log.ledger(stream) for stream in STREAMS}
            for append, answer in self.memories[node].sent.values():
                assert log.repeats(append)
                assert log.append([append]) == [replace(answer, count=0, repeated=True)]
            assert {stream: log.ledger(stream) for stream in STREAMS} == before


class BackedUpLogs(LivedLogs):
    """As `LivedLogs`, of logs that are backed up: what a node remembers comes back with its log as it was then."""

    def __init__(self) -> None:
        super().__init__()
        self.backups: dict[str, tuple[Path, Memory]] = {}

    @rule(node=NODES)
    def back_up(self, node: str) -> None:
        """While it runs."""
        self.lives += 1
        target = self.root / f"backup-{self.lives}"
        backup(self.folders[node] / "log", target)
        self.backups[node] = target, deepcopy(self.memories[node])

    @precondition(lambda self: self.backups)
    @rule(choice=st.randoms(use_true_random=False))
    def restore(self, choice: Random) -> None:
        """An old backup comes back: under a new generation, so that no offset is given twice; what came after it only peers have."""
        node = choice.choice(sorted(self.backups))
        source, memory = self.backups[node]
        self.memories[node] = deepcopy(memory)
        before = self.logs[node].origin
        self.logs[node].close()
        restore(source, self.folders[node])
        self.logs[node] = self.open(node)
        assert self.logs[node].origin != before
        for stream in STREAMS:
            self.positions.pop((node, stream), None)


def _source(row: dict[str, object]) -> Coordinates:
    stream, origin, offset = row[SOURCE_STREAM], row[SOURCE_ORIGIN], row[SOURCE_OFFSET]
    assert isinstance(offset, int)
    return str(stream), Origin.parse(str(origin)), offset


@contextmanager
def short_runs() -> Iterator[None]:
    """Thinning takes whole runs, where enough goes: of these there are some in a log as small as this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams.retention.droppable_runs.RUN", 8)
        patch.setattr("streams.retention.thinner.RUN", 8)
        patch.setattr("streams.retention.thinner.KEPT_SHARE_MAX", 1.0)
        yield
