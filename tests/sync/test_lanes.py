"""Goal: the most urgent leaves first, an alert waits for one fragment at most, and the newest readings go beside the backlog."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from streams.config.roles import Lane
from streams.config.stream_definitions import Definitions
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication.peer_track import PeerTrack
from streams.replication.sender import FRAGMENT_BYTES_MIN, FRAGMENT_S, LINGER_APART_S, LINGER_RECORDS, LINGER_S, LIVE_RECORDS, Sender
from streams.replication.sync_messages import FRAGMENT_BYTES_MAX, Begin, Fragment, Message, Track, decode
from tests.sync.world import World, rows

RATE_BYTES_S = 16_000.0
LATENCY_S = 0.3


class Wiretap:
    """What a station said, in order of arrival, with the stream of every piece of data."""

    def __init__(self, world: World, source: str) -> None:
        self.said: list[tuple[float, Message, str]] = []
        self._world, self._source = world, source
        self._tracks: dict[int, str] = {}
        self._transfers: dict[int, str] = {}
        world.trace = self._note

    def _note(self, source: str, target: str, data: bytes) -> None:
        if source != self._source:
            return
        message = decode(data)
        stream = ""
        if isinstance(message, Track):
            self._tracks[message.number] = message.stream
        elif isinstance(message, Begin):
            stream = self._transfers[message.transfer] = self._tracks[message.track]
        elif isinstance(message, Fragment):
            stream = self._transfers[message.transfer]
        self.said.append((self._world.clock.at_s, message, stream))

    def streams(self) -> list[str]:
        return [stream for _, _, stream in self.said if stream]


def _ship_and_port(backlog: int) -> tuple[World, Wiretap]:
    world = World(1)
    ship = world.station("ship-a", "ship", "9321483")
    world.station("tokyo")
    chance = random.Random(1)
    for _ in range(backlog // 1000):
        ship.append("containers", rows(chance, 1000, 20))
    return world, Wiretap(world, "ship-a")


def test_an_alert_overtakes_a_backlog_by_all_but_one_fragment() -> None:
    world, tap = _ship_and_port(20_000)
    world.connect("ship-a", "tokyo", latency_s=LATENCY_S, rate_bytes_s=RATE_BYTES_S)
    world.run(10.0)
    assert tap.streams().count("containers") > 20, "the backlog is under way"
    raised_s = world.clock.at_s
    world.stations["ship-a"].append("alerts", [b"overboard"])
    world.run_until(lambda: bool(world.stations["tokyo"].log.rows.get(("alerts", world.stations["ship-a"].origin))))
    fragment_s = (FRAGMENT_BYTES_MIN + 200) / RATE_BYTES_S
    assert world.clock.at_s - raised_s <= LATENCY_S + fragment_s + 0.05
    assert not world.complete("tokyo")


def test_what_an_alert_is_believed_by_goes_right_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long reading takes, nothing of the backlog comes between: where the origin's key is known, the one waits for the other."""
    monkeypatch.setattr("tests.sync.world.READ_S", 0.1)
    world, tap = _ship_and_port(20_000)
    world.connect("ship-a", "tokyo", latency_s=LATENCY_S, rate_bytes_s=RATE_BYTES_S)
    world.run(10.0)
    for _ in range(3):
        tap.said.clear()
        for stream in ("alerts", "alerts.heads"):
            world.stations["ship-a"].append(stream, [b"overboard"])
        world.run_until(lambda: {"alerts", "alerts.heads"} <= set(tap.streams()))
        world.run(1.0)
        streams = tap.streams()
        assert abs(streams.index("alerts") - streams.index("alerts.heads")) == 1
        assert streams.count("containers") > 2, "the backlog is under way"


def test_lanes_leave_in_their_order() -> None:
    world, tap = _ship_and_port(1_000)
    ship = world.stations["ship-a"]
    for stream in ("exceptions", "metrics", "ships", "events", "alerts"):
        ship.append(stream, rows(random.Random(2), 300, 40))
    world.connect("ship-a", "tokyo", latency_s=LATENCY_S, rate_bytes_s=RATE_BYTES_S)
    world.run_until(lambda: world.complete("tokyo"))
    lanes = [Definitions().of(stream).lane for stream in tap.streams()]
    first_of_each = [lanes.index(lane) for lane in sorted(set(lanes))]
    assert first_of_each == sorted(first_of_each), lanes
    last_alert = max(at for at, lane in enumerate(lanes) if lane == 0)
    assert sum(lane != 0 for lane in lanes[:last_alert]) <= 2, "nothing else goes while alerts wait, but what had begun when they were read"


def test_the_newest_readings_go_beside_the_backlog() -> None:
    world, _ = _ship_and_port(40_000)
    ship, tokyo = world.stations["ship-a"], world.stations["tokyo"]
    key = ("containers", ship.origin)
    world.connect("ship-a", "tokyo", latency_s=LATENCY_S, rate_bytes_s=RATE_BYTES_S)
    world.run(8.0)
    ship.append("containers", [b"just now"])
    world.run_until(lambda: 40_000 in tokyo.log.rows.get(key, {}))
    had = set(tokyo.log.rows[key])
    assert 0 in had, "the backlog has begun to arrive"
    assert len(had) < 35_000, "and is far from done"
    world.run_until(lambda: world.complete("tokyo"))


