"""Goal: a copy is proven, or the first offset that breaks it is named; what nobody signed is said to be unproven, never believed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from streams.integrity import copy_verifier
from streams.integrity.altered_records import LOCATED_MAX
from streams.integrity.copy_verifier import PARTLY_HELD, UNSIGNED
from streams.integrity.hash_chain import RUN, entries
from streams.integrity.key_trust import IN_REGISTRY, OWN_WORD, Trust, registry_trust
from streams.integrity.merkle_tree import Entry
from streams.integrity.signing_keys import SigningKey, key_text
from streams.integrity.statements import last_statement
from streams.model.errors import Misuse
from streams.model.ranges import RangeSet
from streams.model.records import DEVICE, ORDER_AT, TOPIC, Record, to_batch
from tests.proof.kit import KEY, STRANGER, SigningNode, all_blocks, forged, held_against, trust
from tests.streams.logkit import open_log, rows
from tests.support.refusals import refusal

HELD = 2 * RUN + 300


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ship's folder: two closed runs and an open one, signed at many offsets, the last of them HELD - 300 or so."""
    folder = tmp_path_factory.mktemp("voyage")
    node = SigningNode(folder)
    for start in range(0, HELD, 100):
        node.append(rows(min(100, HELD - start), start))
        if start % 300 == 0 and start < HELD - 100:
            node.sign()
    node.log.close()
    return folder


@pytest.fixture
def ship(voyage: Path, tmp_path: Path) -> Iterator[SigningNode]:
    """The ship, as her folder was left."""
    shutil.copytree(voyage, tmp_path / "ship")
    node = SigningNode(tmp_path / "ship")
    assert (last := last_statement(node.log, "containers", node.log.origin))
    assert 2 * RUN < last.end < HELD
    yield node
    node.log.close()


def test_an_honest_copy_is_proven_up_to_the_last_head(ship: SigningNode, tmp_path: Path) -> None:
    origin = ship.log.origin
    port = open_log(tmp_path / "port", "port-b")
    port.admit([block for stream in ("containers", "containers.heads") for block in all_blocks(ship.log, stream, origin)])
    verdict = held_against(port, origin)
    assert verdict.holds
    assert verdict.proven == RangeSet([(0, verdict.signed_end)])
    assert [(doubt.first, doubt.end, doubt.why) for doubt in verdict.unproven] == [(verdict.signed_end, HELD, UNSIGNED)]
    port.close()


def test_a_large_block_is_digested_a_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes in memory depends on no block's size."""
    sizes: list[int] = []

    def counted(records: pa.RecordBatch) -> list[Entry]:
        sizes.append(records.num_rows)
        return entries(records)

    ship = SigningNode(tmp_path / "ship")
    ship.append(rows(HELD))
    ship.sign()
    monkeypatch.setattr(copy_verifier, "entries", counted)
    assert len(all_blocks(ship.log, "containers", ship.log.origin)) == 1
    assert held_against(ship.log, ship.log.origin).proven == RangeSet([(0, HELD)])
    assert sizes == [RUN, RUN, HELD - 2 * RUN]
    ship.log.close()


@pytest.mark.parametrize(
    ("column", "value", "offset"),
    [
        ("return_c", 99.0, 0),
        ("number", None, 250),
        (TOPIC, "box-x", RUN - 1),
        (ORDER_AT, 5, RUN),
        (DEVICE, "", 2 * RUN + 5),
        (DEVICE, None, 2 * RUN + 5),
    ],
)
def test_an_altered_record_is_found(ship: SigningNode, tmp_path: Path, column: str, value: object, offset: int) -> None:
    """Wherever it stands in its run; that each column counts alike is `row_digest`'s (test_canonical.py)."""
    origin = ship.log.origin
    port = open_log(tmp_path / "port", "port-b")
    port.admit(forged(all_blocks(ship.log, "containers", origin), offset, column, value))
    port.admit(all_blocks(ship.log, "containers.heads", origin))
    verdict = held_against(port, origin)
    [broken] = verdict.broken
    assert broken.first <= offset < broken.end
    assert broken.end - broken.first <= 300
    assert broken.offsets == (offset,)
    assert offset not in verdict.proven
    port.close()


