"""Goal: a node's login needs the rights that docs/guide/kafka.md names and no more; without them it is told so."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from landfall.storage.kafka.commit_transaction import KafkaLogOptions
from landfall.storage.kafka.kafka_configuration import client_settings
from landfall.storage.kafka.transactions import LogTransactions
from streams.model.errors import NotAllowed, RetryLater
from tests.fanout.kafka import PASSWORD, Kafka
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import append_rows, rows
from tests.support.refusals import refusal

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "kafka.md"
OPERATIONS = {one.name.capitalize(): one for one in AclOperation}
RESOURCES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional-id": ResourceType.TRANSACTIONAL_ID}


def documented(prefix: str, username: str) -> list[AclBinding]:
    """What the commands in the docs would allow, for another prefix and login."""
    commands = re.findall(r"--(topic|group|transactional-id) log-hq\. \\?\s*((?:--operation \w+\s*)+)", DOCS.read_text())
    assert len(commands) == len(RESOURCES)
    return [
        AclBinding(
            RESOURCES[resource],
            f"{prefix}.",
            ResourcePatternType.PREFIXED,
            f"User:{username}",
            "*",
            OPERATIONS[operation],
            AclPermissionType.ALLOW,
        )
        for resource, operations in commands
        for operation in re.findall(r"--operation (\w+)", operations)
    ]


def test_the_documented_rights_suffice_and_are_needed(kafka: Kafka, tmp_path: Path) -> None:
    """Without any, opening says where to look; with them, all a log does works: trimming, reading in another process, and going on when
    it was fenced within its own turn.
    """
    where = place(kafka, tmp_path, username="harbour")
    admin = AdminClient(client_settings(kafka.access))
    login = UserScramCredentialUpsertion("harbour", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8_192), PASSWORD.encode())
    for made in admin.alter_user_scram_credentials([login]).values():
        made.result()
    with refusal(NotAllowed, "kafka_not_allowed"):
        open_kafka_log(where, options=KafkaLogOptions())
    for allowed in admin.create_acls(documented(where.settings.prefix, "harbour")).values():
        allowed.result()
    log = open_kafka_log(where, options=KafkaLogOptions())
    append_rows(log, rows(10))
    LogTransactions(where.settings).connect()
    with refusal(RetryLater, "kafka_refused"):  # asks the group whose turn it is
        append_rows(log, rows(10, start=100))
    append_rows(log, rows(10, start=10))
    log.trim("containers", log.origin, 10)
    log.close()
    (where.folder / "index.sqlite").unlink()
    log = open_kafka_log(where, options=KafkaLogOptions())
    assert [row for batch in log.run("containers", log.origin, 0, 20) for row in batch.records.column("number").to_pylist()] == [
        *range(10, 20)
    ]
    log.close()
