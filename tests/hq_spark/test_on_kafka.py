"""Goal: with headquarters' log in a Kafka the analytics make of the same voyage what they make of one in files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.fanout.kafka import Kafka
from tests.hq_spark import truth
from tests.hq_spark.test_kills import Driver, live_on, voyage, write_settings
from tests.streams.kafkakit import place
from tests.support.spark_fleet import BOXES, DUCKS, HOUR_MS, NOON_MS, Place, append, booking, headquarters, policy


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_spark_reads_and_appends_to_a_log_in_a_kafka(kafka: Kafka, tmp_path: Path) -> None:
    """Real Spark: its source fetches from the broker, in processes of its own; its results go back through the node's door."""
    ship, quay = Place(tmp_path / "ship", "albatross"), Place(tmp_path / "quay", "singapore")
    log = place(kafka, tmp_path / "hq", "hq", mechanism="SCRAM-SHA-512", gather_ms=5).settings
    with closing(ship.log), closing(quay.log), headquarters(tmp_path / "hq", log) as node:
        write_settings(tmp_path / "settings.json", node.url)
        end = NOON_MS + 2 * HOUR_MS
        ducks = booking("DUCK-1", 1, DUCKS, (BOXES[0], NOON_MS, end), (BOXES[1], NOON_MS + HOUR_MS, None))
        append(node, "registry", [policy("sent"), ducks])
        analytics = Driver(tmp_path / "settings.json", None)
        try:
            for phase in range(2):
                voyage(phase, ship, quay, node)
            kept = live_on(analytics, node, str(tmp_path / "tables"))
        finally:
            analytics.end()
        assert len(kept) > 80
        truth.check_customers(node.log, kept, {DUCKS: [(BOXES[0], NOON_MS, end), (BOXES[1], NOON_MS + HOUR_MS, (1 << 63) - 1)]})
        truth.check_states(node.log, kept)
