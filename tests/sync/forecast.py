"""A small voyage twice: sailed by the simulated fleet with the product's own sessions and budgets, and planned for the same line and rows.

A day and a half at sea with a satellite link whose budget does not last the day, then a port with a slow line. Rows and messages are the
fleet's: no WebSocket, no TLS, its own blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from edge.planning.backlog_model import PlannedLink, ShipBacklog
from edge.planning.leg_simulation import LegOutcome, Link, Sailing
from edge.planning.record_bytes import MessageCarrier
from edge.planning.stream_flows import Flow
from streams.config.roles import PORT, SATELLITE, LinkPolicy
from streams.config.stream_definitions import Definitions
from streams.link_budget.daily_budget import Budget
from streams.model.identifiers import Origin
from streams.replication import Key
from streams.replication.sender import FRAGMENT_BYTES_MIN
from tests.sync.afloat import Fleet, Wired
from tests.sync.framelog import block_of
from tests.sync.nodes import Place, Way
from tests.sync.radio import OPENING_BYTES, WINDOW_BYTES

DAY_S, SEA_S, PORT_S = 86_400.0, 1.5 * 86_400.0, 900.0
BUDGET = Budget(205_000, 30_000, overhead_percent=12.0, price_per_mb=8.0)
AT_SEA = Way("ship-a", "hq", "satellite", 0.3, 16_000.0)
IN_PORT = Way("ship-a", "tokyo", "port", 0.02, 20_000.0)
ASHORE = Way("tokyo", "hq", "port", 0.005, 5e6)
"""By it Tokyo has what the ship told headquarters at sea; it comes up before she does."""
DIALS_EVERY_S = 30.0
JOINED_BLOCKS = 1_024
"""The simulated log gives so many of its blocks as one, as `landfall/node/block_store.py` does."""


@dataclass(frozen=True, slots=True)
class Written:
    """A stream aboard: every `every_s` a commit of `together` rows of `bytes_each`."""

    stream: str
    every_s: float
    together: int
    bytes_each: int

    def flow(self) -> Flow:
        """The same for the plan; what its rows take, the fleet's own blocks tell."""
        key, offset = (self.stream, Origin("ship-a", 1 << 60)), round(SEA_S / self.every_s * self.together / 2)

        def block_bytes(records: int) -> float:
            return len(block_of(key, offset, [bytes(self.bytes_each)] * records).to_bytes())

        joined = JOINED_BLOCKS * self.together
        lane = Definitions().of(self.stream).lane
        return Flow(self.stream, lane, self.together / self.every_s, block_bytes, joined, self.together, offset=offset)


WRITTEN = (
    Written("alerts", 4 * 3_600.0, 1, 300),
    Written("ships", 60.0, 1, 70),
    Written("containers", 100.0, 10, 60),
    Written("metrics", 300.0, 1, 400),
)


@dataclass(slots=True)
class Sailed:
    """What truly came of one leg, per stream: seconds from its beginning until the newest, and until all was ashore, the greatest age of
    what was not; its bytes, and per day what was charged and when the link was cut first (seconds from the day's beginning)."""

    newest_after_s: dict[str, float] = field(default_factory=dict)
    all_after_s: dict[str, float] = field(default_factory=dict)
    lag_max_s: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    charged: list[int] = field(default_factory=list)
    cut_s: list[float | None] = field(default_factory=list)


