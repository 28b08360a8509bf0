"""The process of a ship's node: log and sync, the sensors' way in, the watch, its loss reports, and the choice of links."""

from __future__ import annotations

from cargo.alerts.alert_authorization import JUDGES
from edge.console.console_status import Console, ConsoleStatus
from edge.console.crew_alerts import AlertDesk
from edge.console.crew_api import Crew, CrewDoor
from edge.console.report_api import ReportDoor
from edge.links.link_choice import LinkChoice
from edge.services.backlog_reporter import TellingWaiting
from edge.services.digest_service import Digesting
from edge.services.excursion_keeper import AroundAlerts
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


async def run_ship(settings: ShipSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises Misuse or RetryLater when the node can not start, or what ended a part of it."""
    node = Node(settings.node, process="ship")
    for stream, judge in JUDGES.items():
        node.judge(stream, judge)
    taken, companions = settings.intake, settings.node.companions()
    others = other_disks(node, taken.ack, taken.alone_after_s, taken.when_alone)
    intake = Intake(taken, node.clock, node.metrics, others, companions)
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
    telling = TellingWaiting(node, settings.waiting_every_s)
    answering = QueryResponder(node, telling)
    reports = LossReports(node, watching)
    storm = StormMode(node, intake, watching, settings.storm.rules())
    digesting = Digesting(node, links, telling, settings.digest_every_h)
    musters = Musters(watching.call_roll, node.clock)
    Console(node, intake, musters, links, ConsoleStatus(telling, digesting, storm))
    ReportDoor(node, reports)
    CrewDoor(node, Crew(watching, musters, AlertDesk(node), reports, links, telling))

    async def take_in() -> None:
        await intake.run(node, node.log, settings.node.node)

    async def watch() -> None:
        await watching.run(node.log, node)

    node.add_background("intake", take_in)
    node.needs("the sensors' endpoint", lambda: intake.listens)
    node.add_background("watch", watch)
    node.add_background("loss reports", reports.run)
    node.add_background("links of the ship", links.run)
    node.add_background("what waits", telling.run)
    node.add_background("answers", answering.run)
    node.add_background("digests", digesting.run)
    node.add_background("statements of the muster", MusterStatements(node, links, musters).run)
    node.add_background("storm mode", storm.run)
    await node.start()
    await node.run_until_stopped()
