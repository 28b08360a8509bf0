"""Goal: what a node appends is signed by it, alerts in the very commit, and no crash and no full disk makes it sign what is not so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from landfall.storage.file_log import FileLogOptions
from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import NEVER
from streams.integrity.hash_chain import RUN, UNKNOWN, entries
from streams.integrity.merkle_tree import Entry, Tree
from streams.integrity.signer import Signer
from streams.integrity.statements import Statement, last_statement, statements
from streams.model.block import Block
from streams.model.errors import Corrupt, RetryLater
from streams.model.ranges import RangeSet
from tests.proof.kit import CODEC, KEY, SigningNode, held_against
from tests.streams.badsector import BadSector
from tests.streams.logkit import FullDisk, numbers, rows


def said(node: SigningNode, stream: str) -> list[Statement]:
    found = [one for _, one in statements(Copy(node.log, CODEC), stream, node.log.origin) if not isinstance(one, Corrupt)]
    assert all(one.signed() for one in found)
    return found


@pytest.mark.parametrize("stream", ["alerts", "events", "registry", "aboard/9321483", "terms/duckworks", "reports", "homes"])
def test_an_alert_is_signed_in_its_own_commit(tmp_path: Path, stream: str) -> None:
    node = SigningNode(tmp_path)
    commits: list[frozenset[str]] = []
    node.log.subscribe(commits.append)
    for start in range(3):
        node.append(rows(1, start), stream)
        assert said(node, stream)[-1].end == start + 1
    assert commits == [frozenset({stream, f"{stream}.heads"})] * 3
    assert node.sign() == 0
    assert held_against(node.log, node.log.origin, stream).proven == RangeSet([(0, 3)])
    node.log.close()


def test_each_commit_of_alerts_is_proven_by_itself(tmp_path: Path) -> None:
    """Also one that could not be signed when it was made, and one of more rows than a run: by the runs that begin in it too, for who has
    dropped those before; of readings no such thing is said."""
    node = SigningNode(tmp_path)
    node.append(rows(3), "alerts")
    node.log.witnessed_by(lambda stream, origin, batches, ends: None)
    node.append(rows(2, 3), "alerts")
    assert node.sign() == 1
    assert node.sign() == 0
    node.log.witnessed_by(node.signer.witness)
    node.append(rows(RUN + 1, 5), "alerts")
    node.append(rows(3))
    node.sign()
    pieces = [piece for one in said(node, "alerts") for piece in one.pieces()]
    assert [piece[:2] for piece in pieces] == [(0, 3), (3, 5), (5, 5 + RUN), (5 + RUN, 6 + RUN), (RUN, 6 + RUN)]
    for first, end, root in pieces:
        held = [one for batch in node.log.run("alerts", node.log.origin, first, end) for one in entries(batch.records)]
        assert Tree(held).root() == root
    assert [one.pieces() for one in said(node, "containers")] == [[]]
    node.log.close()


def test_readings_are_signed_when_due_and_only_new_ones(tmp_path: Path) -> None:
    node = SigningNode(tmp_path)
    node.append(rows(10))
    node.append(rows(1), "metrics")
    assert node.sign() == 1
    assert node.sign() == 0
    node.append(rows(RUN, 10))
    node.append(rows(1), "ships")
    assert node.sign() == 2
    first, last = said(node, "containers")
    assert (first.end, first.runs, len(first.roots)) == (10, 0, 0)
    assert (last.end, last.runs, len(last.roots)) == (RUN + 10, 1, 1)
    assert not any(stream.startswith("metrics.") for stream in node.log.streams())
    node.log.close()


def test_what_thinning_kept_is_signed_where_its_stream_is(tmp_path: Path) -> None:
    """Kept readings are somebody's claim, kept metrics nobody's: neither signed, nor held against a signature that is not there."""
    node = SigningNode(tmp_path)
    for stream in ("containers.kept", "ships.kept", "metrics.kept", "exceptions.kept", "consumers.kept"):
        node.append(rows(5), stream)
    assert node.sign() == 2
    assert [stream for stream in node.log.streams() if stream.endswith(".heads")] == ["containers.kept.heads", "ships.kept.heads"]
    assert held_against(node.log, node.log.origin, "containers.kept").proven == RangeSet([(0, 5)])
    assert [doubt.why for doubt in held_against(node.log, node.log.origin, "metrics.kept").unproven] == [NEVER]
    node.log.close()


def test_after_a_restart_the_chain_goes_on(tmp_path: Path) -> None:
    """However often the node stops, it says the same of the same rows."""
    often, once = SigningNode(tmp_path / "often"), SigningNode(tmp_path / "once")
    for start in range(0, 3 * RUN, 1500):
        for node in (often, once):
            node.append(rows(1500, start))
            node.append(rows(2, start), "alerts")
        often.sign()
        often.log.close()
        often = SigningNode(tmp_path / "often")
    once.sign()
    often.sign()
    for stream in ("containers", "alerts"):
        ends = [last_statement(node.log, stream, node.log.origin) for node in (often, once)]
        assert ends[0] is not None
        assert ends[1] is not None
        assert (ends[0].end, ends[0].newest_at_ms) == (ends[1].end, ends[1].newest_at_ms)
        for node in (often, once):
            verdict = held_against(node.log, node.log.origin, stream)
            assert verdict.holds
            assert verdict.proven == RangeSet([(0, ends[0].end)])
    often.log.close()
    once.log.close()


def test_a_commit_that_fails_leaves_no_trace_in_the_chain(tmp_path: Path) -> None:
    disk = FullDisk()
    node = SigningNode(tmp_path, options=FileLogOptions(disk=disk))
    node.append(rows(RUN - 1), "alerts")
    for writes_left in range(3):
        disk.writes_left = writes_left
        with pytest.raises(RetryLater):
            node.append(rows(2, 777), "alerts")
    disk.writes_left = None
    node.append(rows(2, RUN), "alerts")
    verdict = held_against(node.log, node.log.origin, "alerts")
    assert verdict.holds
    assert verdict.proven == RangeSet([(0, RUN + 1)])
    node.log.close()


def test_a_statement_put_off_by_a_full_disk_is_made_later(tmp_path: Path) -> None:
    disk = FullDisk()
    node = SigningNode(tmp_path, options=FileLogOptions(disk=disk))
    node.append(rows(RUN + 5))
    disk.writes_left = 0
    with pytest.raises(RetryLater):
        node.sign()
    node.signer.forget()
    disk.writes_left = None
    assert node.sign() == 1
    assert len(said(node, "containers")[0].roots) == 1
    node.log.close()


def test_what_was_trimmed_before_it_was_signed_is_said_to_be_unknown(tmp_path: Path) -> None:
    node = SigningNode(tmp_path)
    node.append(rows(3 * RUN))
    node.log.trim("containers", node.log.origin, RUN + 100)
    node.sign()
    [one] = said(node, "containers")
    assert [root == UNKNOWN for root in one.roots] == [True, True, False]
    assert held_against(node.log, node.log.origin).proven == RangeSet([(2 * RUN, 3 * RUN)])
    node.log.close()


def test_a_long_log_is_signed_in_several_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.integrity.signer.ROOTS_MAX", 2)
    node = SigningNode(tmp_path)
    for start in range(0, 5 * RUN, RUN):
        node.append(rows(RUN, start))
    assert node.sign() > 1
    assert sum(len(one.roots) for one in said(node, "containers")) == 5
    assert held_against(node.log, node.log.origin).proven == RangeSet([(0, 5 * RUN)])
    node.log.close()


def test_what_is_signed_is_in_memory_a_run_at_a_time_and_a_part_of_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a backlog that is signed for the first time takes little: 393,216 rows, as upkeep merges them, took 400 MiB for a moment, of
    which as much stayed as a node that sends them may take."""
    asked, parts, given_back = list[int](), list[int](), list[str]()

    def watched(records: pa.RecordBatch) -> list[Entry]:
        asked.append(records.num_rows)
        return entries(records)

    class Parted(BlockCodec):
        def some_rows(self, block: Block, first: int, end: int) -> pa.RecordBatch:
            parts.append(end - first)
            return super().some_rows(block, first, end)

    monkeypatch.setattr("streams.integrity.hash_chain.entries", watched)
    monkeypatch.setattr("streams.integrity.copy_reader.PART_ROWS", RUN)
    monkeypatch.setattr("streams.integrity.signer.LARGE_ROWS_MIN", RUN)
    monkeypatch.setattr("streams.memory_release.release", lambda: given_back.append("given back"))
    ship = SigningNode(tmp_path, "ship-a")
    ship.append(rows(2 * RUN + 100))
    signed = Signer(ship.log, Parted(), KEY, ship.clock, lambda *_, **__: None).due()
    assert [one.stream for one in signed] == ["containers.heads"]
    assert (asked, parts, given_back) == ([RUN, RUN, 100], [RUN, RUN, 100], ["given back"])
    assert signed[0].records.column("body")[0].as_py() == ship.signer.due()[0].records.column("body")[0].as_py()
    ship.log.close()


