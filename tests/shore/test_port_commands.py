"""Goal: who looks after a port sees from the command line what became of what its quay and gate brought, how standby and links stand."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from cargo.vocabulary.trade_codes import make_container
from tests.landfall.commands import run as landfall
from tests.shore.pair import OF_PORT, Paired, stage
from tests.support.aboard import Gateway, publish_all
from tests.support.process import wait
from tests.support.sea import START_MS

BOX = "landfall/containers/MSKU1234565/reading"
READING = {"device": "GATE-2", "gateway": "GATE-2", "at": START_MS, "door_open": False}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code, out, complaint = landfall(capsys, "port", *words)
    return code, " ".join((out + complaint).split())


def test_what_the_quay_brought_and_how_standby_and_links_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path, OF_PORT, START_MS, []) as all_:
        one, other = all_.nodes

        def status(of: Paired) -> str:
            code, told = run(capsys, "status", "-c", str(of.config))
            assert code == 0, told
            return told

        said = [(BOX, json.dumps(READING).encode()), (BOX, json.dumps(READING).encode()), (BOX, b"{"), ("elsewhere", b"{}")]
        publish_all(one.mqtt_port, said, all_.tails)
        wait(lambda: "in session with hq, quay-b" in status(one), all_.tails)
        told = status(one)
        assert told.startswith("quay-a (JPTYO), ")
        assert ": 1 accepted, 1 repeated, 1 malformed, 1 foreign" in told
        assert "in vain" not in told
        wait(lambda: "quay-b in session, 0 " in status(one), all_.tails)
        assert "quay-a in session" in status(other)

        whole: dict[str, Any] = json.loads(run(capsys, "-c", str(one.config), "status", "--json")[1])
        counted = {name: whole["intake"][name] for name in ("received", "accepted", "repeated", "malformed", "foreign", "waiting")}
        assert counted == {"received": 4, "accepted": 1, "repeated": 1, "malformed": 1, "foreign": 1, "waiting": 0}

        ashore = "hq, headquarters' node in session with quay-a, quay-b"
        wait(lambda: run(capsys, "status", "-c", str(all_.hq.config))[1].startswith(ashore), all_.tails)

        os.kill(other.pid, signal.SIGSTOP)  # a standby that takes nothing in, in session as long as nobody misses its word
        boxes = [(f"landfall/containers/{make_container('TGHU', at)}/reading", json.dumps(READING).encode()) for at in range(100)]
        with Gateway(one.mqtt_port, boxes) as gateway:
            lacking = re.compile(r"quay-b in session, [1-9]\d\d records still to send")
            wait(lambda: bool(lacking.search(status(one))), all_.tails)
            other.kill()
            all_.hq.kill()
            wait(gateway.done, all_.tails)
        publish_all(one.mqtt_port, [(BOX, json.dumps({**READING, "at": START_MS + 60_000}).encode())], all_.tails)
        wait(lambda: "in session with nobody; dials hq, quay-b in vain" in status(one), all_.tails)
        told = status(one)
        assert "102 accepted" in told
        assert ": quay-b not" in told

        one.kill()
        code, told = run(capsys, "status", "-c", str(one.config))
        assert (code, "[node_unreachable]" in told, "`landfall port`" in told) == (2, True, True), told
