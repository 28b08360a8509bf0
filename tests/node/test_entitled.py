"""Goal: a node that is known, under its own name and key, can say nothing of another's alerts, boxes' losses or ships that anybody counts;
it is named, and what is its own to say counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cargo.alerts.alert_authorization import JUDGES
from cargo.alerts.alert_log import AlertBook
from landfall.node.node import Node
from landfall.runtime.log_wait import judged_reader
from landfall.transport.http_client import AppendDoor
from streams.gap_skipping_reader import PatientReader, ReaderStanding
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.errors import NotAllowed
from streams.model.records import Batch, Record, StoredRecord, to_batch
from tests.node.test_hostile import told
from tests.proof.kit import CODEC, all_blocks
from tests.support.fleet import address, settings, until
from tests.support.refusals import refusal

SHIP, BOX = "9321483", "MSKU1234565"
NOW_MS = WallClock().now_ms()


def alert(id_: str, state: str, at_ms: int = NOW_MS, **more: Any) -> Append:
    body = {"alert_id": id_, "rule": "lost_container", "severity": "CRITICAL", "state": state, "at_ms": at_ms, "ship": SHIP, **more}
    return Append("alerts", to_batch([Record(BOX, "watch", at_ms, body=body)]))


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[tuple[Node, Node, Node]]:
    """A ship, headquarters, and a port that takes what its owner likes, each judging what comes as ship and port processes do."""
    made = [Node(settings(name, folder), WallClock()) for name in ("ship-a", "hq", "tokyo")]
    for node in made:
        for stream, judge in JUDGES.items():
            node.judge(stream, judge)
        await node.start()
    ship, hq, tokyo = made
    ship.link([address("ship-a", "hq", hq.url, "port")])
    tokyo.link([address("tokyo", "hq", hq.url)])
    try:
        yield ship, hq, tokyo
    finally:
        for node in made:
            await node.stop()


def held(node: Node, stream: str) -> Iterator[StoredRecord]:
    """Every row of a stream that the node's log has, foreign ones and those behind holes too."""
    for origin in node.log.ledger(stream):
        for block in all_blocks(node.log, stream, origin):
            yield from Batch(stream, origin, CODEC.decode(block)).rows()


def holds(node: Node, stream: str, rows: int) -> bool:
    """Whether the node's log has so many rows of a stream, foreign ones too."""
    return len(list(held(node, stream))) == rows


def counting(node: Node, stream: str) -> Iterator[StoredRecord]:
    """Every row of a stream that counts at the node, from the beginning."""
    for batch in PatientReader(node.log, stream).poll(ReaderStanding()).batches:
        yield from batch.rows()


def standing(node: Node) -> dict[str, str]:
    """Each alert's state by the node's log."""
    rows = [row.record for row in counting(node, "alerts")]
    return {one.id: one.state(NOW_MS) for one in AlertBook((row.topic, row.body or {}) for row in rows).alerts()}


def refused(node: Node, stream: str) -> list[str]:
    """The problems told of records of `stream` that tokyo wrote."""
    return [one["problem"] for one in told(node) if one.get("stream") == stream and str(one.get("origin", "")).startswith("tokyo@")]


FORGED = [
    alert(f"{SHIP}-true", "retracted", NOW_MS + 1),
    alert(f"{SHIP}-true", "cleared", NOW_MS + 1, ship=None, rule="shock"),
    alert(f"{SHIP}-true", "updated", NOW_MS + 1),
    alert(f"{SHIP}-true", "acknowledged", NOW_MS + 1),
    alert(f"{SHIP}-false", "raised"),
    alert("JPTYO-false", "raised"),
    alert("JPTYO-false", "raised", ship=None),
]
"""What a port may not say. Why not: `tests/cargo/test_entitled.py`."""


async def test_who_reads_nothing_of_a_node_but_its_log_leaves_out_foreign_records_too(tmp_path: Path) -> None:
    """As in a container that mounts the log alone."""
    async with fleet(tmp_path) as (ship, hq, tokyo):
        await ship.append([alert(f"{SHIP}-true", "raised")])
        await tokyo.append([alert(f"{SHIP}-false", "raised")])
        await tokyo.append([alert("JPTYO-own", "raised", ship=None, rule="temperature")])
        await until(lambda: holds(hq, "alerts", 3))
        (mount := tmp_path / "mount").mkdir()
        (mount / "log").symlink_to(tmp_path / "hq" / "log")
        with closing(judged_reader(mount / "log")) as reader:
            rows = [row for batch in PatientReader(reader, "alerts").poll(ReaderStanding()).batches for row in batch.rows()]
    assert {(row.record.body or {})["alert_id"] for row in rows} == {f"{SHIP}-true", "JPTYO-own"}


