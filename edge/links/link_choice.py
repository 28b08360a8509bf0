"""Which link a ship keeps: the port's own where it lies in one, the satellite to headquarters at sea, or what the crew chose. The ship's
position says where it lies, and while there is none, the port's network (`edge/links/port_probe.py`). Where it lies in no port,
headquarters is dialled over a network that is not metered, class `lan`, if its door answers there. Where a port's door has not answered
within the time set, the ship keeps headquarters' link as well, until it does: its alerts are never without a way. Of several nodes of one
ship each keeps a port's link, and one headquarters' (`edge/links/satellite_election.py`). Each keeps headquarters' until it has once met
it, wherever the ship lies: before that neither knows the other's key, unless it was given, and accepts no record from a port in the other's
name (`landfall/node/peers/trust_on_first_use.py`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cargo.loss.event_time import BELIEVED_AHEAD_MS
from cargo.vocabulary.geo import distance_nm
from cargo.vocabulary.position_fixes import LastFix, fix_of
from edge.links.port_probe import POSITION_COUNTS_MS, Seeking, Yard
from edge.links.satellite_election import Turn
from edge.settings import PORT_PATIENCE_S, TAKEOVER_S, Headquarters, PortOfCall
from landfall.node.node import Node
from landfall.node.settings import PeerAddress
from landfall.system.replaced_files import replace_file
from streams.config.roles import LinkClass
from streams.log import LogReader
from streams.model.errors import Misuse
from streams.model.records import ORDER_AT

LEAVE_FACTOR = 1.1
"""A port is left when the ship is this much further out than its radius: a ship on the edge does not flap."""
SHIPS = "ships"
LOOK_S = 0.5
"""Pause between two looks at the ship's position, seconds: at thousands of times the fleet's speed it moves at every commit."""
BEFORE_MS = 3_600_000
"""Span of the ship's track before its last reading that a node reads at its start, order time, milliseconds."""
ASK_EVERY_S = 1.0
"""Interval between two looks, in port, at whether the ship is in session with it, seconds."""
AUTO, NONE, SATELLITE, LAN = "auto", "none", "satellite", "lan"
_TO_HEADQUARTERS: dict[str, LinkClass] = {SATELLITE: "satellite", LAN: "lan"}
_log = logging.getLogger(__name__)


FILE_NAME = "link.wish"


class Wished:
    """The link that the crew chose, in a file of the node's folder: radio silence continues after a power cut."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME

    def read(self, known: Collection[str], otherwise: str) -> str:
        """Return the wish that was kept last, if it is one of `known`; else `otherwise`, and the log says what it was."""
        try:
            wish = self._file.read_text("utf-8", "replace").strip()
        except FileNotFoundError:
            return otherwise
        if wish not in known:
            _log.warning("%s asks for the link %r, which is none of %s: it is %r now", self._file, wish[:40], sorted(known), otherwise)
            return otherwise
        return wish

    def keep(self, wish: str) -> None:
        """Durable when it returns, or the log says that it is not: on a full disk the wish holds until the node ends."""
        try:
            replace_file(self._file, f"{wish}\n".encode())
        except OSError as problem:
            _log.warning("the link is %r until the node ends, for %s can not be written: %s", wish, self._file, problem)


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The ship's last known position (degrees) and when it was measured (UTC ms)."""

    latitude_deg: float
    longitude_deg: float
    at_ms: int


class ShipPosition:
    """Position of the ship by its own location readings. One bad fix changes nothing until a second agrees, and a reading without a
    position nothing at all. For one thread at a time."""

    def __init__(self, imo: str) -> None:
        self._topic = f"{imo}.location"
        self._last = LastFix()
        self.early = False
        """Whether the last `look` left out a reading that is dated later than its own time: it may count at a later one."""

    def look(self, log: LogReader, now_ms: int | None) -> Whereabouts | None:
        """Return the last believed position at `now_ms` (UTC ms by the node's clock; None while that clock is doubted); None before there
        is one. Raises as `LogReader.history`.

        A reading that is dated later was measured while the clock was ahead, at an unknown time. A doubted clock leaves none out."""
        until_ms = math.inf if now_ms is None else now_ms + BELIEVED_AHEAD_MS
        if self._last.fix is not None and self._last.fix.at_ms > until_ms:
            self._last = LastFix()
        found = [row for batch in log.latest(SHIPS, self._topic) for row in batch.records.to_pylist()]
        rows = [row for row in found if row[ORDER_AT] <= until_ms]
        self.early = len(rows) < len(found)
        if found and self._last.fix is None:
            newest_ms = max((row[ORDER_AT] for row in rows), default=now_ms or 0)
            rows = log.history(self._topic, newest_ms - BEFORE_MS, newest_ms + 1, [SHIPS]).rows.to_pylist()
        fixes = (fix_of(row[ORDER_AT], row) for row in sorted(rows, key=lambda row: row[ORDER_AT]))
        self._last.take(fix for fix in fixes if fix is not None)
        fix = self._last.fix
        return Whereabouts(fix.latitude_deg, fix.longitude_deg, fix.at_ms) if fix else None