def test_the_newest_may_be_dropped_before_they_are_sent() -> None:
    key = ("containers", Origin("ship-a", 1))
    held = RangeSet([(0, LIVE_RECORDS + 100)])
    sender = Sender("tokyo", lambda _: held, lambda _: 0, lambda _: Lane.READINGS)
    sender.work(key)
    held.remove(50, LIVE_RECORDS + 100)
    assert [(load.first, load.end) for load in sender.loads(0.0)] == [(0, 50)]
    held.remove(0, 50)
    sender.work(key)
    assert not sender.loads(0.0)


@pytest.mark.parametrize(("stream", "lane"), [("events", Lane.EVENTS), ("alerts", Lane.ALERTS)])
def test_what_is_signed_at_once_is_cut_nowhere(stream: str, lane: Lane) -> None:
    """The parts of a commit are believed together: neither do the newest go apart, nor is it shared with who brings the beginning."""
    key = (stream, Origin("ship-a", 1))
    held = RangeSet([(0, LIVE_RECORDS + 100)])
    sender = Sender("tokyo", lambda _: held, lambda _: 0, lambda _: lane)
    sender.work(key)
    assert [(load.first, load.end) for load in sender.loads(0.0)] == [(0, LIVE_RECORDS + 100)]
    sender = Sender("tokyo", lambda _: held, lambda _: 0, lambda _: lane)
    sender.claimed(key, 0, 1_000, 0.0)
    sender.work(key)
    assert [(load.first, load.end) for load in sender.loads(0.0)] == [(1_000, LIVE_RECORDS + 100)]
    origin = Sender("ship-a", lambda _: held, lambda _: 0, lambda _: lane)
    origin.claimed(key, 0, 1_000, 0.0)
    origin.work(key)
    assert [(load.first, load.end) for load in origin.loads(0.0)] == [(0, LIVE_RECORDS + 100)], "what comes from elsewhere may be forged"


def test_readings_that_come_all_the_time_go_together_and_one_alone_hardly_waits() -> None:
    world, tap = _ship_and_port(1_000)
    ship = world.stations["ship-a"]
    world.connect("ship-a", "tokyo", latency_s=0.001, rate_bytes_s=100e6)
    world.run_until(lambda: world.complete("tokyo"))
    world.run(1.0)
    tap.said.clear()
    alone_s = world.clock.at_s
    ship.append("containers", [b"alone"])
    world.run_until(lambda: world.complete("tokyo"))
    assert world.clock.at_s - alone_s <= LINGER_S + 0.05
    for _ in range(100):  # for two seconds
        ship.append("containers", [b"one of many"])
        world.run(0.02)
    world.run_until(lambda: world.complete("tokyo"))
    begun_s = [at_s for at_s, message, _ in tap.said if isinstance(message, Begin)]
    departures = sum(later - sooner > LINGER_S for sooner, later in pairwise(begun_s))
    assert 2.0 / LINGER_APART_S / 2 <= departures <= 2.0 / LINGER_APART_S + 1
    tap.said.clear()
    ship.append("containers", rows(random.Random(3), LINGER_RECORDS))
    world.run(0.05)
    assert world.complete("tokyo"), "many are a block of their own, and wait for nothing"


def test_what_waits_for_more_goes_in_time_though_more_comes_first() -> None:
    track, now_s = PeerTrack(), 10.0
    track.linger(now_s, LINGER_S, LINGER_APART_S)
    for _ in range(100):  # a busy node hears of more before it comes to send what has waited long enough
        now_s += LINGER_S
        track.linger(now_s, LINGER_S, LINGER_APART_S)
        assert not track.lingers(now_s)
    track.depart(now_s)
    track.linger(now_s + LINGER_S, LINGER_S, LINGER_APART_S)
    assert track.lingers(now_s + 2 * LINGER_S)
    assert not track.lingers(now_s + LINGER_APART_S)


def test_pings_do_not_wait_behind_data() -> None:
    world, _ = _ship_and_port(40_000)
    connection = world.connect("ship-a", "tokyo", latency_s=LATENCY_S, rate_bytes_s=RATE_BYTES_S)
    world.run(20.0)
    rtt_s = connection.ends["tokyo"].liveness.rtt_s
    assert rtt_s is not None
    assert rtt_s <= 2 * LATENCY_S + 2 * FRAGMENT_BYTES_MIN / RATE_BYTES_S


def test_fragments_are_as_large_as_the_line_takes_in_five_milliseconds() -> None:
    world, tap = _ship_and_port(60_000)
    connection = world.connect("ship-a", "tokyo", latency_s=0.001, rate_bytes_s=100e6)
    world.run_until(lambda: len(_pieces(tap)) > 40)
    assert _pieces(tap)[0] <= FRAGMENT_BYTES_MIN
    assert max(_pieces(tap)) == FRAGMENT_BYTES_MAX
    connection.rate_bytes_s = 2e6
    tap.said.clear()
    world.run_until(lambda: len(_pieces(tap)) > 20)
    assert max(_pieces(tap)[5:]) <= 2e6 * FRAGMENT_S, "a line that slows down is believed at once"
    connection.rate_bytes_s = RATE_BYTES_S
    tap.said.clear()
    world.run_until(lambda: len(_pieces(tap)) > 10)
    assert max(_pieces(tap)[5:]) == FRAGMENT_BYTES_MIN


def _pieces(tap: Wiretap) -> list[int]:
    return [len(message.piece) for _, message, _ in tap.said if isinstance(message, Begin | Fragment)]