async def test_a_port_changes_no_alert_of_a_ship(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (ship, hq, tokyo):
        await ship.append([alert(f"{SHIP}-true", "raised")])
        await until(lambda: standing(hq) == {f"{SHIP}-true": "raised"})
        own: dict[str, str] = {}
        for number, forged in enumerate(FORGED):
            await tokyo.append([forged])
            await tokyo.append([alert(f"JPTYO-{number}", "raised", ship=None, rule="temperature")])
            own[f"JPTYO-{number}"] = "raised"
            await until(lambda: own.keys() <= standing(hq).keys())
            assert standing(hq) == {f"{SHIP}-true": "raised", **own}
        await until(lambda: bool(refused(hq, "alerts")))
        [problem] = refused(hq, "alerts")
        assert "port 'tokyo'" in problem, "told once"
        assert "is another's" in problem


@pytest.mark.parametrize("by", ["tokyo", "singapore"])
async def test_of_what_is_not_for_its_writer_to_write_the_writer_is_named_and_who_passed_it_on_is_no_liar(tmp_path: Path, by: str) -> None:
    """Singapore is told less of who is who than headquarters, and takes what Tokyo writes."""
    made = {name: Node(settings(name, tmp_path), WallClock()) for name in {"hq", "tokyo", by}}
    for stream, judge in JUDGES.items():
        made["hq"].judge(stream, judge)
    for node in made.values():
        await node.start()
    made["tokyo"].link([address("tokyo", "hq", made["hq"].url)])
    await until(lambda: made["hq"].has_met("tokyo"))
    if by != "tokyo":
        made["tokyo"].link([address("tokyo", by, made[by].url)])
        made[by].link([address(by, "hq", made["hq"].url)])
    await made["tokyo"].append([alert(f"{SHIP}-true", "retracted", NOW_MS + 1)])
    await until(lambda: bool(refused(made["hq"], "alerts")))
    [body] = [one for one in told(made["hq"]) if one.get("stream") == "alerts"]
    assert body["code"] == "record_not_own"
    assert body["origin"].partition("@")[0] == "tokyo"
    assert "peer" not in body, "who brought it has no part in it"
    assert [row.record.topic for row in held(made["hq"], "alerts")] == [BOX], "it is kept, for those who come for it"
    assert not list(counting(made["hq"], "alerts"))
    for node in made.values():
        await node.stop()


async def test_what_headquarters_and_the_ship_say_of_her_alert_counts(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (ship, hq, tokyo):
        await ship.append([alert(f"{SHIP}-true", "raised")])
        await hq.append([alert(f"{SHIP}-true", "acknowledged", NOW_MS + 1, by="operations")])
        await until(lambda: standing(tokyo) == {f"{SHIP}-true": "acknowledged"})
        await ship.append([alert(f"{SHIP}-true", "retracted", NOW_MS + 2)])
        await until(lambda: standing(tokyo) == {f"{SHIP}-true": "retracted"})
        assert not [one for node in (ship, hq, tokyo) for one in told(node) if one.get("stream") == "alerts"]


async def test_nobody_tells_where_a_ship_is_but_she(tmp_path: Path) -> None:
    def position(imo: str) -> Append:
        return Append("ships", to_batch([Record(f"{imo}.location", "GPS-1", NOW_MS, {"latitude_deg": 0.0, "longitude_deg": 0.0})]))

    async with fleet(tmp_path) as (ship, hq, tokyo):
        await tokyo.append([position(SHIP), alert("JPTYO-own", "raised", ship=None, rule="temperature")])
        await ship.append([position("9839430")])
        await until(lambda: bool(standing(hq)) and any("9839430" in str(one.get("problem")) for one in told(hq)))
        await asyncio.gather(*(node.append([position(SHIP)]) for node in (tokyo, ship)))
        await until(lambda: len(list(held(hq, "ships"))) == 2)
        [hers] = counting(hq, "ships")
        assert (hers.record.topic, hers.coordinates.origin.node) == (f"{SHIP}.location", "ship-a")
        assert [batch.origin.node for batch in hq.log.latest("ships", f"{SHIP}.location")] == ["ship-a"]
        history = hq.log.history(f"{SHIP}.location").rows
        assert [origin.partition("@")[0] for origin in history.column("origin").to_pylist()] == ["ship-a"]
        assert not hq.log.history("9839430.location").rows.num_rows


async def test_a_foreign_record_takes_no_neighbour_with_it(tmp_path: Path) -> None:
    """One position of another ship among forty of her own, in one append: forty arrive, at who reads on and at who comes later."""
    hers = [Record(f"{SHIP}.location", "GPS-1", NOW_MS + at, {"latitude_deg": float(at), "longitude_deg": 0.0}) for at in range(40)]
    other = Record("9839430.location", "GPS-1", NOW_MS, {"latitude_deg": 0.0, "longitude_deg": 0.0})
    async with fleet(tmp_path) as (ship, hq, tokyo):
        reader, standing_at = PatientReader(hq.log, "ships"), ReaderStanding()
        await ship.append([Append("ships", to_batch([*hers[:20], other, *hers[20:], other]))])
        heard: list[object] = []
        while len(heard) < 40:
            await until(partial(reader.moves, standing_at))
            polled = reader.poll(standing_at, rows_max=7)
            heard += [row.record.signals["latitude_deg"] for batch in polled.batches for row in batch.rows()]
            standing_at = polled.standing
        assert heard == [float(at) for at in range(40)]
        await until(lambda: not reader.moves(reader.poll(standing_at).standing))
        for node in (hq, tokyo):
            await until(partial(holds, node, "ships", 42))
            [batch] = node.log.latest("ships", f"{SHIP}.location")
            assert batch.records.column("latitude_deg").to_pylist() == [39.0]
        beside = judged_reader(hq.settings.folder / "log")
        with closing(beside):
            assert sum(batch.records.num_rows for batch in PatientReader(beside, "ships").poll(ReaderStanding()).batches) == 40
        await until(lambda: len([one for one in told(hq) if one.get("stream") == "ships"]) == 1)


async def test_a_program_beside_a_node_is_told_what_is_not_that_node_s_to_say(tmp_path: Path) -> None:
    """Others would not take it, nor of `ships`, which nobody passes a hole in, what she says of herself behind it."""
    where = {"latitude_deg": 0.0, "longitude_deg": 0.0}
    async with fleet(tmp_path) as (ship, hq, _):
        door = AppendDoor(ship.url, "door-of-ship-a")
        for imo, is_hers in (("9839430", False), (SHIP, True)):
            rows = to_batch([Record(f"{SHIP}.location", "GPS-1", NOW_MS, where), Record(f"{imo}.location", "GPS-1", NOW_MS, where)])
            with nullcontext() if is_hers else refusal(NotAllowed, "record_not_own", "9839430.location"):
                await asyncio.to_thread(door.append, [Append("ships", rows)])
        await until(lambda: len(list(held(hq, "ships"))) == 2)
        other = alert("9839430-1", "raised", ship="9839430")
        with refusal(NotAllowed, "record_not_own"):
            await asyncio.to_thread(door.append, [other])
        await asyncio.to_thread(AppendDoor(hq.url, "door-of-hq").append, [other])


async def test_a_ship_adds_nothing_to_another_ships_incident_nor_to_its_reports(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (ship, hq, _):
        theirs, own = "9839430-77aa", f"{SHIP}-77aa"
        await ship.append([alert(f"{SHIP}-1", "raised", incident_id=theirs)])
        for body in ({"ship": "9839430", "incident_id": theirs}, {"ship": SHIP, "incident_id": theirs}):
            await ship.append([Append("reports", to_batch([Record(f"{SHIP}.log", "ship-a", NOW_MS, body=body)]))])
        problems = ("incident '9839430-77aa' is another's", "it speaks of ship '9839430'")
        await until(lambda: all(any(word in str(one.get("problem")) for one in told(hq)) for word in problems))
        await ship.append([alert(f"{SHIP}-2", "raised", incident_id=own)])
        await ship.append([Append("reports", to_batch([Record(f"{SHIP}.log", "ship-a", NOW_MS, body={"ship": SHIP, "incident_id": own})]))])
        await until(lambda: standing(hq) == {f"{SHIP}-2": "raised"} and bool(list(counting(hq, "reports"))))
        assert [(row.record.body or {})["incident_id"] for row in counting(hq, "reports")] == [own]


async def test_a_port_musters_no_ship(tmp_path: Path) -> None:
    def event(topic: str, **body: Any) -> Append:
        return Append("events", to_batch([Record(topic, body=body)]))

    async with fleet(tmp_path) as (ship, hq, tokyo):
        await ship.append([event(f"{SHIP}.log", event="X_MUSTER", ship=SHIP, accounted=1)])
        await tokyo.append([event(f"{SHIP}.log", event="X_MUSTER", ship=SHIP, accounted=9)])
        await until(lambda: refused(hq, "events") != [])
        await tokyo.append([event(BOX, event="DISC", ship=SHIP, place="JPTYO")])
        await until(lambda: len(list(held(hq, "events"))) == 3)
        assert f"{SHIP}.log" in refused(hq, "events")[0]
        assert {(row.record.body or {}).get("accounted") for row in counting(hq, "events")} == {1, None}
