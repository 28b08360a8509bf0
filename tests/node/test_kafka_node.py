"""Goal: a node whose log is in a Kafka is a node like any other; a process that may no longer write its log ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from landfall.cli.main import line_for
from landfall.node.node import Node
from landfall.node.settings import NodeSettings
from landfall.runtime.log_wait import opened_log
from landfall.storage.kafka.commit_transaction import KafkaLogPlace
from landfall.storage.kafka.kafka_configuration import Fenced
from landfall.storage.kafka.settings import KafkaLogSettings
from streams.log import Append
from streams.model.errors import Misuse
from streams.model.records import Record, to_batch
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import place, taken_over
from tests.streams.logkit import content
from tests.support.fleet import address, readings, settings, started, until
from tests.support.refusals import refusal


def in_kafka(kafka: Kafka, folder: Path, name: str = "tokyo") -> NodeSettings:
    """The settings of a node with its log in the Kafka."""
    log = place(kafka, folder, name, gather_ms=5).settings
    return settings(name, folder).model_copy(update={"log": log})


async def test_a_ship_on_files_and_a_port_on_kafka(kafka: Kafka, tmp_path: Path) -> None:
    """Both directions, while records are added; other processes of the port's machine read its log by its folder alone."""
    ship, tokyo = await started("ship-a", tmp_path), Node(in_kafka(kafka, tmp_path))
    await tokyo.start()
    await ship.append([readings(0, 5_000)])
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await ship.append([readings(5_000, 1_000), Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "9321483-1"})]))])
    await tokyo.append([Append("events", to_batch([Record("MSKU1234565", body={"event": "DISC"})]))])
    for stream in ("containers", "alerts"):
        await until(lambda stream=stream: tokyo.log.position(stream).reaches(ship.log.position(stream)))  # type: ignore[misc]
    assert content(tokyo.log, ["containers"]) == content(ship.log, ["containers"])
    reader = opened_log(tmp_path / "tokyo" / "log")
    assert reader.history("MSKU1234565").rows.num_rows == tokyo.log.history("MSKU1234565").rows.num_rows > 6_000
    reader.close()
    words = ["log", "cat", "alerts", "--folder", str(tmp_path / "tokyo"), "--format", "json"]
    shown = await asyncio.to_thread(CliRunner().invoke, line_for(words), words)
    assert "alert_id" in shown.output
    await ship.stop()
    await tokyo.stop()


async def test_a_node_that_is_fenced_ends(kafka: Kafka, tmp_path: Path) -> None:
    told = in_kafka(kafka, tmp_path)
    assert isinstance(told.log, KafkaLogSettings)
    tokyo = Node(told)
    await tokyo.start()
    with taken_over(KafkaLogPlace(told.log, "tokyo", told.folder / "log", told.folder / "marker")):
        with refusal(Fenced, "fenced"):
            await tokyo.append([readings(0, 1)])
        with pytest.raises(Fenced):
            await tokyo.run_until_stopped()


async def test_a_standby_ends_when_it_is_asked_to(kafka: Kafka, tmp_path: Path) -> None:
    """It waits in a thread of its own, which no process may outlive its end for."""
    tokyo = Node(in_kafka(kafka, tmp_path))
    await tokyo.start()
    before = _leases()
    spare = Node(tokyo.settings.model_copy(update={"folder": tmp_path / "spare"}))
    starting = asyncio.create_task(spare.start())
    await until(lambda: _leases() > before)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until(lambda: _leases() == before)
    await tokyo.append([readings(0, 1)])
    await tokyo.stop()


def _leases() -> int:
    return sum(thread.name == "log-lease" for thread in threading.enumerate())


async def test_a_folder_keeps_its_kind_of_log(kafka: Kafka, tmp_path: Path) -> None:
    """Files where the log is in a Kafka, and the other way round, are refused with what to do: offsets would be given twice."""
    tokyo = Node(in_kafka(kafka, tmp_path))
    await tokyo.start()
    await tokyo.stop()
    with refusal(Misuse, "log_in_kafka"):
        await Node(settings("tokyo", tmp_path)).start()
    await (await started("sydney", tmp_path)).stop()
    with refusal(Misuse, "log_in_files"):
        await Node(in_kafka(kafka, tmp_path, "sydney")).start()


def test_settings_that_can_not_be() -> None:
    """A kind that is none, copies that can not be, and the fan-out's own Kafka topics are refused with the reason."""
    usual = {"kind": "kafka", "brokers": "kafka:9092", "username": "tokyo", "password": "quack"}
    for change, setting in (
        ({"replication": 2, "min_insync": 3}, "min_insync"),
        ({"prefix": "landfall"}, "prefix"),
        ({"prefix": "a.b"}, "prefix"),
        ({"brokers": "kafka"}, "brokers"),
    ):
        with refusal(ValidationError, setting):
            KafkaLogSettings.model_validate({**usual, **change})
    with refusal(ValidationError, "log"):
        NodeSettings.model_validate({"node": "tokyo", "role": "port", "folder": "x", "log": {"kind": "paper"}})
