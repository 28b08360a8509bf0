"""The process of a ship's node: log and sync, the sensors' way in, the watch, its loss reports, and the choice of links."""

from __future__ import annotations

from cargo.entitled import JUDGES
from edge.alertdesk import AlertDesk
from edge.answering import Answering
from edge.console import Aboard, Console
from edge.crewdoor import Crew, CrewDoor
from edge.digesting import Digesting
from edge.excursions import AroundAlerts
from edge.linking import LinkChoice
from edge.reportdoor import ReportDoor
from edge.reporting import DECISIONS, LossReports
from edge.settings import ShipSettings
from edge.statements import MusterStatements
from edge.storm import StormMode
from edge.waiting import TellingWaiting
from intake.musters import Musters
from intake.pipeline import STREAMS
from intake.serving import Intake
from intake.watching import Watching
from streams.node.catchingup import lacked
from streams.node.node import Node
from streams.node.otherdisks import other_disks


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
    answering = Answering(node, telling)
    reports = LossReports(node, watching)
    storm = StormMode(node, intake, watching, settings.storm.rules())
    digesting = Digesting(node, links, telling, settings.digest_every_h)
    musters = Musters(watching.call_roll, node.clock)
    Console(node, intake, musters, links, Aboard(telling, digesting, storm))
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
