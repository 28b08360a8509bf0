"""Goal: the crew see from the command line what waits, what was spent, and choose the link, on a real ship's process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cargo.vocabulary.registry_entries import Entry, Stream, entry_body
from landfall.cli.number_format import utc
from landfall.cli.ship_commands import _lines
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.landfall.commands import run as landfall
from tests.support.aboard import ShipProcess, login, publish_all, ship
from tests.support.process import wait
from tests.support.sea import SHIP, START_MS

MORE = """
[node.links.satellite]
budget_bytes_per_day = 5_000_000
alerts_reserve_bytes = 500_000
price_per_mb = 8.0

[[node.known]]
node = "hq"
role = "hq"

[headquarters]
node = "hq"
url = "http://127.0.0.1:1"
token = "of-the-link"
"""


NO_WAY_IN: dict[str, Any] = {"mqtt_port": None, "mqtt_clients": None, "broker_connected": None, "troubles": []}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code, out, complaint = landfall(capsys, "ship", *words)
    return code, " ".join((out + complaint).split())


def config(process: ShipProcess) -> str:
    return str(process.config)


def test_what_passed_a_link_is_told_with_its_cost_where_a_price_is_set() -> None:
    passed = {"since_wall_at_ms": START_MS, "sent_bytes": 12_000, "received_bytes": 340}
    traffic = {"lan": {**passed, "cost": None}, "port": {**passed, "cost": 1.5}}
    kept = {"wish": "auto", "peers": {}, "twins": [], "budgets": {}, "traffic": traffic}
    digests = {"every_h": 6.0, "wait": False, "next_at_ms": None, "last": None}
    told: dict[str, Any] = {"node": "ship-a", "ship": SHIP, "position": None, "port": None, "link": kept, "digests": digests}
    told |= {"kept_here": [], "companions": [], "intake": NO_WAY_IN, "troubles": []}
    lines = list(_lines(told))
    since = f"since {utc(START_MS)}: 12,000 bytes out, 340 in"
    assert lines[-2:] == [f"passed the lan link {since}; no price is set", f"passed the port link {since}; cost 1.50"]


def test_a_lease_that_may_not_have_been_spent_is_told_as_that() -> None:
    budget = {"day": "2026-05-01", "bytes_per_day": 500_000, "reserve_bytes": 0, "granted_bytes": 0, "spent_bytes": 80_000, "cost": 0.4}
    satellite: dict[str, Any] = {**budget, "state": "open", "unsure_bytes": 65_536, "price_per_mb": 5.0}
    kept = {"wish": "auto", "peers": {}, "twins": [], "budgets": {"satellite": satellite}, "traffic": {}}
    digests = {"every_h": 6.0, "wait": False, "next_at_ms": None, "last": None}
    told: dict[str, Any] = {"node": "ship-a", "ship": SHIP, "position": None, "port": None, "link": kept, "digests": digests}
    told |= {"kept_here": [], "companions": [], "intake": NO_WAY_IN, "troubles": []}
    assert "65,536 bytes (cost 0.33)" in list(_lines(told))[-1]
    satellite["unsure_bytes"] = 0
    assert "leased" not in str(list(_lines(told)))


def test_what_is_wrong_at_the_node_is_told() -> None:
    kept = {"wish": "auto", "peers": {}, "twins": [], "budgets": {}, "traffic": {}}
    digests = {"every_h": 6.0, "wait": False, "next_at_ms": None, "last": None}
    told: dict[str, Any] = {"node": "ship-a", "ship": SHIP, "position": None, "port": None, "link": kept, "digests": digests}
    told |= {"kept_here": [], "companions": [], "intake": NO_WAY_IN, "troubles": ["the clock has stepped 1.0 h ahead"]}
    assert f"! {told['troubles'][0]}" in list(_lines(told))


def test_the_crew_see_what_waits_and_choose_the_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ship(tmp_path, MORE) as process:
        code, told = run(capsys, "status", "-c", config(process))
        assert (code, "[node_not_running]" in told) == (2, True)
        process.start()
        wait(process.ready, process.tail)
        body = {"device": "TRK-1", "at": START_MS, "return_c": 4.0}
        publish_all(process.mqtt_port, [("landfall/containers/MSKU1234565/reading", json.dumps(body).encode())], process.tail)

        code, told = run(capsys, "status", "-c", config(process))
        assert code == 0, told
        assert f"({SHIP}), at sea, " in told
        assert "link: auto; " in told
        assert "0 of 5,000,000 bytes, 500,000 " in told
        assert "containers 1 " in told
        assert re.search(rf"sensors: MQTT on port {process.mqtt_port} \(\d connected\); 1 .*: 1 stale link:", told)
        assert "every 6 h, " in told
        assert "; none yet" in told
        whole: dict[str, Any] = json.loads(run(capsys, "-c", config(process), "status", "--json")[1])
        assert whole["waiting"]["containers"]["records"] == 1
        assert whole["link"]["traffic"] == {}, "she was in session with nobody"

        span = {"container": "MSKU1234565", "since_at_ms": 0, "until_at_ms": 1 << 42}
        question = {"ask_id": "a1", "ship": SHIP, **span, "spend": "nothing", "at_ms": START_MS, "by": "Mira"}
        process.hears([Append(f"aboard/{SHIP}", to_batch([Record("ask/a1", body=question)]))])
        wait(lambda: [row["body"]["records"] for row in process.rows("answers")] == [1], process.tail)
        assert not [row for row in process.rows("exceptions") if "registry entry" in row["body"]["reason"]], "no question is one"

        narrower = [Entry("stream", name, 1, 1, "olga", Stream(originate=("port",))) for name in ("containers", "decisions")]
        told_of = [Record(entry.topic, body=entry_body(entry)) for entry in narrower]
        process.hears([Append(f"aboard/{SHIP}", to_batch(told_of))])
        said = "this node may not write into containers: it is written by port"
        wait(lambda: [row["body"]["reason"] for row in process.rows("exceptions")].count(said) == 1, process.tail)
        later = json.dumps({**body, "at": START_MS + 1_000}).encode()
        publish_all(process.mqtt_port, [("landfall/containers/MSKU1234565/reading", later)], process.tail)
        assert len(process.rows("containers")) == 2, "what a sensor hears to be received is kept"
        code, told = run(capsys, "status", "-c", config(process))
        assert (code, ": containers digests" in told) == (0, True), told
        code, told = run(capsys, "decide", "MSKU1234565", "gone", *login("mate", tmp_path), "-c", config(process))
        assert (code, "[stream_not_own]" in told, "decisions" in told) == (2, True, True), told

        assert run(capsys, "link", "none", "-c", config(process)) == (0, "the ship keeps: none")
        assert "link: none" in run(capsys, "status", "-c", config(process))[1]
        code, told = run(capsys, "link", "JPKOB", "-c", config(process))
        assert (code, "[link_unknown]" in told) == (2, True)
        assert process.stop() == 0
