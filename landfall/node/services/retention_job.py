"""The retention of a node, at intervals: it reports what the node has as a home, drops what the streams' settings define, and keeps within
the node's budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from landfall.node.disk_reserve import Reserve
from landfall.node.peers.session_manager import Links
from landfall.node.settings import NodeSettings
from streams.config.companion_streams import DERIVED, parent_of
from streams.config.stream_definitions import Definition, Definitions, Retention, is_home, stream_of, terms_of
from streams.log import Append, Log
from streams.model.clock_check import ClockCheck
from streams.model.errors import LandfallError, RetryLater, Unreadable
from streams.model.identifiers import Origin
from streams.model.metrics import Metrics
from streams.model.ranges import RangeSet
from streams.retention import known_holdings
from streams.retention.disk_budget import Spending, stored_bytes, thinnable
from streams.retention.droppable_runs import plan_floors
from streams.retention.floor_reasons import UNKNOWN, Starts, append_starts, starts_of
from streams.retention.floor_reasons import at_home as why_at_home
from streams.retention.known_holdings import HOMES, AtHome
from streams.retention.thinner import Excursions

logger = logging.getLogger("landfall.node")

STEPS_MAX = 64
"""Maximum number of thinning steps in one round; the next round continues."""
Report = Callable[..., None]
Ashore = Mapping[str, Mapping[Origin, RangeSet]]


def nothing_kept_whole(stream: str, since_ms: int, until_ms: int) -> Mapping[str, RangeSet]:
    """Return no excursions: for nodes that know of none."""
    return {}


class Retaining:
    """The retention of a node; `run` it as background work. `excursions`: the times whose readings thinning keeps whole."""

    def __init__(self, settings: NodeSettings, definitions: Definitions, clock_check: ClockCheck, metrics: Metrics, report: Report) -> None:
        """Prepare the retention. `clock_check`: the clock of age."""
        self._settings, self._definitions, self._clock_check = settings, definitions, clock_check
        self._metrics, self._report = metrics, report
        self._reserve = Reserve(settings.folder / "reserve", settings.reserve_bytes)
        self._again = asyncio.Event()
        self._ashore: dict[str, dict[Origin, RangeSet]] = {}
        self._safe: dict[str, dict[Origin, RangeSet]] = {}
        self._reported_homes: dict[tuple[str, str], AtHome] = {}
        self._word: dict[str, dict[Origin, RangeSet]] = {}
        self._starts: dict[str, dict[Origin, tuple[int, str]]] = {}
        self._problems: set[str] = set()
        self._found: set[str] = set()
        self.excursions: Excursions = nothing_kept_whole

    def hurry(self) -> None:
        """Start a round now: the streams' settings have changed."""
        self._again.set()

    async def run(self, log: Log, links: Links) -> None:
        """Do a round at every interval, until cancelled."""
        spending = Spending(log, self._definitions, self._safe_at_home, lambda *asked: self.excursions(*asked))
        await asyncio.to_thread(self._take_up, log, spending)
        while True:
            self._again.clear()
            self._word = await self._word_of_homes(log, links)
            await asyncio.to_thread(self.round, log, links.durable_ashore(), links.at_home(), spending)
            try:
                async with asyncio.timeout(self._settings.retention_every_s):
                    await self._again.wait()
            except TimeoutError:
                continue

    async def _word_of_homes(self, log: Log, links: Links) -> dict[str, dict[Origin, RangeSet]]:
        """Return, of the streams that this copy keeps in a way of its own, what their home needs no more, as the home reports in the
        sessions there are. Of a stream that is kept for ever elsewhere, the home reports nothing else to anybody.
        """
        roles = {peer.node: peer.peer() for peer in self._settings.known}
        word: dict[str, dict[Origin, RangeSet]] = {}
        for stream in [one for one in await asyncio.to_thread(log.streams) if self._definitions.kept_here(one)]:
            definition = self._definitions.of(stream)
            for origin in await asyncio.to_thread(log.ledger, stream):
                for peer, settled in links.settled((stream, origin)).items():
                    if is_home(roles[peer], definition):
                        word.setdefault(stream, {}).setdefault(origin, RangeSet()).update(settled)
        return word

    def round(self, log: Log, ashore: Ashore, at_home: Ashore, spending: Spending) -> None:
        """Do everything once: report, drop, keep within the budget. `ashore`: what any peer ashore claims to have; `at_home`: what homes
        claim. On a full disk the reserve is freed and the step is tried again.
        """
        for step in (
            partial(self._remember, log, ashore),
            partial(self._learn_of_homes, log, at_home),
            partial(self._report_homes, log),
            partial(self._hear_of_home, log),
            partial(self._drop, log),
            partial(self._keep_within, log, spending),
        ):
            try:
                step()
            except Unreadable as problem:  # no room helps
                self._report_problem("retention could not do its work", str(problem), problem.code)
            except RetryLater as full:
                if not self._reserve.spend():
                    self._report_problem("the disk is full, and the reserve is spent", str(full), full.code)
                    continue
                self._report_problem("the disk is full", "the reserve is spent to make room", full.code)
                self._make_room(log, spending)
            except LandfallError as problem:
                self._report_problem("retention could not do its work", str(problem), problem.code)
        self._reserve.fill()
        self._problems, self._found = self._found, set()
        self._metrics.count("retention_rounds")

    def _take_up(self, log: Log, spending: Spending) -> None:
        self._ashore = {stream: known_holdings.ashore(log, stream, {log.node}) for stream in thinnable(log, self._definitions)}
        self._learn_of_homes(log, {})
        try:
            spending.finish()
        except LandfallError as problem:
            self._report_problem("thinning could not be finished", str(problem), problem.code)
        self._reserve.fill()

    def _safe_at_home(self, stream: str, origin: Origin) -> RangeSet:
        return self._safe.get(stream, {}).get(origin, RangeSet())

    def _learn_of_homes(self, log: Log, at_home: Ashore) -> None:
        """Update what a ship may drop for space, and never thins: what the stream's home has, by its claim in a session or by its signed
        report.
        """
        if self._settings.role != "ship":
            return
        for stream in thinnable(log, self._definitions):
            safe = {origin: ranges.copy() for origin, ranges in at_home.get(stream, {}).items()}
            home = self._at_home(log, stream, self._definitions.of(stream))
            for origin, end in home.position.items() if home else ():
                safe.setdefault(origin, RangeSet()).add(0, end)
            self._safe[stream] = safe

    def _remember(self, log: Log, ashore: Ashore) -> None:
        """Record what peers ashore claim to have of this ship's own, so that people see what waits."""
        if self._settings.role != "ship":
            return
        streams = set(thinnable(log, self._definitions))
        for stream in streams:
            merged = {origin: ranges.copy() for origin, ranges in self._ashore.get(stream, {}).items()}
            for origin, ranges in ashore.get(stream, {}).items():
                if whole := known_holdings.in_whole_runs(ranges):
                    merged.setdefault(origin, RangeSet()).update(whole)
            for origin, ranges in known_holdings.ashore(log, stream, self._settings.companions()).items():
                merged.setdefault(origin, RangeSet()).update(ranges)
            if merged != self._ashore.get(stream, {}):
                log.append([known_holdings.ashore_append(stream, merged)])
                self._ashore[stream] = merged

    def _report_homes(self, log: Log) -> None:
        """Report to all peers, as a home, what this node has. Headquarters reports to each ship what a home has of the ship's records, so
        that it may free disk space.
        """
        appends: list[Append] = []
        aged = {s: self._definitions.of(s) for s in log.streams() if _limited(self._definitions.set_for_all(s))}
        aged |= dict(self._kept_for_a_while(log))
        thinned = {stream: self._definitions.of(stream) for stream in thinnable(log, self._definitions)}
        for stream, definition in (thinned | aged).items():
            here = is_home(self._settings.me(), definition)
            at_home = known_holdings.at_home(log.ledger(stream), starts_of(log, stream, {log.node})) if here else None
            at_home = at_home or self._at_home(log, stream, definition)
            if at_home is None:
                continue
            if here and (stream in aged or self._settings.role != "hq"):
                appends += self._news(log, HOMES, stream, at_home)
            if self._settings.role == "hq":
                appends += self._news_for_ships(log, stream, at_home)
                appends += self._news_for_customers(log, stream, at_home) if stream in aged else ()
        if appends:
            log.append(appends)

    def _news_for_ships(self, log: Log, stream: str, at_home: AtHome) -> Iterator[Append]:
        """Yield a record for each ship of its own holdings: ships get no `homes`."""
        for imo in {peer.identity for peer in self._settings.known if peer.role == "ship"}:
            hers = {peer.node for peer in self._settings.known if (peer.role, peer.identity) == ("ship", imo)}
            yield from self._news(log, f"aboard/{imo}", stream, at_home.of(hers))

    def _news_for_customers(self, log: Log, stream: str, at_home: AtHome) -> Iterator[Append]:
        """Yield a record for each customer of its own stream: customers get no `homes` either."""
        for customer in {peer.identity for peer in self._settings.known if peer.role == "customer"}:
            if parent_of(stream) == stream_of(customer):
                yield from self._news(log, terms_of(customer), stream, at_home)

    def _hear_of_home(self, log: Log) -> None:
        """Declare gone what this copy lacks and the home has dropped: it will never come. A copy with its own retention keeps what it
        has.
        """
        for stream, home in self._home_reports(log):
            ledger = log.ledger(stream)
            for origin, floor in home.floors.items() if home else ():
                settled = ledger[origin].settled() if origin in ledger else RangeSet()
                for first, end in RangeSet([(0, floor)]).without(settled):
                    log.declare_gone(stream, origin, first, end, "expired")

    def _home_reports(self, log: Log) -> Iterator[tuple[str, AtHome | None]]:
        """Yield each stream that this copy keeps in a way of its own, and what its home has reported. For a customer's copy these are its
        own stream and the streams derived from it.
        """
        if self._settings.role == "customer":
            own = stream_of(self._settings.identity)
            for stream in (own, *(own + ending for ending in DERIVED)):
                yield stream, known_holdings.last_home_report(log, terms_of(self._settings.identity), stream)
            return
        for stream in log.streams():
            definition = self._definitions.of(stream)
            if self._definitions.kept_here(stream) and not is_home(self._settings.me(), definition):
                yield stream, self._at_home(log, stream, definition)

    def _news(self, log: Log, stream: str, about: str, at_home: AtHome) -> list[Append]:
        if (stream, about) not in self._reported_homes:
            self._reported_homes[stream, about] = known_holdings.last_home_report(log, stream, about, {log.node}) or AtHome()
        if self._reported_homes[stream, about] == at_home:
            return []
        self._reported_homes[stream, about] = at_home
        return [at_home.append_to(stream, about)]

    def _drop(self, log: Log) -> None:
        now_ms = self._clock_check.confirmed_ms()
        if self._clock_check.contradicted():
            self._report_problem(
                "this node's clock is more than a day away from those of its peers", "nothing is dropped by age", "clock_doubted"
            )
        for stream, definition in self._kept_for_a_while(log):
            own = self._definitions.kept_here(stream) is not None
            alone = self._settings.role == "customer" or is_home(self._settings.me(), definition)  # nobody is waited for
            at_home = known_holdings.at_home(log.ledger(stream)) if alone else self._at_home(log, stream, definition)
            if own and not alone:
                at_home = known_holdings.with_word(at_home, self._word.get(stream, {}))
            if at_home is None:
                continue
            ledger = log.ledger(stream)
            spans = {origin: list(log.spans(stream, origin)) for origin in ledger}
            plan = plan_floors(spans, definition.retention, now_ms, at_home.position)
            starts = {origin: (floor, plan.why[origin]) for origin, floor in plan.floors.items()}
            for origin, floor in at_home.floors.items() if not own else ():
                if floor > starts.get(origin, (0, ""))[0]:
                    starts[origin] = (floor, why_at_home(at_home.why.get(origin, UNKNOWN)))
            self._raise_floors(log, stream, starts)
            if plan.over_bytes:
                self._report_problem(f"{stream} is above the bytes it may take", "what its home lacks is kept", "home_lacks_records")

    def _raise_floors(self, log: Log, stream: str, starts: Starts) -> None:
        """Raise the floors that are higher than before. The reason is reported first, so that no floor is without one."""
        ledger = log.ledger(stream)
        higher = {origin: start for origin, start in starts.items() if origin in ledger and start[0] > ledger[origin].floor}
        if not higher:
            return
        if stream not in self._starts:
            why = starts_of(log, stream, {log.node})
            self._starts[stream] = {origin: (ledger[origin].floor, one) for origin, one in why.items()}
        self._starts[stream] |= higher
        log.append([append_starts(stream, self._starts[stream])])
        for origin, (floor, _) in higher.items():
            log.trim(stream, origin, floor)
            self._metrics.count("records_dropped", ledger[origin].held.within(0, floor).count())

    def _keep_within(self, log: Log, spending: Spending) -> None:
        if self._settings.role != "ship":
            return
        over, tight = self._over_bytes(log), self._reserve.short_of_room()
        if over <= 0 and not tight:
            return
        dropped = spending.drop_ashore(max(over, self._settings.reserve_bytes if tight else 0))
        over = self._over_bytes(log)
        steps = 0
        while (over > 0 or (tight and not dropped and not steps)) and steps < STEPS_MAX and self._thinned(spending):
            steps += 1
            over = self._over_bytes(log)
        if (over > 0 or (tight and not dropped)) and not steps:
            self._report_problem(
                "the disk budget is spent, and all is as thin as it gets", "go on; give the node more room", "disk_budget_spent"
            )

    def _over_bytes(self, log: Log) -> int:
        """Return by how much the held records exceed the budget, bytes; without a budget 0."""
        budget = self._settings.disk_budget_bytes
        return 0 if budget is None else stored_bytes(log) - budget

    def _make_room(self, log: Log, spending: Spending) -> None:
        try:
            if self._settings.role == "ship" and not spending.drop_ashore(self._settings.reserve_bytes):
                self._thinned(spending)
            self._drop(log)
        except LandfallError as problem:
            self._report_problem("there is no room to make room", str(problem), problem.code)

    def _thinned(self, spending: Spending) -> bool:
        step = spending.thin()
        if step is None:
            return False
        self._metrics.count("records_thinned", step.records - step.kept)
        logger.info("thinned %s: %s of %s records kept, windows of %s h", step.stream, step.kept, step.records, step.window_ms // 3_600_000)
        return True

    def _kept_for_a_while(self, log: Log) -> list[tuple[str, Definition]]:
        """Return the streams that are not kept for ever, with their definitions."""
        pairs = [(stream, self._definitions.of(stream)) for stream in log.streams()]
        return [(stream, definition) for stream, definition in pairs if _limited(definition.retention)]

    def _at_home(self, log: Log, stream: str, definition: Definition) -> AtHome | None:
        """Return what the stream's home last reported to have; None when it reported nothing."""
        if self._settings.role == "ship":
            return known_holdings.last_home_report(log, f"aboard/{self._settings.identity}", stream)
        homes = {peer.node for peer in self._settings.known if is_home(peer.peer(), definition)}
        return known_holdings.last_home_report(log, HOMES, stream, homes)

    def _report_problem(self, reason: str, outcome: str, code: str) -> None:
        """Report a problem once, until a round in which it is not found."""
        if reason not in self._problems | self._found:
            self._report(reason, outcome, code=code)
        self._found.add(reason)


def _limited(retention: Retention) -> bool:
    """Return whether the retention is limited."""
    return (retention.age_days, retention.bytes) != (None, None)
