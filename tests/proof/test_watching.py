"""Goal: a node notices by itself that records came which their origin never signed so, says it once, and the origin can set it right."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import ALTERED, FORKED, UNHEARD, Doubt
from streams.integrity.fork_repair import append_again
from streams.integrity.hash_chain import RUN
from streams.integrity.online_audit import UNHEARD_STEPS, Watch
from streams.integrity.signing_keys import key_text
from streams.integrity.statements import Statement, last_statement
from streams.log import PeerKnowsMore
from streams.model.block import Block
from streams.model.errors import Misuse
from streams.model.ranges import RangeSet
from streams.model.records import BODY, SOURCE_OFFSET, Record, to_batch
from tests.proof.kit import CODEC, KEY, STRANGER, SigningNode, all_blocks, forged, held_against, trust
from tests.streams.logkit import append_rows, copy_all, numbers, open_log, rows


def stepped(watch: Watch, steps: int = 6) -> list[tuple[str, int, int, str]]:
    return [(one.stream, doubt.first, doubt.end, doubt.why) for _ in range(steps) for one in watch.step() for doubt in one.broken]


@pytest.mark.parametrize("rows_a_step", [1, 50_000])
def test_an_altered_record_is_noticed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_a_step: int) -> None:
    monkeypatch.setattr("streams.integrity.online_audit.ROWS_A_STEP_MAX", rows_a_step)
    ship, port = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    for start in range(0, 3 * RUN + 500, 500):
        ship.append(rows(500, start))
        ship.sign()
    port.admit(forged(all_blocks(ship.log, "containers", ship.log.origin), 2 * RUN + 700, "return_c", 77.0))
    heads = all_blocks(ship.log, "containers.heads", ship.log.origin)
    watch = Watch(Copy(port, CODEC))
    port.admit(heads[:2])
    assert stepped(watch) == []
    port.admit(heads)
    [(stream, first, end, why)] = stepped(watch)
    assert (stream, why) == ("containers", ALTERED)
    assert first <= 2 * RUN + 700 < end <= first + 500
    ship.append(rows(500, 9_000_000))
    ship.sign()
    copy_all(ship.log, port, ["containers", "containers.heads"])
    assert stepped(watch) == []
    ship.log.close()
    port.close()


class CountingCodec(BlockCodec):
    """The codec, and how many records of `containers` it has decoded."""

    def __init__(self) -> None:
        self.decoded = 0

    def decode(self, block: Block) -> pa.RecordBatch:
        records = super().decode(block)
        self.decoded += records.num_rows if block.stream == "containers" else 0
        return records


def test_each_record_is_read_once_however_often_more_comes_to_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an open run of thousands of small blocks would be read anew, every few seconds, at every node. Too many runs to keep are."""
    ship, port, codec = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b"), CountingCodec()
    watch = Watch(Copy(port, codec))
    for number in range(40):
        ship.append(rows(RUN // 16, number * RUN // 16))
        if number % 3:
            ship.sign()
        copy_all(ship.log, port, ["containers", "containers.heads"])
        assert watch.step() == []
    assert codec.decoded == 40 * RUN // 16
    monkeypatch.setattr("streams.integrity.online_audit.OPEN_RUNS_MAX", 0)
    for number in (40, 41):
        ship.append(rows(1, number * RUN // 16))
        ship.sign()
        copy_all(ship.log, port, ["containers", "containers.heads"])
        assert watch.step() == []
    assert codec.decoded > 40 * RUN // 16 + RUN // 2
    assert held_against(port, ship.log.origin).proven.count() == 40 * RUN // 16 + 2
    ship.log.close()
    port.close()


def test_a_large_block_is_judged_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what upkeep at sea merged is held against its signatures without ever being unpacked whole."""
    ship, port, codec = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b"), CountingCodec()
    monkeypatch.setattr("streams.codec.decoder.CHECKED_ROWS", RUN)
    monkeypatch.setattr("streams.integrity.online_audit.ROWS_A_STEP_MAX", RUN)
    ship.append(rows(4 * RUN))
    ship.sign()
    parts = [CODEC.decode(block) for block in all_blocks(ship.log, "containers", ship.log.origin)]
    merged = CODEC.encode("containers", ship.log.origin, pa.concat_batches(parts))
    port.admit([*forged([merged], 3 * RUN + 7, "return_c", 77.0), *all_blocks(ship.log, "containers.heads", ship.log.origin)])
    watch = Watch(Copy(port, codec))
    assert [one for _ in range(4) for one in stepped(watch)] == [("containers", 3 * RUN, 4 * RUN, ALTERED)]
    assert codec.decoded == 0
    ship.log.close()
    port.close()


def test_what_a_node_writes_itself_is_not_read_again_and_a_fork_of_it_is_noticed(tmp_path: Path) -> None:
    """It signs those rows as it writes them. Of them only what is signed is looked at: two statements that contradict each other."""
    one, other, codec = SigningNode(tmp_path / "one"), SigningNode(tmp_path / "other"), CountingCodec()
    own = one.log.origin
    watch = Watch(Copy(one.log, codec), lambda: one.log.origin)
    one.append(rows(5))
    one.sign()
    other.append(rows(7))
    other.sign()
    copy_all(other.log, one.log, ["containers", "containers.heads"])
    assert stepped(watch) == []
    assert codec.decoded == 7
    held = all_blocks(one.log, "containers.heads", own)[0]
    true = Statement.from_body("containers", own, CODEC.decode(held).column(BODY)[0].as_py())
    assert true.tail is not None
    contrary = replace(true, tail=bytes(len(true.tail)), at=1).by(KEY)
    append_rows(one.log, to_batch([Record("containers", body=contrary.body())]), "containers.heads")
    assert stepped(watch) == [("containers", 0, 5, FORKED)]
    assert codec.decoded == 7
    one.log.close()
    other.log.close()


@pytest.mark.parametrize("run", [0, 1])
def test_what_is_lost_and_comes_anew_is_judged_anew(tmp_path: Path, run: int) -> None:
    """Bytes on the disk spoil, whose records were found to be as signed; the peer that brings them once more alters one. `run`: whether
    that is a closed run or the open one."""
    ship, port = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    origin = ship.log.origin
    for start in range(0, RUN + 500, 500):
        ship.append(rows(500, start))
        ship.sign()
    copy_all(ship.log, port, ["containers", "containers.heads"])
    watch = Watch(Copy(port, CODEC))
    assert stepped(watch) == []
    first = run * RUN + 100
    port.set_aside("containers", origin, first, first + 200, "spoilt")
    watch.lost("containers", origin, first)
    port.admit(forged(list(ship.log.blocks("containers", origin, first, first + 200)), first + 7, "return_c", 77.0))
    [(stream, begin, end, why)] = stepped(watch)
    assert (stream, why) == ("containers", ALTERED)
    assert begin <= first + 7 < end
    ship.log.close()
    port.close()


@pytest.mark.parametrize("order", [("alerts", "alerts.heads"), ("alerts.heads", "alerts")])
def test_what_comes_piece_by_piece_is_judged_whatever_comes_first(tmp_path: Path, order: tuple[str, str]) -> None:
    ship, port = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    watch = Watch(Copy(port, CODEC))
    for number in range(6):
        ship.append(rows(3, number * 3), "alerts")
        for stream in order:
            blocks = all_blocks(ship.log, stream, ship.log.origin)
            port.admit(forged(blocks, 13, "return_c", -5.0) if stream == "alerts" else blocks)
            found = stepped(watch, 1)
            assert not found or found == [("alerts", 12, 15, ALTERED)]
            if found:
                assert number == 4
    assert stepped(watch) == []
    assert not held_against(port, ship.log.origin, "alerts").holds
    ship.log.close()
    port.close()


def test_a_fork_is_refused_noticed_and_cured(tmp_path: Path) -> None:
    """A disk is copied with its marker. Both machines go on; the port hears the second first, and more of it."""
    first = SigningNode(tmp_path / "first")
    first.append(rows(10), "events")
    first.log.close()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    first, second, port = SigningNode(tmp_path / "first"), SigningNode(tmp_path / "second"), open_log(tmp_path / "port", "port-b")
    forked = first.log.origin
    for number in range(4):
        second.append(rows(1, 500 + number), "events")
    first.append(rows(2, 900), "events")
    watch = Watch(Copy(port, CODEC))
    copy_all(second.log, port, ["events", "events.heads"])
    assert copy_all(first.log, port, ["events", "events.heads"]) == 0, "nothing held is replaced"
    assert stepped(watch) == []
    with pytest.raises(PeerKnowsMore):
        copy_all(port, first.log, ["events"])
    first.log.open_generation("a peer knows more")
    copy_all(port, first.log, ["events", "events.heads"])
    assert ("events", 10, 12, FORKED) in stepped(Watch(Copy(first.log, CODEC)), 1)
    with pytest.raises(Misuse):
        append_again(port, Copy(port, CODEC), "events", forked, 10)
    assert first.log.own_end("events", forked) == 12
    assert append_again(first.log, Copy(first.log, CODEC), "events", forked, 10) == 2
    assert append_again(first.log, Copy(first.log, CODEC), "events", forked, 10) == 0, "once, however often it is asked for"
    copy_all(first.log, port, ["events", "events.heads"])
    assert sorted(numbers(port, "events")) == [*range(10), *range(500, 504), 900, 901]
    assert stepped(watch) == []
    assert held_against(port, first.log.origin, "events").proven.count() == 2
    [batch] = port.run("events", first.log.origin, 0, 2)
    assert batch.records.column(SOURCE_OFFSET).to_pylist() == [10, 11]
    for log in (first.log, second.log, port):
        log.close()


def test_readings_that_nobody_signed_are_not_held_against_anything(tmp_path: Path) -> None:
    """Nor is what is acted upon, while nobody knows its origin's key."""
    log = open_log(tmp_path)
    append_rows(log, rows(5))
    append_rows(log, rows(5), "alerts")
    assert stepped(Watch(Copy(log, CODEC))) == []
    assert last_statement(log, "containers", log.origin) is None
    log.close()


def test_alerts_that_were_there_before_their_ships_key_was_known_and_are_not_signed_are_told_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(5))
    append_rows(log, rows(5), "alerts")
    watch = Watch(Copy(log, CODEC), given=trust(log.origin.node))
    found = [verdict for _ in range(2 * UNHEARD_STEPS) for verdict in watch.step()]
    assert [(verdict.stream, verdict.broken) for verdict in found] == [("alerts", [Doubt(0, 5, UNHEARD)])]
    log.close()


def test_keys_that_the_registry_pins_later_count_from_then_on(tmp_path: Path) -> None:
    ship, port = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    watch = Watch(Copy(port, CODEC))
    ship.append(rows(3), "alerts")
    copy_all(ship.log, port, ["alerts", "alerts.heads"])
    assert watch.step() == []
    body = {"version": 1, "value": {"keys": [key_text(STRANGER.public)]}}
    append_rows(port, to_batch([Record("node/ship-a", body=body)]), "registry")
    ship.append(rows(3, 3), "alerts")
    copy_all(ship.log, port, ["alerts", "alerts.heads"])
    [verdict] = watch.step()
    assert "ship-a" in verdict.problems[0]
    ship.log.close()
    port.close()


def test_a_false_statement_is_named_and_the_true_one_judges_what_was_passed(tmp_path: Path) -> None:
    """A relay alters a record and the statement that would show it. Once the statement is had as it was signed, the record is found."""
    ship, port = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    origin = ship.log.origin
    for start in range(0, 3 * RUN, RUN // 2):
        ship.append(rows(RUN // 2, start))
        ship.sign()
    heads = all_blocks(ship.log, "containers.heads", origin)
    bodies = [text for block in heads for text in CODEC.decode(block).column(BODY).to_pylist()]
    false = forged(forged(heads, 0, BODY, bodies[0].replace('"at_ms":1', '"at_ms":2')), 1, BODY, "{}")
    port.admit(forged(all_blocks(ship.log, "containers", origin), 5, "return_c", 77.0))
    port.admit(false)
    watch = Watch(Copy(port, CODEC))
    found = [verdict for _ in range(4) for verdict in watch.step()]
    assert [sorted(verdict.unbelieved) for verdict in found] == [[0, 1]]
    assert len(found[0].problems) == 2
    assert not found[0].broken
    for offset, told in found[0].unbelieved.items():
        port.set_aside("containers.heads", origin, offset, offset + 1, "no statement")
        watch.heads_again("containers", origin, offset, told)
    assert stepped(watch) == []
    port.admit(heads)
    assert stepped(watch) == [("containers", 0, RUN // 2, ALTERED)]
    ship.log.close()
    port.close()


def test_a_false_statement_that_comes_just_so_again_stays(tmp_path: Path) -> None:
    """Then it is what the origin wrote, with a key that the registry does not know, say. What comes behind it counts all the while."""
    ship, port = SigningNode(tmp_path / "ship", key=STRANGER), open_log(tmp_path / "port", "port-b")
    origin = ship.log.origin
    body = {"version": 1, "value": {"keys": [key_text(KEY.public)]}}
    append_rows(port, to_batch([Record("node/ship-a", body=body)]), "registry")
    ship.append(rows(3), "alerts")
    copy_all(ship.log, port, ["alerts", "alerts.heads"])
    watch = Watch(Copy(port, CODEC))
    [verdict] = watch.step()
    [(offset, told)] = verdict.unbelieved.items()
    port.set_aside("alerts.heads", origin, offset, offset + 1, "no statement")
    watch.heads_again("alerts", origin, offset, told)
    assert watch.step() == []
    ship.append(rows(3, 3), "alerts")
    port.admit(all_blocks(ship.log, "alerts.heads", origin)[1:])
    [verdict] = watch.step()
    assert (list(verdict.unbelieved), port.ledger("alerts.heads")[origin].held) == ([1], RangeSet([(1, 2)]))
    port.admit(all_blocks(ship.log, "alerts.heads", origin))
    assert watch.step() == [], "asked for once and no more"
    port.close()
    ship.log.close()
