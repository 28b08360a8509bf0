"""Goal: whatever a ship or port appends and syncs, every node goes on, tells `exceptions` of what does not read, and forwards the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cargo.loss.watch_outcome import MadeRecord, WatchPlace
from cargo.loss.watch_state import WatchSettings
from cargo.report.loss_draft import next_draft
from cargo.vocabulary.registry_entries import TEXT_CHARS_MAX, Entry, Ship, entry_body
from edge.links.link_choice import ShipPosition
from edge.services.loss_report_service import LossReports
from edge.ship import AroundAlerts
from hq.api.answer_fields import record_fields
from hq.fanout.kafka_messages import messages
from hq.spark_rows import widen
from landfall.node.http.row_json import batch_lines, table_lines
from landfall.node.node import Node
from landfall.watch.watch_service import Watching
from shore.ship_forwarder import Forwarding
from streams.body_reader import Bodies
from streams.log import Append
from streams.model.identifiers import Position
from streams.model.records import BODY, Record, Value, read_body, to_batch
from streams.retention.kept_records import kept_rows, window_h
from tests.cargo.lossnews import voyage
from tests.support.fleet import address, settings, started, until

SHIP = "9321483"
GOOD: dict[str, Any] = {
    "alert_id": "a1",
    "rule": "lost_container",
    "severity": "CRITICAL",
    "state": "acknowledged",
    "at_ms": 1_777_593_600_000,
    "ship": SHIP,
    "incident_id": "77aa",
    "by": "Mira",
}
NO_OBJECTS: tuple[str | None, ...] = (
    None,
    "",
    "not json",
    "null",
    "[]",
    '"x"',
    "7",
    '{"alert_id":"a1"',
    '{"posterior":NaN}',
    '{"title":"\\ud800"}',
    '{"at_ms":' + "9" * 5_000 + "}",
    '{"deep":' + "[" * 900 + "]" * 900 + "}",
    '{"deep":' + "[" * 50_000 + "]" * 50_000 + "}",
    "\0",
    '{"flags":',
    '["flags"]',
)
"""Bodies that are no JSON object, or none that can be written again."""
INCIDENT = {**GOOD, "rule": "incident", "state": "raised"}


def changed(good: Mapping[str, Any], *less: str, **more: Any) -> str:
    return json.dumps({name: value for name, value in good.items() if name not in less} | more)


ODD_ALERTS = (
    *NO_OBJECTS,
    "{}",
    *(changed(GOOD, name) for name in ("alert_id", "rule", "severity", "state", "at_ms")),
    *(changed(GOOD, **{name: ["x"]}) for name in ("alert_id", "rule", "state", "ship", "by", "position", "incident")),
    changed(GOOD, at_ms="now"),
    changed(GOOD, at_ms=-1),
    changed(GOOD, at_ms=2**62),
    changed(GOOD, at_ms=2**64),
    changed(GOOD, state="shrugged"),
    changed(GOOD, title="a\0b"),
    changed(GOOD, evidence=[{}]),
)
FOR_NOBODY = (
    changed(GOOD, ship="Big Blue One"),
    changed(GOOD, ship="../registry"),
    changed(GOOD, ship="9321480"),
    changed(GOOD, alert_id=""),
    changed(GOOD, alert_id="a\nb"),
    changed(GOOD, alert_id="x" * 5_000),
)
"""Acknowledgements that read, but of which no ship can be told."""
FOR_NO_REPORT = (
    json.dumps(INCIDENT),
    changed(INCIDENT, "incident_id", incident={"from_at_ms": 1, "until_at_ms": 2}),
    changed(INCIDENT, incident={"containers": ["x"], "from_at_ms": 1}),
    changed(INCIDENT, incident={"from_at_ms": 1, "until_at_ms": 2}, position={"latitude_deg": 1, "longitude_deg": 2}),
)
"""Incidents that read, but from which no report can be drafted."""
ODD_REPORTS = (
    *NO_OBJECTS[1:],
    "{}",
    json.dumps({"report_id": "77aa-1", "state": "draft"}),
    json.dumps({"report_id": ["x"]}),
)


def odd(stream: str, bodies: Sequence[str | None], topic: str = "MSKU1234565") -> Append:
    """Records with these very texts as their bodies."""
    rows = to_batch([Record(topic, body={})] * len(bodies))
    return Append(stream, rows.set_column(rows.schema.get_field_index(BODY), rows.schema.field(BODY), pa.array(bodies, pa.string())))


def said(stream: str, *bodies: Mapping[str, Any], topic: str = "MSKU1234565") -> Append:
    return Append(stream, to_batch([Record(topic, body=body) for body in bodies]))


def told(node: Node, stream: str) -> list[dict[str, Any]]:
    """The bodies of a stream that are JSON objects, in order."""
    return [read_body(text) for batch in node.log.read(stream, Position()) for text in batch.records.column(BODY).to_pylist()]


def unread(node: Node, stream: str) -> list[dict[str, Any]]:
    return [body for body in told(node, "exceptions") if body["reason"] == f"a record of `{stream}` does not read"]


async def beginning(node: Node, name: str, work: Any) -> Node:
    node.add_background(name, work)
    await node.start()
    return node


async def test_headquarters_forwards_the_good_ones_behind_odd_ones(tmp_path: Path) -> None:
    hq, tokyo, vessel = Node(settings("hq", tmp_path)), await started("tokyo", tmp_path), await started("ship-a", tmp_path)
    forwarding = Forwarding(hq.report)
    await beginning(hq, "forwarding", lambda: forwarding.run(hq.log, hq))
    tokyo.link([address("tokyo", "hq", hq.url)])
    vessel.link([address("ship-a", "hq", hq.url)])
    her = Entry("ship", SHIP, 1, 1, "clerk", Ship(SHIP, "Big Blue", "3FOF8", "370123000", "PA", 2000))
    await hq.append([odd("registry", NO_OBJECTS), said("registry", entry_body(her), topic=her.topic)])
    wrong = (*ODD_ALERTS, *FOR_NOBODY)
    for node in (tokyo, vessel):
        await node.append([odd("alerts", wrong), said("alerts", {**GOOD, "alert_id": f"of {node.settings.node}"})])

    aboard = f"aboard/{SHIP}"
    await until(lambda: len(told(hq, aboard)) == 3 or bool(hq._failure))
    assert hq._failure is None, "an odd record ended headquarters' node"
    assert {body.get("alert_id", body.get("type")) for body in told(hq, aboard)} == {"ship", "of tokyo", "of ship-a"}
    await until(lambda: len(unread(hq, "alerts")) == 2 * len(wrong) and len(unread(hq, "registry")) == len(NO_OBJECTS))
    assert len({body["at"] for body in unread(hq, "alerts")}) == 2 * len(wrong), "each is told, by its coordinates"
    assert [stream for stream in hq.log.streams() if stream.startswith("aboard/")] == [aboard, f"{aboard}.heads"]
    await until(lambda: len(told(vessel, aboard)) == 3)
    await hq.stop()

    again = Node(settings("hq", tmp_path))
    forwarding = Forwarding(again.report)
    await beginning(again, "forwarding", lambda: forwarding.run(again.log, again))
    await again.append([said("alerts", {**GOOD, "alert_id": "later"})])
    await until(lambda: len(told(again, aboard)) == 4 or bool(again._failure))
    assert len(unread(again, "alerts")) == 2 * len(wrong), "the Position went past them"
    for node in (again, tokyo, vessel):
        await node.stop()


async def test_a_ship_reports_a_loss_behind_odd_records(tmp_path: Path) -> None:
    node = Node(settings("ship-a", tmp_path))
    watch_settings = WatchSettings(WatchPlace("ship-a", ship=SHIP))
    reports = LossReports(node, Watching(watch_settings, tmp_path, node.clock, node.metrics, node.report, (f"aboard/{SHIP}",)))
    await beginning(node, "loss reports", reports.run)
    facts = voyage()
    await node.append([odd("ships", ("{}", "not json"), f"{SHIP}.location"), odd(f"aboard/{SHIP}", NO_OBJECTS)])
    await node.append([odd("alerts", (*ODD_ALERTS, *FOR_NO_REPORT)), odd("reports", ODD_REPORTS)])
    await node.append([said("alerts", one.body, topic=one.topic) for one in (facts.incident, *facts.boxes)])
    await until(lambda: bool(drafts(node)) or bool(node._failure))
    assert node._failure is None, "an odd record ended the ship's node"
    assert [box["container"] for box in drafts(node)[-1]["content"]["lost"]] == facts.span["containers"]
    await until(lambda: len(unread(node, "alerts")) == len(ODD_ALERTS) + len(FOR_NO_REPORT) - 1)  # who has no body says nothing
    await until(lambda: len(unread(node, "reports")) == len(ODD_REPORTS))

    assert ShipPosition(SHIP).look(node.log, node.clock.now_ms()) is None, "no record says where she is, and none stops who asks"
    for latitude_deg in (200.0, -1e300, float("inf"), float("nan")):
        where: dict[str, Value] = {"latitude_deg": latitude_deg, "longitude_deg": 4.0}
        await node.append([Append("ships", to_batch([Record(f"{SHIP}.location", "GPS", signals=where)]))])
        assert ShipPosition(SHIP).look(node.log, node.clock.now_ms()) is None, f"{latitude_deg}° is no place"
    around = AroundAlerts(lambda: node.log)("containers", 0, 1 << 60)
    assert {one.topic for one in facts.boxes} <= set(around)
    await node.stop()


async def test_a_draft_that_no_store_takes_ends_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was appended and then not read, and the node ended, at each start: whatever makes one, it is told, and nothing is appended."""

    def too_long(*facts: Any) -> MadeRecord | None:
        made = next_draft(*facts)
        return made and MadeRecord(made.topic, made.at_ms, {**made.body, "by": "x" * (TEXT_CHARS_MAX + 1)})

    monkeypatch.setattr("edge.services.loss_report_service.next_draft", too_long)
    node = Node(settings("ship-a", tmp_path))
    watching = Watching(
        WatchSettings(WatchPlace("ship-a", ship=SHIP)), tmp_path, node.clock, node.metrics, node.report, (f"aboard/{SHIP}",)
    )
    await beginning(node, "loss reports", LossReports(node, watching).run)
    facts = voyage()
    await node.append([said("alerts", one.body, topic=one.topic) for one in (facts.incident, *facts.boxes)])
    await until(lambda: any(body.get("reason") == "a loss report can not be drafted" for _, body in Bodies(node.log, "exceptions").news()))
    assert (drafts(node), node._failure) == ([], None)
    await node.stop()


