"""Goal: a standby of a log in a Kafka may begin within ten seconds of the writer's death: what bounds it is asked of Kafka, and is short.

How long it took in earnest `python -m bench.standby` measures: docs/performance.md. Here nothing is timed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from streams.logs.kafka import lease, transactions
from streams.logs.kafka.client import Fenced
from streams.logs.kafka.keeper import FOLLOW_EVERY_S
from streams.logs.kafka.transactions import Outgoing, Transactions
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import append_rows, rows

TAKE_OVER_MS_MAX = 10_000
BROKER_MS = 1_500
"""Left for the broker: to give the turn to who is left, and to end the transaction of who is gone."""


class AskedConsumer(Consumer):
    """A real consumer; `asked` is what it was made with."""

    asked: dict[str, Any]

    def __init__(self, settings: dict[str, Any]) -> None:
        AskedConsumer.asked = settings
        super().__init__(settings)


def test_what_a_take_over_waits_for_is_under_ten_seconds(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker, as it is delivered, takes these very settings: a session longer or shorter than it allows would end the opening."""
    monkeypatch.setattr(lease, "Consumer", AskedConsumer)
    log = open_kafka_log(place(kafka, tmp_path))
    append_rows(log, rows(1))
    log.close()
    asked = AskedConsumer.asked
    hears_ms = asked["session.timeout.ms"] + asked["heartbeat.interval.ms"] + 1000 * lease.POLL_S
    assert hears_ms + 1000 * FOLLOW_EVERY_S <= TAKE_OVER_MS_MAX - BROKER_MS, "and what it must still read is what came since it last looked"
    assert 3 * asked["heartbeat.interval.ms"] <= asked["session.timeout.ms"], "no turn is lost for one heartbeat that is late"


def test_who_takes_over_does_not_wait_for_the_transaction_that_was_left_open(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer has the name of the one before, so Kafka ends that one's transaction at once, which Kafka by itself would leave open
    for the whole of this test and longer.
    """
    monkeypatch.setattr(transactions, "UNANSWERED_MS", 800_000)
    where = place(kafka, tmp_path)
    append_rows(first := open_kafka_log(where), rows(1))
    first.close()
    left = Transactions(where.settings)
    left.connect()
    left.write([Outgoing(where.names.topic("containers"), b"never committed", [])])
    log = open_kafka_log(where)
    assert append_rows(log, rows(2)) == 1
    with pytest.raises(Fenced):
        left.commit()
    log.close()
    left.close()
