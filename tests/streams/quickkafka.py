"""Real clients of a real Kafka that wait for nothing: with them a log opens in a fifth of a second instead of two.

Most of the two seconds are logins and timers, which few tests are about. A SCRAM login takes 25 ms of processor time, and a log needs a
dozen. A producer without a connection looks for its coordinator every 500 ms only, a member of a group every second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from hq.fanout import kafka_client as fanout_kafka
from landfall.storage.kafka import kafka_reader, kafka_topics, lease, topic_follower, transactions
from landfall.storage.kafka.lease import Lease
from landfall.storage.kafka.settings import KafkaLogSettings, Mechanism


class InsiderSettings(KafkaLogSettings):
    """Settings that may name the broker's own login, whose mechanism is PLAIN."""

    mechanism: Literal["PLAIN"] | Mechanism = "PLAIN"  # type: ignore[assignment]


class ConnectedProducer(Producer):  # type: ignore[misc]
    """Has a connection before it looks for its coordinator."""

    def init_transactions(self, timeout: float) -> None:
        """As a producer does."""
        self.list_topics(timeout=timeout)
        super().init_transactions(timeout)


class OnlyWriter(Lease):
    """The turn of a process that shares its log with no other: it asks Kafka for nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def held(self, within_s: float) -> bool:
        """It is this process's turn."""
        return True

    def confirm(self, within_s: float) -> None:
        """It still is."""

    def close(self) -> None:
        """Nothing is to be released."""


@contextmanager
def quick_clients() -> Iterator[None]:
    """Within the block, logs of one login share one AdminClient, producers connect first, and logs are read by `InsiderSettings` too."""
    admins: dict[frozenset[tuple[str, object]], AdminClient] = {}

    def shared_admin(settings: dict[str, Any]) -> AdminClient:
        key = frozenset(settings.items())
        if key not in admins:
            admins[key] = AdminClient(settings)
        return admins[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (transactions, fanout_kafka):
            patch.setattr(module, "Producer", ConnectedProducer)
        for module in (kafka_topics, topic_follower, lease):
            patch.setattr(module, "AdminClient", shared_admin)
        patch.setattr(kafka_reader, "KafkaLogSettings", InsiderSettings)
        yield