@pytest.mark.parametrize("altered", [[RUN + 5, RUN + 140, RUN + 141], [RUN - 1, RUN], [2 * RUN + 1, 2 * RUN + 250]])
def test_the_first_of_several_altered_records_is_named(ship: SigningNode, tmp_path: Path, altered: list[int]) -> None:
    origin = ship.log.origin
    port = open_log(tmp_path / "port", "port-b")
    blocks = all_blocks(ship.log, "containers", origin)
    for offset in altered:
        blocks = forged(blocks, offset, "return_c", -40.0)
    port.admit(blocks)
    port.admit(all_blocks(ship.log, "containers.heads", origin))
    broken = held_against(port, origin).broken
    assert broken[0].offsets[0] == altered[0]
    assert {offset for one in broken for offset in one.offsets} <= set(altered)
    port.close()


def test_of_more_altered_records_than_sums_can_tell_the_range_is_named(ship: SigningNode, tmp_path: Path) -> None:
    origin = ship.log.origin
    port = open_log(tmp_path / "port", "port-b")
    blocks = all_blocks(ship.log, "containers", origin)
    for offset in range(RUN + 20, RUN + 20 + 2 * LOCATED_MAX):
        blocks = forged(blocks, offset, "return_c", -40.0)
    port.admit(blocks)
    port.admit(all_blocks(ship.log, "containers.heads", origin))
    [broken] = held_against(port, origin).broken
    assert broken.offsets == ()
    assert broken.first <= RUN + 20 < broken.end
    port.close()


def test_a_strangers_signature_proves_nothing(ship: SigningNode) -> None:
    verdict = held_against(ship.log, ship.log.origin, by=trust(key=STRANGER))
    assert verdict.problems
    assert not verdict.proven
    assert not verdict.holds
    assert held_against(ship.log, ship.log.origin, by=Trust()).trust == OWN_WORD


def test_the_registry_pins_keys(ship: SigningNode) -> None:
    def pin(version: int, *keys: SigningKey) -> None:
        body = {"type": "node", "id": "ship-a", "version": version, "value": {"keys": [key_text(key.public) for key in keys]}}
        ship.append(to_batch([Record("node/ship-a", body=body)]), "registry")

    assert registry_trust(ship.log).of("ship-a") == OWN_WORD
    pin(1, STRANGER)
    assert held_against(ship.log, ship.log.origin, by=registry_trust(ship.log)).problems
    pin(2, STRANGER, KEY)
    verdict = held_against(ship.log, ship.log.origin, by=registry_trust(ship.log))
    assert verdict.holds
    assert verdict.trust == IN_REGISTRY
    ship.append(to_batch([Record("node/ship-a", body={"version": 3, "value": {"keys": "all"}})]), "registry")
    with refusal(Misuse, "keys_unreadable"):
        registry_trust(ship.log)


def test_a_statement_that_was_altered_is_not_believed(ship: SigningNode, tmp_path: Path) -> None:
    origin = ship.log.origin
    true = last_statement(ship.log, "containers", origin)
    assert true is not None
    other = {"end": true.end + 1, "newest_at_ms": 5, "at_ms": 5, "tail": None, "head": b"x" * 32, "signature": b"x" * 64, "stream": "ships"}
    for name, value in other.items():
        assert not replace(true, **{name: value}).signed(), name  # type: ignore[arg-type]
    assert not replace(true, roots=(*true.roots, b"y" * 32)).signed()


def test_a_copy_that_lacks_records_is_proven_as_far_as_its_runs_are_whole(ship: SigningNode, tmp_path: Path) -> None:
    origin = ship.log.origin
    port = open_log(tmp_path / "port", "port-b")
    port.admit([block for block in all_blocks(ship.log, "containers", origin) if not RUN <= block.first <= RUN + 700])
    port.admit(all_blocks(ship.log, "containers.heads", origin))
    verdict = held_against(port, origin)
    assert verdict.holds
    assert verdict.proven == RangeSet([(0, RUN), (2 * RUN, verdict.signed_end)])
    assert {doubt.why for doubt in verdict.unproven} == {PARTLY_HELD, UNSIGNED}
    port.close()