def drafts(node: Node) -> list[dict[str, Any]]:
    return [body for _, body in Bodies(node.log, "reports").news() if "content" in body]


async def test_what_others_are_given_of_odd_bodies_is_plain_json(tmp_path: Path) -> None:
    """To Kafka, over a node's door, and over the API; what reads is given as it is, and Spark has all of them."""
    node = await started("tokyo", tmp_path)
    await node.append([odd("containers", (*NO_OBJECTS, '{"firmware":"1.2"}'))])
    batches = list(node.log.read("containers", Position()))
    given = [strict(message.value) for batch in batches for message in messages(batch)]
    assert [one["body"] for one in given] == [None] * len(NO_OBJECTS) + [{"firmware": "1.2"}]
    assert ["body_left_out" in one for one in given] == [False, *[True] * (len(NO_OBJECTS) - 1), False]
    assert sum(widen(batch).num_rows for batch in batches) == len(given)
    lines = [strict(line) for line in batch_lines(batches, 100)]
    assert [one.get("body_text") for one in lines] == [*NO_OBJECTS, None]
    assert lines[-1]["body"] == {"firmware": "1.2"}
    row = dict.fromkeys(("kind", "order_at_ms", "received_at_ms", "device", "device_at_ms", "signals")) | {"origin": str(node.log.origin)}
    bodies = [record_fields({**row, "body": text}, None)["body"] for text in (*NO_OBJECTS, '{"firmware":"1.2"}')]
    assert bodies == [None] * len(NO_OBJECTS) + [{"firmware": "1.2"}]
    await node.stop()


