"""Goal: after a power cut at any instant everything acknowledged is there once, as it was, and the log goes on."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from landfall.storage.damage import Damage
from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from landfall.storage.merge_levels import Level
from streams.log import Append, Appended
from streams.model.identifiers import Origin
from streams.model.ledger import GONE_REASONS, OriginLedger
from streams.model.ranges import RangeSet
from streams.model.records import OFFSET
from tests.streams.cutdisk import CutDisk
from tests.streams.logkit import content, open_log, rows

STREAMS = ("containers", "events")
LIVES = 4
EVENTS_OF_A_WORK = 14
"""An append has about as many events of the disk, a merge more."""
TORN = re.compile("write-ahead log|or the power failed while it was written")
"""What may be told as damage after a cut alone: the index's last commit, and, found as it is made anew, the log's."""
Coordinates = tuple[str, Origin, int]


@dataclass(frozen=True)
class Truth:
    """What a log must say: its rows by their coordinates, and its ledgers."""

    held: dict[Coordinates, dict[str, Any]] = field(default_factory=dict)
    ledgers: dict[str, dict[Origin, OriginLedger]] = field(default_factory=dict)


class Ship:
    """A node's log through its lives, each on the image that the power cut before left of it."""

    def __init__(self, root: Path, chance: random.Random, lies: bool, cuts_aside: float = 0.0) -> None:
        """`cuts_aside`: in that share of the works of a life what a cut would leave is looked at too, and the life goes on without it."""
        self.root, self.chance, self.lies, self.cuts_aside = root, chance, lies, cuts_aside
        self.cuts = 0
        self.truth = Truth()
        self.life = self.appended = 0
        self.sent: list[Append] = []
        self.answers: list[Appended] = []
        self.whys, self.opening = {"the log is new", "to see"}, False
        """Why generations were opened; whether one was being opened when the power was cut, which the marker does not name then."""
        self.folder = root / "life-0"
        self.folder.mkdir()
        self.disk = CutDisk(self.folder, chance, lies=lies)
        self.peer = open_log(root / "peer", "port-b")
        for start in range(0, 60, 6):
            self.peer.append([Append("containers", rows(6, start=start)), Append("events", rows(1, start=start))])
        self.offered = content(self.peer, STREAMS)

    def open(self) -> FileLog:
        limits = WriteLimits(segment_bytes=self.chance.choice((2_000, 6_000)), marker_commits=3)
        levels = (Level(20, 3, 60), Level(60, 3, 200))
        self.told = list[Damage]()
        return open_log(self.folder / "home", options=FileLogOptions(limits, self.told.append, self.disk, levels=levels))

    def append(self, log: FileLog) -> None:
        """New rows of a producer who has an outbox: what was in flight at the cut comes again under its sequence."""
        streams = self.chance.sample(STREAMS, self.chance.randint(1, 2))
        batches = [rows(self.chance.randint(1, 9), start=self.appended + 10 * place) for place in range(len(streams))]
        self.appended += 20
        self.sent = [Append(name, batch, "gateway", self.appended) for name, batch in zip(streams, batches, strict=True)]
        self.send(log)

    def send(self, log: FileLog) -> None:
        """`sent`, which the log does not have, is given offsets never given before, without a gap."""
        before = {append.stream: log.ledger(append.stream).get(log.origin, OriginLedger()) for append in self.sent}
        self.answers = log.append(self.sent)
        held = dict(self.truth.held)
        for append, answer in zip(self.sent, self.answers, strict=True):
            given = append.records.to_pylist()
            assert (answer.origin, answer.first, answer.count) == (log.origin, before[append.stream].end(), len(given))
            [batch] = log.run(append.stream, answer.origin, answer.first, answer.first + len(given))
            for told, row in zip(given, batch.records.to_pylist(), strict=True):
                assert told.items() <= row.items()
                held[append.stream, answer.origin, row[OFFSET]] = {name: value for name, value in row.items() if value is not None}
        self.truth = Truth(held, _ledgers(log))

    def admit(self, log: FileLog) -> None:
        stream, low = self.chance.choice(STREAMS), self.chance.randrange(60)
        high = low + self.chance.randint(1, 20)
        before = log.ledger(stream).get(self.peer.origin, OriginLedger())
        log.admit(list(self.peer.blocks(stream, self.peer.origin, low, high)))
        taken = before.takes(RangeSet([(low, high)]), own=False)
        new = {key: row for key, row in self.offered.items() if key[0] == stream and key[2] in taken}
        self.truth = Truth({**self.truth.held, **new}, _ledgers(log))

    def drop(self, log: FileLog) -> None:
        """Trimmed or declared gone, of either origin."""
        stream = self.chance.choice(STREAMS)
        for origin, ledger in log.ledger(stream).items():
            low = self.chance.randrange(ledger.end() + 1)
            high = min(ledger.end(), low + self.chance.randrange(6))
            if self.chance.random() < 0.3:
                low, high = 0, min(low, ledger.floor + 8)
                log.trim(stream, origin, high)
            else:
                log.declare_gone(stream, origin, low, high, self.chance.choice(GONE_REASONS))
                low = low if origin.node == log.node else high  # of another's what is held stays
            held = {key: row for key, row in self.truth.held.items() if key[:2] != (stream, origin) or not low <= key[2] < high}
            self.truth = Truth(held, _ledgers(log))
            return

    def generation(self, log: FileLog) -> None:
        log.open_generation("to see")

    def tidy(self, log: FileLog) -> None:
        log.upkeep.step()

    def live(self) -> None:
        """One life: whatever comes, until the power is cut in the middle of it. Then what is left of it is checked."""
        image = self.root / f"life-{self.life + 1}"
        dies_at, events = self.chance.randrange(45), self.chance.choice((0, 1, 2, 3, 5, 8))
        before, in_flight, self.opening = self.truth, False, False
        if dies_at == 0:
            self.disk.arm(image, events)
        log = self.open()
        for number in range(1, dies_at + 1):
            before, aside = self.truth, None
            if number == dies_at:
                self.disk.arm(image, events)
            elif self.cuts_aside and self.chance.random() < self.cuts_aside:
                aside = self.root / f"aside-{self.life}-{number}"
                self.disk.arm(aside, self.chance.randrange(EVENTS_OF_A_WORK))
            works: list[Callable[[FileLog], None]] = [self.append, self.admit, self.drop, self.generation, self.tidy]
            [work] = self.chance.choices(works, weights=(10, 2, 2, 0.3, 12))
            work(log)
            in_flight, self.opening = work == self.append, work == self.generation
            if aside is not None and self.disk.disarm():
                self.look_aside(aside, before, in_flight=in_flight)
        if self.disk.cut_at is None:
            before, in_flight = self.truth, False
            self.disk.cut("at rest")
        log.close()
        self.disk.close()
        self.folder, self.life, self.cuts = image, self.life + 1, self.cuts + 1
        self.disk = CutDisk(image, self.chance, lies=self.lies)
        self.check(before, self.truth, in_flight=in_flight)

    def look_aside(self, image: Path, before: Truth, *, in_flight: bool) -> None:
        """What a cut in the work that is just done has left is checked as what a life goes on with."""
        other = copy(self)
        other.folder, other.disk = image, CutDisk(image, self.chance, lies=self.lies)
        other.check(before, self.truth, in_flight=in_flight)
        other.disk.close()
        shutil.rmtree(image)
        self.cuts += 1

    def check(self, before: Truth, after: Truth, *, in_flight: bool) -> None:
        log = self.open()
        if not self.lies:
            whys = {opening.why for opening in log.generations()}
            if self.opening:
                self.whys = self.whys | {why for why in whys if why.startswith("the marker names ")}
            assert whys <= self.whys, "the marker is whole, and true"
            assert all(TORN.search(damage.why) for damage in self.told), "nothing but what was being written is torn"
        found = content(log, STREAMS)
        now = _ledgers(log)
        taken = all(now[stream].get(origin) == one for stream, lines in after.ledgers.items() for origin, one in lines.items())
        self.truth = after if found == after.held and taken else before
        assert found == self.truth.held
        for stream, lines in before.ledgers.items():
            for origin, ledger in lines.items():
                assert now[stream][origin] in (ledger, after.ledgers[stream][origin])
                assert log.position(stream)[origin] >= ledger.next_offset()
        if self.sent:
            self.retry(log, taken=self.truth is after or not in_flight)
        log.close()
        self.disk.close()
        self.disk = CutDisk(self.folder, self.chance, lies=self.lies)

    def retry(self, log: FileLog, *, taken: bool) -> None:
        """Its answer may have been lost with the power: the last append is sent again, and is there once."""
        if not taken:
            self.send(log)
            return
        again = log.append(self.sent)
        assert [(answer.first, answer.count) for answer in again] == [(answer.first, 0) for answer in self.answers]
        assert content(log, STREAMS) == self.truth.held


