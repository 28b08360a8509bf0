"""The sessions of one node: peers that it dials and keeps, peers that come, and never two sessions with the same peer."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from landfall.access.credentials import Credentials
from landfall.node.block_store import Store
from landfall.node.peers.duplicate_nodes import Twins
from landfall.node.peers.link_budgets import ALERTS, LinkBudgets, for_alerts
from landfall.node.peers.live_session import Live
from landfall.node.peers.peer_acknowledgements import Ashore, ClaimedRanges
from landfall.node.peers.peer_identification import Guest, Guests
from landfall.node.peers.peer_penalties import Barred
from landfall.node.peers.session_registry import SessionRegistry
from landfall.node.peers.session_runner import Drive, Ears
from landfall.node.peers.traffic import Traffic
from landfall.node.peers.withdrawn_nodes import Withdrawn
from landfall.node.settings import KnownPeer, NodeSettings, PeerAddress
from landfall.transport.dialer import Dialler
from landfall.transport.websocket import Wire
from streams.config.roles import LinkClass, LinkPolicy, companions
from streams.config.stream_definitions import Definitions
from streams.link_budget.budget_shares import Word
from streams.model.clock import Clock, WallClock
from streams.model.errors import LandfallError, NotAllowed
from streams.model.metrics import Metrics
from streams.model.ranges import RangeSet
from streams.replication import NAME_IN_USE, PLAYED_BACK, Exchange, Session, Terms
from streams.replication.ingress_quota import BYTES_PER_DAY
from streams.replication.link_terms import Key, anything
from streams.replication.sync_messages import Refuse

logger = logging.getLogger("landfall.node")

BACKOFF_FIRST_S = 0.25
BACKOFF_MAX_S: dict[LinkClass, float] = {"lan": 2.0, "port": 5.0, "satellite": 30.0}
BACKOFF_SOON_S, SOON_S = 1.0, 30.0
"""Maximum back-off, and how long it holds after a good session has ended, seconds: a link that was cut is most often back soon."""
FAREWELLS_S = 3.0
_NOT_WANTED = Refuse("this link is not wanted any more", code="link_not_wanted")
STEADY_S = 5.0
"""Minimum duration of a good session, seconds. After it the next is dialled soon; a session that was refused at once is not retried all the
time.
"""


WAITING_MAX = 256
"""Maximum number of messages of credentials that wait to be taken. Beyond it, the oldest is dropped: its sender sends all of them again
with its next change."""


class PairCopy:
    """Copies the credentials of one node to the other nodes of its ship or port, and takes theirs where they are newer.

    Call it from the node's event loop.
    """

    def __init__(self, credentials: Credentials, exchange: Exchange, report: Callable[..., None]) -> None:
        self._credentials, self._exchange, self._report = credentials, exchange, report
        self._came = deque[Sequence[bytes]](maxlen=WAITING_MAX)
        self._reported_problem = ""
        credentials.on_change(self._send_credentials)
        self._send_credentials()

    def came(self, entries: Sequence[bytes]) -> None:
        """Record entries that another node of this ship or port has."""
        self._came.append(entries)

    async def take(self) -> None:
        """Write down the newer entries of those that came since the last call. The file's change is then detected like any other change of
        it.
        """
        entries = [entry for message in self._came for entry in message]
        self._came.clear()
        if not entries:
            return
        try:
            changed, self._reported_problem = await asyncio.to_thread(self._credentials.merge, entries), ""
        except LandfallError as problem:
            if str(problem) != self._reported_problem:
                self._reported_problem = str(problem)
                what, outcome = "another node's credentials are not taken", "those of before hold"
                self._report(what, outcome, code=problem.code, problem=self._reported_problem)
            return
        if changed:
            logger.info("credentials of another node of this ship or port are taken: %s", ", ".join(changed))

    def _send_credentials(self) -> None:
        self._exchange.send_credentials(self._credentials.shared)


def longer_backoff_s(backoff_s: float, link: LinkClass, since_good_s: float) -> float:
    """Return how long to wait after one more failed dial, that long after a good session has ended, seconds."""
    return min(backoff_s * 2, BACKOFF_SOON_S if since_good_s < SOON_S else BACKOFF_MAX_S[link])


@dataclass(slots=True)
class _Kept:
    address: PeerAddress
    task: asyncio.Task[None] | None = None


class Links:
    """The links of one node. It keeps sessions with the peers it is to dial, and accepts sessions of those that come. Call it from the
    node's event loop.
    """

    def __init__(
        self,
        settings: NodeSettings,
        exchange: Exchange,
        store: Store,
        clock: Clock,
        metrics: Metrics,
        report: Callable[..., None],
        *,
        definitions: Definitions,
        budgets: LinkBudgets,
        withdrawn: Withdrawn,
        credentials: Credentials,
        jitter: random.Random | None = None,
    ) -> None:
        self._definitions, self._budgets, self._withdrawn = definitions, budgets, withdrawn
        self._guests = Guests(settings.known, settings.node, credentials, metrics)
        credentials.on_change(self._end_without_credential)
        self._pair = PairCopy(credentials, exchange, report)
        self._settings = settings
        self._exchange = exchange
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._report, self._barred = report, Barred(clock.monotonic_s, report)
        self._jitter = jitter or random.Random()
        self._dialler = Dialler(settings.node, settings.tls.files() if settings.tls else None)
        self._known = {peer.node: peer for peer in settings.known}
        self._of_one_ship = {settings.node, *settings.companions()}
        tariffs = {link: link_settings.tariff() for link, link_settings in settings.links.items()}
        self._traffic, self._served = Traffic(settings.folder, tariffs, WallClock().now_ms()), list[Live]()
        self._kept: dict[str, _Kept] = {}
        self.twins = Twins(settings.node, clock, report)
        self._places = SessionRegistry(settings.node, self.twins)
        self._live = self._places.live
        self._ashore = Ashore(self._of_one_ship, definitions)
        self._again = asyncio.Event()
        self._companion_spoke = asyncio.Event()
        self._closing = False
        self._running: set[asyncio.Task[Any]] = set()
        metrics.gauges("budget.", budgets.gauges())  # before this node's first report: a node that reports no budget has no part in it

    def keep(self, peers: Collection[PeerAddress]) -> None:
        """Dial exactly these peers from now on: dialled sessions with others end, and the back-off is reset."""
        wanted = {address.node: address for address in peers}
        if strangers := sorted(set(wanted) - set(self._known)):
            raise NotAllowed(
                f"peers to dial must be known in the settings: {strangers}", hint="add them to `known`", code="peer_not_listed"
            )
        for name, kept in list(self._kept.items()):
            if wanted.get(name) != kept.address:
                del self._kept[name]
                self._places.end(name, _NOT_WANTED, only_dialled=True)
                if kept.task:
                    kept.task.cancel()
        for name, address in wanted.items():
            if name not in self._kept:
                kept = self._kept[name] = _Kept(address)
                kept.task = asyncio.create_task(self._keep(address), name=f"link to {name}")
        self.hurry()

    def shared(self) -> dict[str, dict[Key, bool]]:
        """Return, per peer in session, whether the two may exchange each key now, as far as is known here."""
        keys = [key for stream in self._exchange.streams() for key in self._exchange.keys(stream)]
        return {name: {key: live.drive.session.shares(key) for key in keys} for name, live in self._live.items()}

    def settled(self, key: Key) -> dict[str, RangeSet]:
        """Return, per peer in session, what it claims to have of `key` or to need no more."""
        return {name: one.sender.settled_by_peer().get(key, RangeSet()).copy() for name, one in self.sessions().items()}

    def sessions(self) -> dict[str, Session]:
        """Return the open session of each peer in session."""
        return {name: live.drive.session for name, live in self._live.items() if live.drive.session.open}

    def durable_ashore(self) -> ClaimedRanges:
        """Return what peers ashore have of this ship's own, by the claim of any: nothing may be deleted because of it."""
        return self._noted().said()

    def at_home(self) -> ClaimedRanges:
        """Return what the streams' homes have of this ship's own, by their own claims in any session since the start."""
        return self._noted().at_home()

    def on_other_disks(self, key: Key) -> RangeSet | None:
        """Return what the other nodes of this ship or port in session claim to have of `key`; None while there is none."""
        sessions = self.with_companions()
        return RangeSet(part for one in sessions for part in one.sender.settled_by_peer().get(key, ())) if sessions else None

    def with_companions(self) -> list[Session]:
        """Return the sessions with the other nodes of this ship or port in which both ends have compared what they have."""
        return [one for one in self.sessions().values() if companions(self._settings.me(), one.peer)]

    async def companion_spoke(self, within_s: float) -> None:
        """Wait until another node of this ship or port has sent anything, at most `within_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._companion_spoke.wait()

    def distrust(self, key: Key, first: int, end: int) -> list[str]:
        """Mark these offsets as not what their origin signed: `Exchange.distrust`."""
        return self._exchange.distrust(key, first, end, self._clock.monotonic_s())

    def redefined(self, before: Mapping[str, Mapping[Key, bool]]) -> None:
        """Start sessions again, at once, whose shared streams have changed. Streams are managed differently now, and `before` was shared
        until this step of the event loop.

        Sessions start again too in which the peer, which received the change first, has sent what must be received again; so do newcomers'
        sessions.
        """
        shared = self.shared()
        changed = [name for name, live in self._live.items() if shared[name] != before[name] or live.drive.session.missed()]
        for name in {*changed, *self._places.newcomers()}:
            self._places.end(name, Refuse("headquarters has set streams otherwise: meet again", code="streams_redefined"))
        self.hurry()

    def end_withdrawn(self) -> None:
        """End the sessions with nodes that headquarters has withdrawn. They are neither admitted nor dialled until headquarters takes that
        back.
        """
        for name in self._places.names():
            if refusal := self._turned_away(name):
                logger.warning("no session with %s any more: %s (%s)", name, refusal.sentence, refusal.code)
                self._places.end(name, refusal)

    def hurry(self) -> None:
        """Dial at once all peers that wait for their back-off: a link may have come up."""
        self._again.set()
        self._again = asyncio.Event()

    def alerted(self) -> None:
        """Dial at once a link that is kept for alerts alone: there may be a new alert."""
        if self._budgets.any_spent():
            self.hurry()

    def grant(self, link: str, day: str, bytes_: int) -> None:
        """Allow links of this class this many charged bytes above their budget on `day` (UTC). A link that waited is dialled at once."""
        self._budgets.grant(link, day, bytes_)
        self.hurry()

    def heard_of_budgets(self, who: str, words: Mapping[str, tuple[str, Word]]) -> None:
        """Record the report of another node of this ship on the budgets that they share: `LinkBudgets.heard`. If it has a session here, it
        is given a part of them.
        """
        self._budgets.heard(who, words)
        if who in self._live and self._budgets.give():
            self._look_after_budgets()

    def budgets(self) -> dict[str, dict[str, Any]]:
        """Return, per class of link with a budget, the day, what was spent of what, what it cost, and what the link is open for."""
        return self._budgets.status()

    def traffic(self) -> dict[str, dict[str, Any]]:
        """Return, per class of link that was ever up, since when it is counted, bytes each way, and what they cost."""
        return self._traffic.status(one.passed() for one in self._served)

    def who(self, node: str, certified: str | None, token: str) -> Guest:
        """Return the known peer that comes as `node`: `Guests.who`. Raises NotAllowed also for one to turn away."""
        guest = self._guests.who(node, certified, token)
        refusal = self._turned_away(node)
        if refusal is None and self._settings.dials_alone() and node not in self._of_one_ship:
            ship = f"'{self._settings.node}' is a ship whose settings say what its links carry or cost"
            refusal = Refuse(f"{ship}: it dials, and is dialled by its own nodes alone", code="ship_dials")
        if refusal:
            self._metrics.count("links_refused")
            raise NotAllowed(refusal.sentence, code=refusal.code)
        return guest

    async def accept(self, guest: Guest, link: LinkClass, wire: Wire) -> None:
        """Run the session with a peer that has come, until it ends."""
        self._guests.came(guest)
        policy = self._settings.policy(link).narrowed(guest.principal.allowed["replicate"])  # the policy that is sent to the peer
        await self._run(guest.peer, policy, wire, guest)

    def _end_without_credential(self) -> None:
        """End the sessions of peers whose credential was withdrawn or changed."""
        for name in self._guests.without_credential():
            self._places.end(name, Refuse("the credential it came with does not hold any more", code="credential_withdrawn"))

    def status(self) -> dict[str, dict[str, Any]]:
        """Return, per peer in session, class of link, round trip in ms, bytes and records each way, and records it still lacks."""
        return {name: live.status(self._clock.monotonic_s()) for name, live in sorted(self._live.items())}

    async def run(self) -> None:
        """Measure, as long as the node runs: gauges `link.<peer>.<class>.<what>` of the present sessions, and of no others."""
        while True:
            gauges = {
                f"link.{name}.{status['link']}.{what}": value
                for name, status in self.status().items()
                for what, value in status.items()
                if isinstance(value, int | float)
            }
            self._metrics.gauges("link.", gauges)
            self._metrics.gauge("links", len(self._live))
            for link, passed in self.traffic().items():
                for what in ("sent_bytes", "received_bytes", "cost"):
                    if passed[what] is not None:
                        self._metrics.gauge(f"traffic.{link}.{what}", passed[what])
            self._look_after_budgets()
            await self._pair.take()
            self.twins.update_troubles(self._metrics.troubles)
            self._traffic.keep((live.passed() for live in self._served), self._clock.monotonic_s())
            await asyncio.sleep(1.0)

    async def close(self) -> None:
        """End all sessions, since the node stops, and dial no more."""
        self._closing = True
        for name in self._places.names():
            self._places.end(name, Refuse("the node is stopping", code="node_stopping"))
        async with AsyncExitStack() as last:
            last.callback(self._budgets.settle)
            last.callback(lambda: self._traffic.keep((live.passed() for live in self._served), math.inf))
            last.push_async_callback(self._dialler.close)
            if self._running:
                await asyncio.wait(self._running, timeout=FAREWELLS_S)
            tasks = [kept.task for kept in self._kept.values() if kept.task]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)  # unlike gather it can be given up

    async def _keep(self, address: PeerAddress) -> None:
        backoff_s, reported_problem, good_ended_s = BACKOFF_FIRST_S, "", -math.inf
        peer = self._known[address.node]
        while not self._closing:
            again = self._again
            dialled = address.node not in self._live and not self._turned_away(address.node)
            if dialled and (policy := self._policy(address.node, address.link)):
                try:
                    meter = self._budgets.meter(policy, partial(self._traffic.dialled, policy.link_class))
                    wire = await self._dialler.dial(address.url, address.node, address.shown_token(), address.link, meter)
                    opened_s, reported_problem = self._clock.monotonic_s(), ""
                    await self._run(peer, policy, wire)
                    if (ended_s := self._clock.monotonic_s()) - opened_s >= STEADY_S:
                        backoff_s, good_ended_s = BACKOFF_FIRST_S, ended_s
                except LandfallError as problem:
                    if str(problem) != reported_problem:
                        logger.info("no link to %s yet (%s): %s", address.node, problem.code, problem)
                        reported_problem = str(problem)
                    self._metrics.count(f"link.{address.node}.dial_failed")
            try:
                async with asyncio.timeout(backoff_s * self._jitter.uniform(0.5, 1.0)):
                    await again.wait()
                backoff_s = BACKOFF_FIRST_S
            except TimeoutError:
                backoff_s = longer_backoff_s(backoff_s, address.link, self._clock.monotonic_s() - good_ended_s)

    def _turned_away(self, name: str) -> Refuse | None:
        """Return why that node is turned away now; None when it is not. Headquarters is never withdrawn: only it could take that back."""
        if name in self._withdrawn and self._known[name].role != "hq":
            return Refuse(f"headquarters has withdrawn '{name}'", code="node_withdrawn")
        return self._barred.refusal(name)

    def _policy(self, peer: str, link: LinkClass) -> LinkPolicy | None:
        """Return what a link of this class to `peer` is to be dialled for now; None when its budget allows nothing."""
        policy = self._settings.policy(link)
        if not self._budgets.spent(link):
            return policy
        return for_alerts(policy) if policy.carries(ALERTS) and self._alerts_wait(peer) else None

    def _alerts_wait(self, peer: str) -> bool:
        """Return whether this ship has an alert of its own to dial `peer` for. What another port claims to have keeps no alert back."""
        ashore = self._noted()
        own = [key for key in self._exchange.keys(ALERTS) if key[1].node in self._of_one_ship]
        return any(ashore.wait_for(peer, key, self._exchange.held(key)) for key in own)

    def _noted(self) -> Ashore:
        for live in self._live.values():
            self._ashore.note(live.drive.session)
        return self._ashore

    def _look_after_budgets(self) -> None:
        for reason, outcome, details in self._budgets.news():
            self._report(reason, outcome, **details)
        self._metrics.gauges("budget.", self._budgets.gauges())
        for name, live in list(self._live.items()):
            kept_for_alerts = live.dialled_here and live.policy != self._settings.policy(live.link)
            if kept_for_alerts and not (self._budgets.spent(live.link) and self._alerts_wait(name)):
                self._places.end(name, Refuse("the day's budget of this link is spent, and no alert waits", code="budget_spent"))

    async def _run(self, peer: KnownPeer, policy: LinkPolicy, wire: Wire, guest: Guest | None = None) -> None:
        """Run one session; `guest`: the peer that has come, None where it was dialled here."""
        name = peer.node
        if self._closing or self._turned_away(name):
            await wire.close()
            return
        self._places.expect(name)
        exchange = self._exchange
        terms = Terms(
            self._settings.me(),
            peer.peer(),
            policy,
            exchange.roles,
            definitions=self._definitions,
            ships=exchange.ships,
            nonces=wire.nonces,
            bytes_per_day=peer.bytes_per_day or BYTES_PER_DAY[peer.role],
            may_replicate=guest.may_replicate if guest else anything,
        )

        opened = partial(logger.info, "connected to %s over %s", name, policy.link_class)

        def report(reason: str, outcome: str, **details: Any) -> None:
            if reason == NAME_IN_USE:
                return self.twins.refused_there(name, details)
            whence = {"address": wire.address} if reason == PLAYED_BACK else {}
            self._barred.heard(name, reason, outcome, {**details, **whence})

        def heard() -> None:
            self._places.heard(name, live)
            if companions(terms.me, terms.other):
                self._heard_companion()

        drive = Drive(exchange, terms, wire, self._store, self._clock, Ears(opened, report, heard, self._pair.came))
        live = Live(drive, policy, guest is None, wire)
        self._places.come(name, live)
        self._metrics.count("sessions_opened")
        await self._serve(name, live)

    def _heard_companion(self) -> None:
        self._companion_spoke.set()
        self._companion_spoke = asyncio.Event()

    async def _serve(self, name: str, live: Live) -> None:
        running = asyncio.create_task(live.drive.run(), name=f"session with {name}")
        self._running.add(running)
        if not live.dialled_here:
            self._served.append(live)  # what is dialled here is counted at its socket
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            live.drive.close(_NOT_WANTED)
            await asyncio.wait((running,), timeout=FAREWELLS_S)
            running.cancel()
            raise
        finally:
            self._running.discard(running)
            self._ashore.note(live.drive.session)
            self._places.left(name, live)
            if not live.dialled_here:
                self._served.remove(live)
                self._traffic.ended(live.passed())
            self._log_left(name, live, running)

    def _log_left(self, name: str, live: Live, running: asyncio.Task[None]) -> None:
        if running.done() and not running.cancelled() and (problem := running.exception()):
            self._report("a session failed on this side", "session ended", code="session_failed", peer=name, problem=repr(problem))
        logger.info("left %s (%s): %s", name, live.drive.end.code, live.summary())
