"""Goal: every `landfall log` command works on a log in a Kafka as on one in files, or says why not and what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from landfall.cli.main import main
from landfall.storage.kafka.commit_transaction import KafkaLogPlace
from landfall.storage.kafka.kafka_topics import KafkaTopics
from streams.codec import BlockCodec
from streams.integrity.signer import Signer
from streams.integrity.signing_keys import key_text
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Origin
from streams.model.records import Record, to_batch
from tests.fanout.kafka import Kafka
from tests.proof.kit import KEY
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import NOW_MS, open_log
from tests.support.refusals import coded

BOX, OTHER = "MSKU1234565", "MSKU7654321"
MINUTE = 60_000
COUNT = 40
SPAN = ("--since", "2026-05-01", "--until", "2026-05-01T06:00")


@pytest.fixture(scope="module")
def node(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> tuple[KafkaLogPlace, Origin]:
    """A node's log with readings of two boxes every ten minutes, all but the last signed; two positions of a ship are gone."""
    where, clock = place(kafka, tmp_path_factory.mktemp("tokyo"), "tokyo"), StillClock(NOW_MS)
    log = open_kafka_log(where, clock)
    signer = Signer(log, BlockCodec(), KEY, clock, lambda reason, outcome, **details: None)
    log.witnessed_by(signer.witness)
    for number in range(COUNT):
        clock.at_ms = NOW_MS + number * 10 * MINUTE
        log.append([Append("containers", to_batch([Record(box, f"TRK-{box}", clock.at_ms, {"return_c": 4.5}) for box in (BOX, OTHER)]))])
        if number < COUNT - 1:
            log.append(signer.due())
    log.append([Append("ships", to_batch([Record("9321483.location", "GNSS", NOW_MS + n) for n in range(9)]))])
    log.declare_gone("ships", log.origin, 4, 6, "thinned")
    log.close()
    return where, log.origin


def landfall(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    """`landfall log …`: how it ended, and all it said, in one line."""
    with pytest.raises(SystemExit) as ended:
        main(["log", *map(str, words)])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), coded(ended.value, " ".join((printed.out + printed.err).split()))


def test_what_it_holds(node: tuple[KafkaLogPlace, Origin], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """ls, cat, tail, history and export."""
    folder, origin = node[0].folder.parent, node[1]
    code, said = landfall(capsys, "ls", "ships", "-f", folder)
    assert (code, f"{origin} 9 7 2 0 0" in said) == (0, True), said
    code, said = landfall(capsys, "cat", "containers", "-f", folder, "--limit", "3", "--format", "json")
    assert (code, said.count('"coordinates"')) == (0, 3)
    code, said = landfall(capsys, "tail", "containers", "-f", folder, "--limit", "1")
    assert (code, f"containers:{origin}:79" in said) == (0, True), said
    code, said = landfall(capsys, "history", BOX, "-f", folder, *SPAN, "--format", "json")
    assert (code, said.count('"coordinates"'), OTHER in said) == (0, 36, False), said
    code, said = landfall(capsys, "export", "containers", "-f", folder, "--topic", BOX, "--output", tmp_path / "box.parquet")
    assert code == 0
    assert parquet.read_table(tmp_path / "box.parquet").num_rows == COUNT


def test_what_it_lacks_and_what_it_is_worth(node: tuple[KafkaLogPlace, Origin], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """gaps, completeness, verify, proof, and the proof checked elsewhere."""
    folder = node[0].folder.parent
    code, said = landfall(capsys, "gaps", "ships", "-f", folder)
    assert (code, "4 5 2 thinned" in said) == (0, True), said
    code, said = landfall(capsys, "completeness", BOX, "-f", folder, *SPAN, "--format", "json")
    assert (code, json.loads(said)["held"]) == (0, 36), said
    code, said = landfall(capsys, "verify", "-f", folder)
    assert (code, " what was signed" in said) == (0, True), said
    code, said = landfall(capsys, "proof", OTHER, "-f", folder, *SPAN, "--out", tmp_path / "claim.json")
    assert code == 0, said
    with pytest.raises(SystemExit) as ended:
        main(["proof", "check", str(tmp_path / "claim.json"), "--key", key_text(KEY.public)])
    assert ended.value.code == 0
    assert f"PROVEN: 36 records of {OTHER}" in capsys.readouterr().out


def test_whether_it_is_whole(kafka: Kafka, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """check fetches every block; when the Kafka has lost some, it names their offsets and ends with 1."""
    where = place(kafka, tmp_path, "tokyo")
    log = open_kafka_log(where)
    for number in range(3):
        log.append([Append("containers", to_batch([Record(BOX, device_at_ms=NOW_MS + number)] * 2))])
    log.close()
    code, said = landfall(capsys, "check", "-f", tmp_path)
    assert (code, said) == (0, "all is well: 3 blocks, 6 records")
    KafkaTopics(where.settings, where.names).drop_front("containers", 2)
    code, said = landfall(capsys, "check", "-f", tmp_path)
    assert code == 1
    assert f"containers:{log.origin} offsets 0 to 1: " in said


def test_copies_are_not_made_of_its_index(node: tuple[KafkaLogPlace, Origin], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """backup and restore say that the brokers keep it, and how to have a copy elsewhere; nothing is touched."""
    folder = node[0].folder.parent
    before = sorted(path.name for path in folder.rglob("*"))
    for words in (("backup", tmp_path / "copy", "-f", folder), ("restore", _backup(capsys, tmp_path), "-f", folder)):
        code, said = landfall(capsys, *words)
        assert code == 2
        assert said.startswith("[log_in_kafka] ")
    assert not (tmp_path / "copy").exists()
    assert sorted(path.name for path in folder.rglob("*")) == before


def _backup(capsys: pytest.CaptureFixture[str], folder: Path) -> Path:
    """A backup of a log in files."""
    open_log(folder / "files").close()
    assert landfall(capsys, "backup", folder / "backup", "-f", folder / "files")[0] == 0
    return folder / "backup"
