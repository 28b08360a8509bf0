"""Goal: files with keys and passwords that others than their owner may read are refused by whatever reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hq.fanout.dev_broker import format_folder
from hq.fanout.settings import KafkaBrokerSettings
from landfall.cli.certificate_commands import node
from landfall.demo.demo_secrets import Secrets
from landfall.storage.kafka.kafka_reader import found_settings, leave_settings
from landfall.storage.kafka.settings import KafkaLogSettings
from landfall.storage.kafka.topic_names import WHERE
from landfall.transport.certificates import make_authority
from streams.model.errors import Misuse
from tests.fanout.test_broker import settings
from tests.intake.test_endpoint import self_signed


def demo_secrets(folder: Path) -> tuple[Path, Callable[[], object]]:
    """The secrets of a demo."""
    file = folder / "secrets.json"
    Secrets(file).keep()
    return file, lambda: Secrets(file)


def kafka_login(folder: Path) -> tuple[Path, Callable[[], object]]:
    """How a node's log in a Kafka is reached."""
    leave_settings(
        folder, KafkaLogSettings.model_validate({"kind": "kafka", "brokers": "kafka:9092", "username": "landfall", "password": "quack"})
    )
    return folder / WHERE, lambda: found_settings(folder)


def authority_key(folder: Path) -> tuple[Path, Callable[[], object]]:
    """The key that signs all nodes' certificates."""
    made = make_authority("authority", datetime.now(UTC), 30)
    (folder / "authority.pem").write_bytes(made.certificate)
    file = folder / "authority.key"
    file.write_bytes(made.key)
    return file, lambda: node(["tokyo"], folder)


def broker_key(folder: Path) -> tuple[Path, Callable[[], object]]:
    """The key of a Kafka's door."""
    certificate, key = self_signed(folder)
    table = settings(folder / "broker")
    files = {"certificate": str(certificate), "key": str(key), "authority": str(certificate)}
    table["doors"] = [*table["doors"], {**table["doors"][0], "port": 1, "tls": files}]
    return key, lambda: format_folder(KafkaBrokerSettings.model_validate(table))


@pytest.mark.parametrize("made", [demo_secrets, kafka_login, authority_key, broker_key])
def test_a_file_that_others_may_read_is_refused(made: Callable[[Path], tuple[Path, Callable[[], object]]], tmp_path: Path) -> None:
    file, read = made(tmp_path)
    file.chmod(0o640)
    with pytest.raises(Misuse) as refused:
        read()
    assert refused.value.code == "file_open"
    assert refused.value.hint.startswith(f"chmod 600 {file}")
