"""One node: its log, its sessions, its door, its metrics and its reports of problems. Ships, ports and headquarters build on it.

node = Node(settings, clock)
node.guard.route("GET", "/console", page, OPEN)  # own routes, before start
node.add_background("rules", judge)           # an async function, run from start to stop
await node.start()
await node.append([Append("events", to_batch(records))])
await node.run_until_stopped()                # until SIGTERM, SIGINT or node.stop()
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from aiohttp import web

from landfall.access.credentials import Credentials
from landfall.access.wrong_secrets import WrongSecrets
from landfall.node.block_store import Store
from landfall.node.fleet_clock import clock_of, follow
from landfall.node.http.connection_guard import Doorkeeper, open_many_files
from landfall.node.http.http_api import HttpApi
from landfall.node.http.request_guard import Guard
from landfall.node.peers.link_budgets import ALERTS, BudgetClock, LinkBudgets
from landfall.node.peers.session_manager import Links
from landfall.node.peers.trust_on_first_use import Introductions
from landfall.node.services.audit_job import Checking, keep_checking
from landfall.node.services.background_work import Background, keep_going
from landfall.node.services.clock_job import ClockKeeper, machine_boot_id
from landfall.node.services.definition_watcher import Defining
from landfall.node.services.retention_job import Retaining
from landfall.node.services.signing_job import KEY_NAME, keep_signing, load_or_make_key
from landfall.node.services.telemetry_reporter import TelemetryReporter
from landfall.node.services.upkeep_job import keep_up
from landfall.node.services.verify_job import Rounds, keep_verifying
from landfall.node.settings import NodeSettings, PeerAddress
from landfall.node.shutdown import ShutdownStep, end_in_turn, set_when_asked
from landfall.node.write_authorization import Originating
from landfall.storage.damage import Damage
from landfall.storage.log_kinds import AnyLog, LogOptions, open_log
from landfall.storage.peers_file import KnownPeers
from landfall.system.listen_address import address, listening
from landfall.transport.certificate_renewal import keep_certificate, log_doubt
from landfall.transport.tls import serving, shown_of
from streams.codec import BlockCodec
from streams.config.stream_definitions import Definitions
from streams.group_commit import GroupCommitter
from streams.integrity.admission_verifier import Believing
from streams.integrity.copy_reader import Copy
from streams.integrity.keyring import Keyring, own_keys
from streams.integrity.online_audit import Watch
from streams.integrity.record_authorization import Entitled, Judge
from streams.integrity.signed_watermark import SignedUntil
from streams.integrity.signer import Signer
from streams.log import Append, Appended, Log, PeerKnowsMore
from streams.model.block import Block
from streams.model.clock import Clock, FleetClock, WallClock
from streams.model.errors import LandfallError
from streams.model.metrics import Metrics
from streams.replication import Exchange, OldCopy
from streams.skipped_records import LOOK_EVERY_S, NODE, OVER, FloorTrouble, floor_append

logger = logging.getLogger("landfall.node")

WORK_ENDED_WITHIN_S = ENDED_WITHIN_S = 20.0
"""Maximum time for background work, and for each other part of a node, to end, seconds. Commits are waited for without a limit."""


async def keep_floor_trouble(log: Log, append: Callable[[Sequence[Append]], Awaitable[Any]], metrics: Metrics, clock: Clock) -> None:
    """Look for floor trouble every LOOK_EVERY_S, until cancelled, and report its end. Raises RetryLater when the disk is full."""
    trouble = FloorTrouble(log, NODE, metrics.troubles, clock.monotonic_s)
    while True:
        if reason := await asyncio.to_thread(trouble.look):
            await append([floor_append(NODE, reason, OVER, clock.now_ms())])
        await asyncio.sleep(LOOK_EVERY_S)


class Node:
    """A node of the network. It is made, given routes and background work, started once and stopped once. Call it from one event loop.

    `log`, `metrics` and `append` may be used from `start` on; `report`, `metrics`, `definitions` (of streams, as of now) from any
    thread.
    """

    def __init__(self, settings: NodeSettings, clock: Clock | None = None, process: str = "node", wall: Clock | None = None) -> None:
        """Make the node. `process`: its name in `metrics` and `exceptions`. Tests pass their own `clock`, and `wall` for link budgets."""
        self.settings = settings
        self._wall = wall or WallClock()
        self._backgrounds: dict[str, Background] = {}
        self._needs: dict[str, Callable[[], bool]] = {}
        self._judges: dict[str, Judge] = {}
        self.metrics = Metrics(f"{settings.node}.{process}")
        asked = clock or clock_of(settings.clock)
        self.clock_keeper = ClockKeeper(settings.folder, asked, machine_boot_id(), self.metrics, self.report)
        self.clock = self.clock_keeper.clock
        if isinstance(asked, FleetClock) and clock is None:
            self._backgrounds["clock"] = partial(follow, asked, settings.clock)
        self.app = web.Application(client_max_size=0)
        self._doorkeeper = Doorkeeper(self.clock.monotonic_s)
        self._reporter = TelemetryReporter(self.metrics, self.clock, settings)
        self.definitions = Definitions(settings.retentions())
        self._defining = Defining(settings.me(), self.definitions, self.report)
        self.retaining = Retaining(settings, self.definitions, self.clock_keeper.check, self.metrics, self.report)
        self.originating = Originating(settings.me(), self.definitions, self._judges, self.metrics, self.report)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._log: AnyLog | None = None
        self._committer: GroupCommitter | None = None
        self._links: Links | None = None
        self._store: Store | None = None
        self._watch: Watch | None = None
        self._introductions: Introductions | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._started_s = self.clock.monotonic_s()
        self._runner: web.AppRunner | None = None
        self.credentials = Credentials(settings.folder)
        wrong = WrongSecrets(self.clock, self.metrics, self.report)
        self.guard = Guard(self.app, self.credentials, wrong, self.report, settings.trusted_proxies)
        HttpApi(self, self.guard).mount(self.app)

    @property
    def log(self) -> Log:
        """This node's log, open from `start` to `stop`."""
        if self._log is None:
            raise RuntimeError("the node is not started, its log not open")
        return self._log

    @property
    def links(self) -> Links:
        """The sessions with peers, from `start` to `stop`."""
        if self._links is None:
            raise RuntimeError("the node is not started")
        return self._links

    @property
    def url(self) -> str:
        """URL of the door, once started."""
        if self._runner is None:
            raise RuntimeError("the node is not started, its door not open")
        return f"http://{address(*self._runner.addresses[0][:2])}"

    @property
    def tls_url(self) -> str:
        """URL of the door for certificates, once started with `tls` in its settings."""
        if self._runner is None or self.settings.tls is None:
            raise RuntimeError("the node is not started, or has no certificate")
        return f"https://{address(*self._runner.addresses[-1][:2])}"

    def add_background(self, name: str, work: Background) -> None:
        """Run `work` from start to stop, when it is cancelled. When it raises RetryLater it is restarted (`keep_going`); when it raises
        anything else, or returns, before, the node stops: `run_until_stopped` raises.
        """
        self._backgrounds[name] = work

    def needs(self, what: str, there: Callable[[], bool]) -> None:
        """Make `/healthz` answer 503, with `what` in `waits_for`, while `there()` is false."""
        self._needs[what] = there

    def judge(self, stream: str, judge: Judge) -> None:
        """Accept of `stream` from elsewhere, from `start` on, only what `judge` lets its origin write, as the settings know the origin."""
        self._judges[stream] = judge

    def has_met(self, node: str) -> bool:
        """Return whether that node has ever shown its key here, in a session of its own: then it has received this node's key too."""
        return self._introductions is not None and node in self._introductions.trust().keys

    def report(self, reason: str, outcome: str, **details: Any) -> None:
        """Report a problem, and what was done about it, to `exceptions`. Returns at once, from any thread; the report is appended with the
        next commit.
        """
        self._reporter.report(reason, outcome, details)

    def link(self, peers: Collection[PeerAddress]) -> None:
        """Keep sessions with exactly these dialled peers from now on. New ones are dialled at once, and the back-off of all others is
        reset.
        """
        self.links.keep(peers)

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Assign offsets to new records, together with other appends at the same moment. The records are durable when it returns. Raises
        the same errors as `Log.append`.

        It also appends into a stream that this node may not originate: a sensor's reading is kept here, and reported. A caller that appends
        for a writer that can be refused calls `originating.check` first.
        """
        if self._committer is None:
            raise RuntimeError("the node is not started")
        began_s = self.clock.monotonic_s()
        answer = await self._committer.append(self.clock_keeper.marked(appends))
        self.metrics.observe("append", (self.clock.monotonic_s() - began_s) * 1000)
        self.originating.appended(appends)
        return answer

    async def admit(self, blocks: Sequence[Block], bringer: str | None = None) -> int:
        """Admit blocks from elsewhere, brought by the node `bringer` (None: this machine), and return how many records were new. They are
        durable when it returns.

        It is idempotent. Records of this very origin that the log does not have show that the log is an old copy: it opens a new
        generation, as in a session. Otherwise raises the same errors as `Log.admit`, and NotProven for what is acted upon and not signed;
        then the other blocks are admitted.
        """
        if self._store is None:
            raise RuntimeError("the node is not started")
        try:
            return await self._store.take(blocks, bringer)
        except PeerKnowsMore:
            own = max((block for block in blocks if block.origin == self.log.origin), key=lambda block: block.end)
            await self._store.old_copy(OldCopy(own.stream, own.origin, own.end))
            return await self._store.take(blocks, bringer)

    async def start(self) -> None:
        """Open the log, the door, and the links of the settings, and begin the background work.

        Raises Misuse or RetryLater when it can not. Nothing is left open then: the next start would take an index that was not closed for a
        damaged one.
        """
        async with AsyncExitStack() as undone:
            undone.push_async_callback(self.stop)
            await self._start()
            undone.pop_all()

    async def _start(self) -> None:
        settings = self.settings
        self._log = await self._opened_log()
        await asyncio.to_thread(self.credentials.take_up, settings.node)
        key = await asyncio.to_thread(load_or_make_key, settings.folder / KEY_NAME)
        signer = Signer(self._log, BlockCodec(), key, self.clock, self.report)
        self._log.witnessed_by(signer.witness)
        self._committer = GroupCommitter(self._log)
        await asyncio.to_thread(self._defining.take_up, self._log)
        await asyncio.to_thread(self.originating.take_up, self._log)
        copy, given = Copy(self._log, BlockCodec()), settings.trust()
        own = await asyncio.to_thread(own_keys, self._log, key.public)
        peers = {peer.node: peer.peer() for peer in settings.known} | {settings.node: settings.me()}
        introductions = self._introductions = await asyncio.to_thread(Introductions, settings.folder, peers, self.report)
        keyring = Keyring(self._log, settings.node, own, given, introductions.trust)
        await asyncio.to_thread(introductions.log_unknown, keyring.of)
        store = self._store = self._make_links(self._log, copy, keyring, introductions, [key.public, *sorted(own - {key.public})])
        open_many_files()
        self._runner = await self._doorkeeper.runner(self.app)
        await self._listen(f"the door of '{settings.node}'", settings.host, settings.port)
        if tls := settings.tls:
            shown, doubted = shown_of(serving(tls.files()), tls.files()), partial(log_doubt, settings.node, tls.files())
            doubted()
            await self._listen(f"the TLS door of '{settings.node}'", tls.host, tls.port, shown.context)
            self._begin("certificate", partial(keep_certificate, f"'{settings.node}'", "this node", shown, self.report, doubted))
        self._reporter.appending(self.append)
        self._begin("doorkeeper", self._doorkeeper.keep)
        self._begin("credentials", self.guard.keep_looking)
        self._begin("accepted keys", introductions.keep_looking)
        self._begin("store", store.run)
        self._begin("reading again", store.loader.keep_trying)
        self._begin("links", self.links.run)
        self._begin("upkeep", partial(keep_up, self._log.upkeep, self.metrics, self.report, store.bulk))
        self._begin("clock check", partial(self.clock_keeper.run, self._log))
        rounds = Rounds(self._log, self._log.upkeep)
        self._begin("verifying", partial(keep_verifying, rounds, store.loader.failed, self.metrics, self.report))
        self._begin("below the floor", partial(keep_floor_trouble, self._log, self.append, self.metrics, self.clock))
        self._begin("reporting", self._reporter.run)
        self._begin("signing", partial(keep_signing, signer, self.append, self.report))
        self._watch = Watch(copy, lambda: self.log.origin, given, introductions.trust)
        checking = Checking(self._log, copy, self._watch, self.links.distrust, self.report, store.still_doubted, store.bulk)
        self._begin("checking", partial(keep_checking, checking))
        self._begin("definitions", partial(self._defining.run, self._log, self.links, self._redefined))
        self._begin("who may write", partial(self.originating.run, self._log, self._reporter.note))
        self._begin("retention", partial(self.retaining.run, self._log, self.links))
        for name, work in self._backgrounds.items():
            self._begin(name, work)
        self.links.keep(settings.peers)
        logger.info("%s '%s' is ready at %s, log %s", settings.role, settings.node, self.url, self._log.origin)

    async def _listen(self, what: str, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        assert self._runner is not None
        with listening(what, host, port):
            for gate in await self._doorkeeper.gates(host, port):
                await web.SockSite(self._runner, gate, ssl_context=context).start()

    async def stop(self) -> None:
        """End background work, close the sessions, finish the commits under way, and close the log. Each step runs whatever happened in
        those before. It is safe to call twice.

        Raises TimeoutError where work, sessions, doors or last reports do not end in time; otherwise raises the first error.
        """
        self._stopping.set()
        await end_in_turn(
            ShutdownStep("background work", partial(self._end, self._backgrounds), WORK_ENDED_WITHIN_S),
            ShutdownStep("the links", self._close_links, ENDED_WITHIN_S),
            ShutdownStep("the node's own work", partial(self._end, self._tasks), ENDED_WITHIN_S),
            ShutdownStep("the doors", self._close_doors, ENDED_WITHIN_S),
            ShutdownStep("the last reports", self._send_last_reports, ENDED_WITHIN_S),
            ShutdownStep("what is being committed", self._close_committer, None),
            ShutdownStep("the log", self._close_log, None),
        )

    async def _close_links(self) -> None:
        for site in list(self._runner.sites if self._runner else ()):
            await site.stop()  # clients that dial again are not let in to be sent away
        if self._links is not None:
            await self._links.close()

    async def _close_doors(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self.credentials.close()

    async def _send_last_reports(self) -> None:
        if self._committer is not None:
            await self._reporter.flush()

    async def _close_committer(self) -> None:
        committer, self._committer = self._committer, None
        if committer is not None:
            await committer.close()

    async def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            self._unsubscribe()
            await asyncio.to_thread(log.close)
            logger.info("'%s' has stopped", self.settings.node)

    async def run_until_stopped(self) -> None:
        """Serve until SIGTERM, SIGINT or `stop`, then stop cleanly. Raises the error that ended a background work which should have
        continued.
        """
        try:
            with set_when_asked(self._stopping):
                await self._stopping.wait()
        finally:
            await self.stop()
        if self._failure is not None:
            raise self._failure

    def health(self) -> dict[str, Any]:
        """Return the answer of /healthz; `ready` is true while the node waits for nothing."""
        waits_for = [what for what, there in self._needs.items() if not there()]
        return {
            "ready": not waits_for,
            "waits_for": waits_for,
            "node": self.settings.node,
            "role": self.settings.role,
            "origin": str(self.log.origin),
            "streams": len(self.log.streams()),
            "kept_here": self.originating.kept_here(),
            "peers": self.links.status(),
            "twins": self.links.twins.status(),
            "clock": self.clock_keeper.status(),
            "troubles": dict(self.metrics.troubles),
            "uptime_s": round(self.clock.monotonic_s() - self._started_s, 1),
        }

    async def _opened_log(self) -> AnyLog:
        """Return the log, once this process may write it. A process that is asked to end meanwhile stops waiting."""
        settings = self.settings
        entitled = Entitled(KnownPeers(settings.folder / "log").peer, self._judges)
        options = LogOptions(self._damaged, threading.Event(), entitled)
        try:
            return await asyncio.to_thread(open_log, settings.log, settings.folder, settings.node, BlockCodec(), self.clock, options)
        except asyncio.CancelledError:
            options.stopping.set()
            raise

    def _make_links(self, log: AnyLog, copy: Copy, keyring: Keyring, introductions: Introductions, keys: Sequence[bytes]) -> Store:
        """Make the exchange of all sessions, which is notified of every commit on this event loop. Return the store that the sessions read
        and write through.
        """
        settings, loop = self.settings, asyncio.get_running_loop()
        entitled = Entitled(introductions.peers.get, self._judges)
        believing = Believing(Copy(log, BlockCodec(), past_unreadable=True), keyring.of, entitled, introductions.vouches)

        def introduced(node: str, shown: Sequence[bytes]) -> None:
            introductions.heard(node, shown, keyring.of)

        store = Store(log, BlockCodec(), self.metrics, self.report, believing, introduced)
        ships = {peer.node: peer.identity for peer in settings.known if peer.role == "ship"}
        roles, ends = {peer.node: peer.role for peer in settings.known}, SignedUntil(copy, keyring.of).end_where_known
        exchange = Exchange(settings.me(), store.withheld, roles, ships, ends, keys, self.clock_keeper.check)
        store.withheld.subscribe(exchange.changed)
        days = BudgetClock(settings.folder, self._wall, self.clock.doubted, machine_boot_id())
        budgets = LinkBudgets(settings.folder, settings.links, days.now_ms, settings.node, settings.companions())
        parts, withdrawn = (settings, exchange, store, self.clock, self.metrics, self.report), self._defining.withdrawn
        links = self._links = Links(
            *parts, definitions=self.definitions, budgets=budgets, withdrawn=withdrawn, credentials=self.credentials
        )

        def changed(streams: frozenset[str]) -> None:
            loop.call_soon_threadsafe(exchange.changed, streams)
            if ALERTS in streams:
                loop.call_soon_threadsafe(links.alerted)

        self._unsubscribe = log.subscribe(changed)
        return store

    def _redefined(self) -> None:
        self.retaining.hurry()
        self.originating.redefined()

    def _begin(self, name: str, work: Background) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                return
            problem = task.exception() or RuntimeError(f"background work '{name}' of node '{self.settings.node}' has ended by itself")
            unforeseen = None if isinstance(problem, LandfallError) else problem
            logger.error("background work '%s' failed: the node stops: %s", name, problem, exc_info=unforeseen)
            self.report(f"background work '{name}' failed", "the node stops", code="background_work_failed", problem=str(problem))
            self._failure = self._failure or problem
            self._stopping.set()

        self._tasks[name] = asyncio.create_task(keep_going(name, work, self.metrics, self.report), name=name)
        self._tasks[name].add_done_callback(ended)

    async def _end(self, names: Collection[str]) -> None:
        tasks = [self._tasks.pop(name) for name in list(names) if name in self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)  # unlike gather it can be given up

    def _damaged(self, damage: Damage) -> None:
        self.report("stored bytes do not verify", damage.cure, code=damage.code, damage=str(damage))
        if self._watch is not None:
            for stream, origin, first, _ in damage.offsets:
                self._watch.lost(stream, origin, first)
