"""The process of a ship's node: log and sync, the sensors' way in, the watch, its loss reports, and the choice of links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cargo.alerts.alert_authorization import JUDGES
from cargo.alerts.alert_body import read_alert
from cargo.alerts.alert_log import CLOSED_STATES
from cargo.errors import BadEntry
from edge.console.console_status import Console, ConsoleStatus
from edge.console.crew_alerts import AlertDesk
from edge.console.crew_api import Crew, CrewDoor
from edge.console.report_api import ReportDoor
from edge.links.link_choice import LinkChoice
from edge.services.backlog_reporter import BacklogReporter
from edge.services.digest_service import Digesting
from edge.services.loss_report_service import DECISIONS, LossReports
from edge.services.muster_statements import MusterStatements
from edge.services.query_responder import QueryResponder
from edge.services.storm_requests import StormMode
from edge.settings import ShipSettings
from intake.intake_service import Intake
from intake.pipeline import STREAMS
from landfall.node.node import Node
from landfall.node.peers.catch_up import lacked
from landfall.node.peers.replica_acknowledgements import other_disks
from landfall.watch.muster_reader import Musters
from landfall.watch.watch_service import Watching
from streams.body_reader import Bodies
from streams.log import Log
from streams.model.ranges import RangeSet

BEFORE_MS = 3_600_000
"""Time before an alert whose readings show how it came about, milliseconds."""
OPEN_MS = 24 * 3_600_000
"""Time for which an alert that nobody cleared counts after its last change, milliseconds."""
ALERTS = "alerts"


class AroundAlerts:
    """The readings that a ship keeps whole when its disk is nearly full: per container those around its alerts.

    They begin an hour before an alert is raised, and end when it is cleared, or a day after its last change. Of a record that can not be
    read nothing is kept.
    """

    def __init__(self, log: Callable[[], Log]) -> None:
        self._log = log
        self._news: Bodies | None = None
        self._spans: dict[str, RangeSet] = {}
        self._raised: dict[str, int] = {}

    def __call__(self, stream: str, since_ms: int, until_ms: int) -> Mapping[str, RangeSet]:
        """Return the spans (order times, UTC ms) of each topic that meet `since_ms` to `until_ms`. `stream` does not matter."""
        self._catch_up()
        met = {topic: spans.within(since_ms, until_ms) for topic, spans in self._spans.items()}
        return {topic: spans for topic, spans in met.items() if spans}

    def _catch_up(self) -> None:
        self._news = self._news or Bodies(self._log(), ALERTS)
        for topic, body in self._news.news():
            self._take(topic, body)

    def _take(self, topic: str, body: Mapping[str, Any]) -> None:
        try:
            alert = read_alert(body)
        except BadEntry:
            return  # the loss reports, which read the same, report it
        raised = self._raised[alert.alert_id] = min(self._raised.get(alert.alert_id, alert.at_ms), alert.at_ms)
        until = alert.at_ms if alert.state in CLOSED_STATES else alert.at_ms + OPEN_MS
        self._spans.setdefault(topic, RangeSet()).add(max(0, raised - BEFORE_MS), until + 1)


async def run_ship(settings: ShipSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises Misuse or RetryLater when the node can not start, or what ended a part of it."""
    node = Node(settings.node, process="ship")
    for stream, judge in JUDGES.items():
        node.judge(stream, judge)
    intake_settings, companions = settings.intake, settings.node.companions()
    others = other_disks(node, intake_settings.ack, intake_settings.alone_after_s, intake_settings.when_alone)
    intake = Intake(intake_settings, node.clock, node.metrics, others, companions)
    aboard = f"aboard/{settings.node.identity}"
    watching = Watching(
        settings.watch_settings(),
        settings.node.folder,
        node.clock,
        node.metrics,
        node.report,
        (aboard,),
        settings.port_entries(),
        decided_in=DECISIONS,
        companions=companions,
    )
    intake.strangers, intake.ships = watching.strangers, (settings.node.identity,)
    watching.gives_way = intake.is_at_work
    intake.credentials, intake.sessions_file, intake.report = node.credentials, settings.node.folder / "mqtt.sessions", node.report
    watching.lacked = lambda: lacked(node, STREAMS)
    watching.patience_s = lambda stream: node.definitions.of(stream).patience_s
    node.retaining.excursions = AroundAlerts(lambda: node.log)
    links = LinkChoice(node, settings.ports, settings.headquarters, settings.port_patience_s, settings.takeover_s)
    backlog = BacklogReporter(node, settings.waiting_every_s)
    answering = QueryResponder(node, backlog)
    reports = LossReports(node, watching)
    storm = StormMode(node, intake, watching, settings.storm.rules())
    digesting = Digesting(node, links, backlog, settings.digest_every_h)
    musters = Musters(watching.call_roll, node.clock)
    Console(node, intake, musters, links, ConsoleStatus(backlog, digesting, storm))
    ReportDoor(node, reports)
    CrewDoor(node, Crew(watching, musters, AlertDesk(node), reports, links, backlog))

    async def take_in() -> None:
        await intake.run(node, node.log, settings.node.node)

    async def watch() -> None:
        await watching.run(node.log, node)

    node.add_background("intake", take_in)
    node.needs("the sensors' endpoint", lambda: intake.listens)
    node.add_background("watch", watch)
    node.add_background("loss reports", reports.run)
    node.add_background("links of the ship", links.run)
    node.add_background("what waits", backlog.run)
    node.add_background("answers", answering.run)
    node.add_background("digests", digesting.run)
    node.add_background("statements of the muster", MusterStatements(node, links, musters).run)
    node.add_background("storm mode", storm.run)
    await node.start()
    await node.run_until_stopped()
