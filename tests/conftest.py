"""One real Kafka for all tests that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fanout.kafka import Kafka


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Started with the first test that wants it. Logs in it keep apart by their prefixes."""
    broker = Kafka(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    assert broker.stop() == 0
