"""What holds for every test of streams."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.streams.kafkakit import close_kafka_logs


@pytest.fixture(autouse=True)
def no_kafka_log_is_left() -> Iterator[None]:
    """Logs in a Kafka are closed also after a test that failed."""
    yield
    close_kafka_logs()
