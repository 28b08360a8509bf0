"""Goal: whatever a record's body holds, a person is shown it and all others; what a sensor can not do is take itself for a kept record."""

from __future__ import annotations

import json
from pathlib import Path

from streams.clock import StillClock
from streams.codec import BlockCodec
from streams.definitions import Definitions
from streams.log import Append
from streams.logs.files import FileLog
from streams.node.defining import learn
from streams.records import Record, to_batch
from tests.landfall.commands import called
from tests.node.test_odd_records import NO_OBJECTS, odd, strict

MARKED = '{"landfall_kept":{"window_h":6}}'
PLAIN = '{"firmware":"1.2"}'
NAME = "customers/duckworks"


def held(folder: Path, *appends: Append) -> None:
    log = FileLog(folder / "log", folder / "marker", "tokyo", BlockCodec(), StillClock())
    log.append(appends)
    log.close()


def test_odd_bodies_are_shown_as_they_are_and_those_behind_them_too(tmp_path: Path) -> None:
    bodies = (*NO_OBJECTS, MARKED, PLAIN)
    held(tmp_path, odd("containers", bodies, "MSKU1234565"))
    for words in (("cat", "containers"), ("tail", "containers", "-n", 100), ("history", "MSKU1234565")):
        done = called("log", *words, "--folder", tmp_path, "--format", "json")
        assert (done.returncode, done.stderr) == (0, ""), words
        told = [strict(line) for line in done.stdout.splitlines()]
        assert [one.get("body_text") for one in told] == [*NO_OBJECTS, None, None]
        assert [one.get("body") for one in told[-2:]] == [json.loads(MARKED), json.loads(PLAIN)]
        done = called("log", *words, "--folder", tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), words
        lines = done.stdout.splitlines()
        assert len(lines) == len(bodies)
        assert 'body_text="not json"' in lines[2]
        assert "{landfall_kept: {window_h: 6}}" in lines[-2]
        assert "is thinned" not in done.stdout


def test_how_streams_are_managed_is_told_past_entries_that_do_not_read(tmp_path: Path) -> None:
    entry = {"type": "stream", "id": NAME, "version": 3, "value": {"patience_s": 5.0}}
    topic = f"stream/{NAME}"
    wrong = (*NO_OBJECTS, "{}", json.dumps({**entry, "version": "x"}), json.dumps({**entry, "value": []}))
    good = Append("registry", to_batch([Record(topic, body={**entry, "at_ms": "noon"})]))
    held(tmp_path, odd("registry", wrong, topic), good)
    done = called("stream", "versions", NAME, "--folder", tmp_path, "--json")
    assert (done.returncode, [strict(line)["version"] for line in done.stdout.splitlines()]) == (0, [3])
    assert called("stream", "versions", NAME, "--folder", tmp_path).returncode == 0
    shown = called("stream", "show", NAME, "--folder", tmp_path)
    assert (shown.returncode, "5 s" in shown.stdout) == (0, True)
    assert called("stream", "ls", "--folder", tmp_path).returncode == 0


def test_a_node_goes_on_past_them() -> None:
    refused: list[str] = []
    assert learn(Definitions(), odd("registry", NO_OBJECTS, f"stream/{NAME}").records, refused.append) == []
    assert len(refused) == len(NO_OBJECTS)