def test_a_new_generation_begins_its_own_chain(tmp_path: Path) -> None:
    node = SigningNode(tmp_path)
    before = node.log.origin
    node.append(rows(3), "alerts")
    node.log.open_generation("to see")
    node.append(rows(2), "alerts")
    assert held_against(node.log, before, "alerts").proven == RangeSet([(0, 3)])
    assert held_against(node.log, node.log.origin, "alerts").proven == RangeSet([(0, 2)])
    assert KEY.public in held_against(node.log, node.log.origin, "alerts").keys
    node.log.close()


def test_an_alert_is_appended_though_it_can_not_be_signed(tmp_path: Path) -> None:
    """Heads that do not fit the log, whoever brought them: the alert goes first, and it is told."""
    node, other = SigningNode(tmp_path / "one"), SigningNode(tmp_path / "other")
    for _ in range(2):
        other.append(rows(RUN), "alerts")
    ahead = last_statement(other.log, "alerts", other.log.origin)
    assert ahead is not None
    node.log.append([ahead.append()])
    node.append(rows(1), "alerts")
    assert numbers(node.log, "alerts") == [0]
    assert "goes on at" in node.told[0]["problem"]
    node.log.close()
    other.log.close()


def test_a_stream_that_the_disk_does_not_give_keeps_no_other_from_being_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SigningNode(tmp_path)
    node.append(rows(3))
    node.append(rows(2), "ships")
    sector = BadSector(node.log, tmp_path / "log", ("containers", node.log.origin), (0, 3), monkeypatch)
    assert [node.sign(), node.sign()] == [1, 0]
    assert [details["stream"] for details in node.told] == ["containers"], "told once"
    sector.bad = False
    assert node.sign() == 1
    assert [len(said(node, stream)) for stream in ("containers", "ships")] == [1, 1]
    node.log.close()