def test_trimmed_runs_are_in_nobodys_way(ship: SigningNode) -> None:
    origin = ship.log.origin
    end = ship.log.ledger("containers.heads")[origin].end()
    ship.log.trim("containers.heads", origin, end - 3)
    verdict = held_against(ship.log, origin)
    assert verdict.holds
    assert verdict.proven == RangeSet([(0, verdict.signed_end)])  # the first head is known to everybody, the next was signed
    ship.log.trim("containers.heads", origin, end - 1)
    ship.log.trim("containers", origin, RUN)
    verdict = held_against(ship.log, origin)
    assert verdict.holds
    assert verdict.proven == RangeSet([(RUN, verdict.signed_end)])  # by the last statement alone


def test_a_run_whose_root_is_in_no_statement_left_is_unproven(ship: SigningNode) -> None:
    origin = ship.log.origin
    ship.log.trim("containers.heads", origin, ship.log.ledger("containers.heads")[origin].end() - 1)
    verdict = held_against(ship.log, origin)
    assert verdict.holds
    assert verdict.proven == RangeSet([(RUN, verdict.signed_end)])
    assert (verdict.unproven[0].first, verdict.unproven[0].end, verdict.unproven[0].why) == (0, RUN, UNSIGNED)


def test_gone_runs_are_in_nobodys_way(ship: SigningNode) -> None:
    ship.log.declare_gone("containers", ship.log.origin, RUN, 2 * RUN, "thinned")
    verdict = held_against(ship.log, ship.log.origin)
    assert verdict.holds
    assert verdict.proven == RangeSet([(0, RUN), (2 * RUN, verdict.signed_end)])


def test_a_block_of_an_unknown_codec_is_unproven_until_it_can_be_read(ship: SigningNode, tmp_path: Path) -> None:
    """It is stored and relayed whole; its run's root is signed, its rows can not be held against it here."""
    origin = ship.log.origin
    port = open_log(tmp_path / "port", "port-b")
    blocks = all_blocks(ship.log, "containers", origin)
    port.admit([replace(block, codec=250) if block.first == 500 else block for block in blocks])
    port.admit(all_blocks(ship.log, "containers.heads", origin))
    verdict = held_against(port, origin)
    assert verdict.holds
    assert "an encoding that is not known" in verdict.unproven[0].why
    assert (verdict.unproven[0].first, verdict.unproven[0].end) == (500, 600)
    assert verdict.proven.covers(RUN, 2 * RUN)
    assert not verdict.proven.covers(500, 501)
    port.close()


def test_an_origin_that_signs_two_contents_is_named(tmp_path: Path) -> None:
    """A disk copied with its marker: two machines go on under one origin and one key."""
    node = SigningNode(tmp_path / "one")
    node.append(rows(RUN - 2), "alerts")
    node.log.close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    one, two = SigningNode(tmp_path / "one"), SigningNode(tmp_path / "two")
    assert one.log.origin == two.log.origin
    one.append(rows(1, 5000), "alerts")
    one.append(rows(1, 6000), "alerts")
    two.append(rows(1, 7000), "alerts")
    port = open_log(tmp_path / "port", "port-b")
    port.admit(all_blocks(one.log, "alerts", one.log.origin))
    port.admit(all_blocks(two.log, "alerts.heads", one.log.origin))
    port.admit(all_blocks(one.log, "alerts.heads", one.log.origin))
    verdict = held_against(port, one.log.origin, "alerts")
    assert not verdict.holds
    assert verdict.broken[0].first == RUN - 2
    for log in (one.log, two.log, port):
        log.close()


def test_merging_blocks_changes_nothing(ship: SigningNode) -> None:
    before, blocks = held_against(ship.log, ship.log.origin), len(all_blocks(ship.log, "containers", ship.log.origin))
    while ship.log.upkeep.step():
        pass
    assert len(all_blocks(ship.log, "containers", ship.log.origin)) < blocks
    assert held_against(ship.log, ship.log.origin) == before
