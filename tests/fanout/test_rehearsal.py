"""Goal: a broker starts with the classes that set-up kept for it, and as well, with not a word more, when they do not fit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from hq.fanout import broker
from hq.fanout.settings import KafkaBrokerSettings
from hq.java import KAFKA_CACHE, java_home
from hq.keptclasses import kept_classes
from hq.sparkhome import spark_home
from tests.fanout.kafka import PASSWORD, Kafka


def test_a_broker_works_with_the_classes_that_set_up_kept(kafka: Kafka) -> None:
    """Java maps them only when they were made by it and for these very jars."""
    kept = kept_classes(KAFKA_CACHE, java_home())
    mapped = str(kept) in Path(f"/proc/{kafka.java()}/maps").read_text()
    assert mapped, "no rehearsal with this Java and these jars: run `.venv/bin/python -m hq.fanout.rehearsal`"


@pytest.mark.parametrize("what", ["none", "torn", "of other jars"])
def test_it_starts_without_a_word_when_they_do_not_fit(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java 17 has none of itself; newer ones complain."""
    java = java_home()
    kept = tmp_path / "kept.jsa"
    if what == "torn":
        kept.write_bytes(kept_classes(KAFKA_CACHE, java).read_bytes()[:10_000_000])
    if what == "of other jars":
        kept = kept_classes(spark_home(), java)
    monkeypatch.setattr(broker, "kept_classes", lambda *_: kept)
    settings = KafkaBrokerSettings.model_validate({"folder": str(tmp_path), "password": PASSWORD})
    command = broker.java_command(settings, "uuid", ("kafka.tools.StorageTool", "random-uuid"))
    plain = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}  # Java tells that it has picked them up
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, timeout=60, env=plain).stdout
    assert re.fullmatch(r"[\w-]{22}\n", said)
