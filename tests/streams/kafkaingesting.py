"""A process that appends to a log in a Kafka for ever and says what was acknowledged, to be killed or suspended at any instant."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from landfall.storage.kafka.commit_transaction import KafkaLogOptions, KafkaLogPlace
from landfall.storage.kafka.kafka_configuration import Fenced
from streams.commit_points import CRASH_VARIABLE
from streams.log import Append
from tests.streams.kafkakit import alone, open_kafka_log
from tests.streams.logkit import append_rows, rows
from tests.streams.quickkafka import quick_clients

ROWS = 3
FENCED_EXIT = 3


def ingest(where: KafkaLogPlace, acknowledged: Path, crash_at: str | None = None) -> None:
    """Appends ROWS rows a commit as producer `gateway`, from the last acknowledged on; `acknowledged` gets a byte for each.

    Ends with FENCED_EXIT when another process writes the log. One that crashes at a commit point has the log to itself.
    """
    if crash_at is not None:
        os.environ[CRASH_VARIABLE] = crash_at
    done = acknowledged.stat().st_size if acknowledged.exists() else 0
    told = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with (
        quick_clients(),
        suppress(Fenced),
        closing(open_kafka_log(where, options=KafkaLogOptions() if crash_at is None else alone())) as log,
    ):
        for sequence in count(done):
            readings = Append("containers", rows(ROWS, start=sequence * ROWS), "gateway", sequence)
            log.append([readings, Append("ships", rows(1), "gateway", sequence)])
            os.write(told, b".")
    os._exit(FENCED_EXIT)


def go_on_after_a_copy_and_die(where: KafkaLogPlace, old: Path) -> None:
    """Ten commits; the log's folder as it is then is `old`; one more, of a stream of its own."""
    with quick_clients(), closing(open_kafka_log(where)) as log:
        for number in range(10):
            append_rows(log, rows(1, start=number), "ships")
        shutil.copytree(where.folder, old)
        append_rows(log, rows(1))
        os.kill(os.getpid(), signal.SIGKILL)