async def test_thinning_keeps_odd_bodies_as_text(tmp_path: Path) -> None:
    node = await started("tokyo", tmp_path)
    marks = ("[]", '"x"', "7", '{"window_h":[]}', "{}")
    odd_ones = (*NO_OBJECTS[2:], *(f'{{"landfall_kept":{mark}}}' for mark in marks), '"landfall_kept"')
    await node.append([odd("containers", odd_ones)])
    for batch in node.log.read("containers", Position()):
        assert [window_h(text) for text in odd_ones] == [None] * len(odd_ones)
        kept = kept_rows(batch.stream, batch.origin, batch.records, 3_600_000).column(BODY).to_pylist()
        assert {window_h(text) for text in kept} == {1.0}
        assert [read_body(text).get("body_text") for text in kept] == [*NO_OBJECTS[2:], *[None] * len(marks), odd_ones[-1]]
    await node.stop()


def strict(text: str | bytes) -> dict[str, Any]:
    """As a client reads JSON that follows RFC 8259 alone."""

    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    read: dict[str, Any] = json.loads(text, parse_constant=refused)
    return read


@pytest.mark.parametrize("text", ['{"a":1}', '{"a":{"b":[[[1.5e300,"\\u0000"]]]},"c":18446744073709551615}', "{}"])
def test_an_object_reads_as_it_is(text: str) -> None:
    assert read_body(text) == json.loads(text)