class Crossing:
    """The voyage in the simulated fleet."""

    def __init__(self, seed: int = 1) -> None:
        places = [Place("ship-a", "ship", "9321483", budget=BUDGET), Place("hq", "hq"), Place("tokyo", "port", "JPTYO")]
        self.fleet = Fleet(seed, places)
        self.ship = self.fleet.nodes["ship-a"]
        self.bytes = 0
        self.rows = 0
        self.began_s = self.fleet.clock.at_s
        self.fleet.keeping.read_blocks = JOINED_BLOCKS

        def said(end: Wired, data: bytes) -> None:
            self.bytes += len(data) if self.ship in (end.node, end.other.node) else 0

        self.fleet.said = said
        for written in WRITTEN:
            self._writes(written)

    def sail(self) -> tuple[Sailed, Sailed]:
        """At sea, then in port."""
        self.fleet.after(SEA_S - 60.0, lambda: self.fleet.dial(ASHORE))
        sea = self._leg(AT_SEA, SEA_S, every_s=60.0)
        for connection in list(self.fleet.connections):
            self.fleet.cut(connection)
        return sea, self._leg(IN_PORT, PORT_S, every_s=0.5)

    def _writes(self, written: Written) -> None:
        def write() -> None:
            rows = [(self.rows + at).to_bytes(8, "big") + bytes(written.bytes_each - 8) for at in range(written.together)]
            self.rows += written.together
            self.ship.append(written.stream, rows)
            self.fleet.after(written.every_s, write)

        self.fleet.after(written.every_s, write)

    def _leg(self, way: Way, lasts_s: float, every_s: float) -> Sailed:
        """`every_s`: how often it is looked how things stand."""
        fleet, sailed = self.fleet, Sailed()
        begun_s, bytes_ = fleet.clock.at_s, self.bytes
        dial_s = begun_s
        while fleet.clock.at_s < begun_s + lasts_s - 1e-6:
            if fleet.clock.at_s >= dial_s:
                fleet.dial(way)
                dial_s += DIALS_EVERY_S
            fleet.run(every_s)
            self._look(way, begun_s, sailed)
        sailed.bytes = self.bytes - bytes_
        return sailed

    def _look(self, way: Way, begun_s: float, sailed: Sailed) -> None:
        now_s, after_s = self.fleet.clock.at_s, self.fleet.clock.at_s - begun_s
        for written in WRITTEN:
            key: Key = (written.stream, self.ship.log.origin)
            ours, theirs = self.ship.log.of(key).held, self.fleet.nodes[way.b].log.of(key).held
            lacking = ours.without(theirs)
            sailed.waiting[written.stream] = lacking.count()
            if ours.end() == theirs.end():
                sailed.newest_after_s.setdefault(written.stream, after_s)
            if not lacking:
                sailed.all_after_s.setdefault(written.stream, after_s)
            written_s = self.began_s + (lacking.first() // written.together + 1) * written.every_s if lacking else now_s
            sailed.lag_max_s[written.stream] = max(sailed.lag_max_s.get(written.stream, 0.0), now_s - written_s)
        if way is AT_SEA and self.ship.purse:
            self._look_at_the_purse(after_s, sailed)

    def _look_at_the_purse(self, after_s: float, sailed: Sailed) -> None:
        day, purse = int(after_s // DAY_S), self.ship.purse
        assert purse
        if day == len(sailed.charged) and after_s < SEA_S:
            sailed.charged.append(0)
            sailed.cut_s.append(None)
        if after_s % DAY_S:
            sailed.charged[day] = purse.spent_bytes()  # what lies at midnight itself is the next day's
            if purse.state(OPENING_BYTES) != "open" and sailed.cut_s[day] is None:
                sailed.cut_s[day] = after_s % DAY_S


def forecast(flows: Iterable[Flow] | None = None, budget: Budget | None = BUDGET) -> tuple[LegOutcome, LegOutcome]:
    """The plan of the same voyage: at sea, then in port."""
    planned = list(flows) if flows is not None else [written.flow() for written in WRITTEN]
    carrier = MessageCarrier(lambda bytes_, masked: bytes_, FRAGMENT_BYTES_MIN)
    sailing = Sailing(ShipBacklog(planned, 1_777_593_600.0))
    sea = _link(SATELLITE, AT_SEA, planned, carrier)
    if budget:
        sea = replace(sea, budget=budget, window_bytes=WINDOW_BYTES, opening_bytes=OPENING_BYTES)
    return sailing.leg("at sea", sea, SEA_S), sailing.leg("in port", _link(PORT, IN_PORT, planned, carrier), PORT_S)


def _link(policy: LinkPolicy, way: Way, flows: list[Flow], carrier: MessageCarrier) -> Link:
    streams = [flow.stream for flow in flows if policy.carries(flow.stream)]
    line = PlannedLink(carrier, way.rate_bytes_s, carrier.idle_bytes_s(policy.pace), streams)
    return Link(policy, line, carrier.meeting(policy, Origin("ship-a", 1 << 60), streams))