def port_at(ports: Sequence[PortOfCall], where: Whereabouts | None, before: str | None) -> PortOfCall | None:
    """Return the nearest port in whose radius the ship is; the one it was in `before` (a LOCODE) counts a tenth larger."""
    if where is None:
        return None
    inside = []
    for port in ports:
        away_nm = distance_nm(where.latitude_deg, where.longitude_deg, port.latitude_deg, port.longitude_deg)
        if away_nm <= port.radius_nm * (LEAVE_FACTOR if port.locode == before else 1):
            inside.append((away_nm, port.locode, port))
    return min(inside, key=lambda one: one[:2])[2] if inside else None


class LinkChoice:
    """Keep the node's links as the ship's position, or its crew, has it. Run `run` as background work."""

    def __init__(
        self,
        node: Node,
        ports: Sequence[PortOfCall],
        headquarters: Headquarters | None,
        port_patience_s: float = PORT_PATIENCE_S,
        takeover_s: float = TAKEOVER_S,
    ) -> None:
        """`port_patience_s` (wall): how long a port may not answer before the node keeps the satellite's link next to the port's.
        `takeover_s` (wall): how long another node of this ship, whose turn it is, may have no way ashore before this one dials."""
        self._turn = Turn(node, takeover_s)
        self._node, self._ports, self._headquarters, self._port_patience_s = node, ports, headquarters, port_patience_s
        self._imo = node.settings.identity
        self._moved = asyncio.Event()
        self._wished = Wished(node.settings.folder)
        self._known = {AUTO, NONE, *_TO_HEADQUARTERS, *(port.locode for port in ports)}
        self.wish = self._wished.read(self._known, AUTO)
        self._position = ShipPosition(self._imo)
        self.where: Whereabouts | None = None
        self._changed_s: float | None = None
        """When `where` changed, boot seconds. None before the first look: that finds a position of unknown age."""
        self._doubted = False
        self.port: str | None = None
        self._kept: list[PeerAddress] | None = None
        self._seeking, self._yard = Seeking(ports, node.clock), Yard(headquarters.lan_url if headquarters else None, node.clock)
        self._awaited = ""
        self._awaited_since_s = 0.0
        self._introduces = self._also_satellite = False

    def choose(self, wish: str) -> None:
        """Choose a link until the next choice, also over restarts of the node: `auto`, `none`, `satellite`, `lan` (headquarters over a
        network that is not metered, as in a yard), or a port's LOCODE. Raises Misuse for anything else."""
        if wish not in self._known:
            ports = sorted(port.locode for port in self._ports)
            raise Misuse(f"a link is auto, none, satellite, lan or one of {ports}, not {wish!r}", code="link_unknown")
        self._wished.keep(wish)
        self.wish = wish
        self._moved.set()

    def readings_wait(self) -> bool | None:
        """Return whether readings wait for another link, and digests of them go over the satellite meanwhile; None before links were
        chosen. They wait while no link that the ship keeps, or that its settings always dial, carries `containers`, and headquarters can be
        had over a satellite's that carries `digests`. It is a matter of policy: a link that is down for a moment changes nothing. But the
        link of a port that has not answered for `port_patience_s` does not count."""
        if self._kept is None:
            return None
        settings = self._node.settings
        if self._headquarters is None or not settings.policy("satellite").carries("digests"):
            return False
        over_satellite = [] if self._introduces else [peer for peer in self._kept if peer.link == "satellite"]
        answering = over_satellite or self._kept
        return not any(settings.policy(peer.link).carries("containers") for peer in (*settings.peers, *answering))

    async def run(self) -> None:
        """Look where the ship is whenever `ships` grows, and link accordingly, until cancelled."""
        loop = asyncio.get_running_loop()

        def changed(streams: frozenset[str]) -> None:
            if SHIPS in streams:
                loop.call_soon_threadsafe(self._moved.set)

        unsubscribe = self._node.log.subscribe(changed)
        self._moved.set()
        if self._headquarters and self._node.settings.policy("satellite").rate_bit_s is None:
            _log.warning("the satellite link has no rate_bit_s, so an alert may wait in its modem: set it, see docs/guide/links.md")
        try:
            while True:
                with suppress(TimeoutError):
                    asks = self._awaited or self._introduces or self._turn.shared or self._seeking.possible or self._yard.possible
                    asks = asks or self._position.early or self._doubted
                    async with asyncio.timeout(ASK_EVERY_S if asks else None):
                        await self._moved.wait()
                if self._moved.is_set() or self._position.early or self._doubted:
                    self._moved.clear()
                    await self._look()
                self._turn.share_budgets()
                if self.wish == AUTO and self._is_astray():
                    await self._seeking.seek()
                if self.wish == AUTO and self._is_to_dial() and (self.port is None or self._also_satellite):
                    await self._yard.look(self._is_in_the_yard())
                wanted = self._wanted()
                if wanted != self._kept:
                    self._kept = wanted
                    _log.info("links now: %s", ", ".join(f"{peer.node} ({peer.link})" for peer in wanted) or "none")
                    self._node.link([*self._node.settings.peers, *wanted])
                await asyncio.sleep(LOOK_S)
        finally:
            unsubscribe()

    async def _look(self) -> None:
        """Look where the ship is. A doubted clock has no part in it."""
        clock, before = self._node.clock, self.where
        self._doubted = clock.doubted()
        self.where = await asyncio.to_thread(self._position.look, self._node.log, None if self._doubted else clock.now_ms())
        if self._changed_s is None:
            self._changed_s = -math.inf
        elif self.where != before:
            self._changed_s = clock.boot_s()

    def _age_ms(self, where: Whereabouts) -> float:
        """Return the age of this position; while the clock is doubted, the time since the position changed, which no step alters."""
        clock = self._node.clock
        if not clock.doubted():
            return clock.now_ms() - where.at_ms
        return math.inf if self._changed_s is None else (clock.boot_s() - self._changed_s) * 1000

    def _wanted(self) -> list[PeerAddress]:
        lies = port_at(self._ports, self.where, self.port)
        if not self._is_astray():
            self._seeking.give_up()
        found_port = self._seeking.found
        port = lies or found_port
        self.port = port.locode if port else None
        own_choice: LinkClass = "lan" if self.wish == AUTO and self._yard.there else "satellite"
        ashore = [self._headquarters.address(_TO_HEADQUARTERS.get(self.wish, own_choice))] if self._headquarters else []
        if self.wish not in (AUTO, NONE, *_TO_HEADQUARTERS):
            port = next(call for call in self._ports if call.locode == self.wish)
        if port is None or self.wish in (NONE, *_TO_HEADQUARTERS):
            self._awaited = ""
            self._introduces = self.wish != NONE and self._is_unknown()
            return ashore if self._introduces or (self.wish != NONE and self._is_to_dial()) else []
        nodes = [call for call in self._ports if call.locode == port.locode]
        away = self._is_away(port.locode, nodes) and self.wish == AUTO
        if found_port and away:
            self._seeking.give_up()
        self._also_satellite = away or (found_port is not None and not self._in_session(nodes))
        self._introduces = self.wish == AUTO and not self._also_satellite and self._is_unknown()
        also = self._introduces or (self._also_satellite and self.wish == AUTO and self._is_to_dial())
        return [*(node.address("port") for node in nodes), *(ashore if also else [])]

    def _is_in_the_yard(self) -> bool:
        """Return whether the ship is in session with headquarters over a network that is not metered."""
        status = self._node.links.status().get(self._headquarters.node, {}) if self._headquarters else {}
        return bool(status.get("open")) and status.get("link") == "lan"

    def _is_unknown(self) -> bool:
        """Return whether this very node and headquarters' have never met, so that neither knows the other's key from it."""
        return self._headquarters is not None and not self._node.has_met(self._headquarters.node)

    def _is_astray(self) -> bool:
        """Return whether the ship does not know where it is, and no port's radius says so either."""
        old = self.where is None or self._age_ms(self.where) > POSITION_COUNTS_MS
        return old and port_at(self._ports, self.where, self.port) is None

    def _is_to_dial(self) -> bool:
        """Return whether the link to headquarters is this node's to keep: of several nodes of a ship one has it, unless the crew asks for
        it here."""
        return not self._turn.shared or self.wish in _TO_HEADQUARTERS or self._turn.ours()

    def _in_session(self, nodes: Sequence[PortOfCall]) -> bool:
        sessions = self._node.links.status()
        return any(sessions.get(one.node, {}).get("open") for one in nodes)

    def _is_away(self, locode: str, nodes: Sequence[PortOfCall]) -> bool:
        """Return whether the ship has waited in vain, for its full patience, to be in session with any node of this port."""
        now_s = self._node.clock.monotonic_s()
        if locode != self._awaited or self._in_session(nodes):
            self._awaited, self._awaited_since_s = locode, now_s
        return now_s - self._awaited_since_s >= self._port_patience_s