async def test_numbers_that_json_has_no_word_for_are_null_over_the_door(tmp_path: Path) -> None:
    node = await started("tokyo", tmp_path)
    signals: dict[str, Value] = {"a": float("nan"), "b": float("-inf"), "c": 4.5, "d": 2**62}
    await node.append([Append("containers", to_batch([Record("MSKU1234565", signals=signals)]))])
    log = node.log
    lines = [*batch_lines(log.read("containers", Position()), 9), *table_lines(log, log.history("MSKU1234565").rows, 9)]
    assert [strict(line.encode())["signals"] for line in lines] == [{"a": None, "b": None, "c": 4.5, "d": 2**62}] * 2
    await node.stop()


async def test_a_signal_of_several_types_goes_over_as_it_was_written(tmp_path: Path) -> None:
    """A whole number, then a number, then a text by one name, a commit each: blocks that can not be joined into one."""
    tokyo = await started("tokyo", tmp_path)
    values: list[int | float | str] = [1, 2, 1.5, 2.0, "none", 7, 8.25]
    for value in values:
        await tokyo.append([Append("containers", to_batch([Record("MSKU1234565", signals={"v": value})]))])
    peers = [address("hq", "tokyo", tokyo.url)]
    hq = Node(settings("hq", tmp_path, peers=peers))
    await hq.start()
    await until(lambda: sum(hq.log.position("containers").values()) == len(values))
    rows = [row for batch in hq.log.read("containers", Position()) for row in batch.rows()]
    told = [row.record.signals["v"] for row in sorted(rows, key=lambda row: row.coordinates.offset)]
    assert told == values
    assert [type(one) for one in told] == [type(one) for one in values]
    assert not list(hq.log.read("exceptions", Position()))
    await hq.stop()
    await tokyo.stop()