def _ledgers(log: FileLog) -> dict[str, dict[Origin, OriginLedger]]:
    return {stream: log.ledger(stream) for stream in STREAMS}


@pytest.fixture(autouse=True)
def _small_files_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the tests' size are emptied and freed as large ones are."""
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 1_000)


def live_and_die(ship: Ship, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("commit_path", "merged_files", "log_upkeep"):
        monkeypatch.setattr(f"landfall.storage.{module}.commit_point", lambda name: ship.disk.event(name))
    for _ in range(LIVES):
        ship.live()
    ship.peer.close()
    ship.disk.close()


@pytest.mark.parametrize("lies", [False, True], ids=["sqlite-synced", "sqlite-lied-to"])
@pytest.mark.cases("seed", range(4), long=range(4, 12), torture=range(12, 2_000))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int, lies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SQLite's files as its syncs leave them, and with a disk that takes those syncs for nothing: the segments alone count."""
    live_and_die(Ship(tmp_path, random.Random(seed), lies), monkeypatch)


@pytest.mark.torture
@pytest.mark.parametrize("lies", [False, True], ids=["sqlite-synced", "sqlite-lied-to"])
@pytest.mark.parametrize("seed", range(10_000, 10_200))
def test_nor_at_any_instant_of_a_life(tmp_path: Path, seed: int, lies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, and what a cut in the midst of half of a life's works would leave is checked too: several times as many for the time."""
    ship = Ship(tmp_path, random.Random(seed), lies, cuts_aside=0.5)
    live_and_die(ship, monkeypatch)
    print(f"seed {seed}, lied to: {lies}, cuts: {ship.cuts}")
