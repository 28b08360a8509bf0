"""Goal: a block is believed when its rows, with those that are held and those that came in other blocks, are what its origin signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, permutations
from pathlib import Path

import pyarrow as pa
import pytest

from landfall.storage.file_log import FileLog
from streams.integrity.admission_verifier import Belief, Believing, Doubted, RefusedBlock
from streams.integrity.copy_reader import Copy, UnreadRows
from streams.model.block import Block
from streams.model.errors import Unreadable
from streams.model.identifiers import Origin
from streams.model.records import OFFSET
from tests.proof.kit import CODEC, STRANGER, SigningNode, all_blocks, forged, trust
from tests.streams.badsector import BadSector
from tests.streams.logkit import open_log, rows

ROWS = 72


def judge(port: FileLog, held: Sequence[tuple[int, int]], ship: SigningNode) -> Callable[[Sequence[Block]], list[Belief]]:
    """What a port that holds the statements and these offsets makes of what has come."""
    [whole] = all_blocks(ship.log, "events", ship.log.origin)
    port.admit([*all_blocks(ship.log, "events.heads", ship.log.origin), *(CODEC.cut(whole, first, end) for first, end in held)])
    believing = Believing(Copy(port, CODEC), lambda node: trust())
    return lambda came: believing.judge([one for one in map(believing.looked_at, came) if isinstance(one, Doubted)])


@pytest.fixture
def ship(tmp_path: Path) -> Iterator[SigningNode]:
    """One commit of ROWS events, signed at once."""
    node = SigningNode(tmp_path / "ship-a")
    node.append(rows(ROWS), "events")
    yield node
    node.log.close()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[FileLog]:
    """An empty log of a port."""
    log = open_log(tmp_path / "port-b", "port-b")
    yield log
    log.close()


@pytest.mark.parametrize("held", [[(5, 8)], [(5, 8), (30, 40)], []], ids=["one part", "two parts", "nothing"])
def test_a_commit_that_comes_in_parts_around_what_is_held_is_believed(
    port: FileLog, ship: SigningNode, held: list[tuple[int, int]]
) -> None:
    [whole] = all_blocks(ship.log, "events", ship.log.origin)
    edges = sorted({0, 20, ROWS, *(edge for part in held for edge in part)})
    parts = [CODEC.cut(whole, *part) for part in pairwise(edges) if part not in held]
    judged = judge(port, held, ship)
    for came in permutations(parts):
        assert set(judged(came)) == {Belief.PROVEN}
    assert judged(parts[1:]) == [Belief.OPEN] * (len(parts) - 1), "one is yet to come"


def test_what_a_forger_brings_beside_it_proves_nothing_and_hides_nothing(port: FileLog, ship: SigningNode) -> None:
    [whole] = all_blocks(ship.log, "events", ship.log.origin)
    true = [CODEC.cut(whole, *part) for part in ((0, 5), (8, ROWS))]
    [false] = forged([CODEC.cut(whole, 0, 5)], 2, "device", "FORGED")
    judged = judge(port, [(5, 8)], ship)
    assert judged([false, *true]) == [Belief.OPEN, Belief.PROVEN, Belief.PROVEN]
    assert judged([*true, false]) == [Belief.PROVEN, Belief.PROVEN, Belief.OPEN]


def test_a_commit_of_other_rows_than_were_signed_is_forged(port: FileLog, ship: SigningNode) -> None:
    [whole] = all_blocks(ship.log, "events", ship.log.origin)
    assert judge(port, [], ship)(forged([whole], 2, "device", "FORGED")) == [Belief.FORGED]


def test_a_statement_that_another_key_signed_is_not_taken(port: FileLog, ship: SigningNode) -> None:
    [block] = all_blocks(ship.log, "events.heads", ship.log.origin)
    refused = Believing(Copy(port, CODEC), lambda node: trust(key=STRANGER)).looked_at(block)
    assert isinstance(refused, RefusedBlock)
    assert refused.believed == []


def test_what_was_signed_for_one_place_is_not_taken_in_another(port: FileLog, ship: SigningNode) -> None:
    """Else who relays could put an old statement in the place of the next one, and what only that covers would be believed nowhere."""
    ship.append(rows(3, start=ROWS), "events")
    [first, second] = [CODEC.cut(block, at, at + 1) for at, block in enumerate(all_blocks(ship.log, "events.heads", ship.log.origin))]
    misplaced = CODEC.encode(second.stream, second.origin, at_offset(CODEC.decode(first), 1))
    believing = Believing(Copy(port, CODEC), lambda node: trust())
    refused = believing.looked_at(misplaced)
    assert isinstance(refused, RefusedBlock)
    assert refused.problem.forged
    assert refused.problem.code == "statement_not_believed"
    assert refused.believed == []
    assert [believing.looked_at(block) for block in (first, second)] == [None, None]


def at_offset(records: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    """The row as if it stood there."""
    return records.set_column(records.schema.get_field_index(OFFSET), OFFSET, pa.array([offset]))


def test_what_the_disk_does_not_give_keeps_nothing_else_from_being_believed(
    tmp_path: Path, ship: SigningNode, port: FileLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement, and rows, of an earlier commit can not be read: the next is believed by its own."""
    origin = ship.log.origin
    for stream in ("events", "events.heads"):
        port.admit(all_blocks(ship.log, stream, origin))
    sectors = [BadSector(port, tmp_path / "port-b" / "log", (name, origin), (0, 1), monkeypatch) for name in ("events.heads", "events")]
    ship.append(rows(3, start=ROWS), "events")
    [*_, statement], [*_, block] = (all_blocks(ship.log, stream, origin) for stream in ("events.heads", "events"))
    port.admit([CODEC.cut(statement, 1, 2)])
    believing = Believing(Copy(port, CODEC, past_unreadable=True), lambda node: trust())
    doubted = believing.looked_at(CODEC.cut(block, ROWS, ROWS + 3))
    assert isinstance(doubted, Doubted)
    assert believing.judge([doubted]) == [Belief.PROVEN]
    assert sectors[0].asked
    [unread] = Copy(port, CODEC, past_unreadable=True).rows("events.heads", origin, 0, 1)
    assert isinstance(unread, UnreadRows)
    assert (unread.first, unread.end) == (0, 1)
    with pytest.raises(Unreadable):
        list(Copy(port, CODEC).rows("events.heads", origin, 0, 1))


def test_what_has_just_come_asks_for_few_statements_of_a_long_log(
    port: FileLog, ship: SigningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its own statement is yet to come: what lies beyond the end of one statement is in no older one."""
    asked, rows_of = list[int](), Copy.rows

    def counted(copy: Copy, stream: str, origin: Origin, first: int, end: int) -> Iterator[pa.RecordBatch | UnreadRows]:
        asked.append(end - first)
        return rows_of(copy, stream, origin, first, end)

    for _ in range(40):
        ship.append(rows(1), "events")
    events, heads = (all_blocks(ship.log, stream, ship.log.origin) for stream in ("events", "events.heads"))
    port.admit([*events[:-1], *heads[:-1]])
    believing = Believing(Copy(port, CODEC), lambda node: trust())
    monkeypatch.setattr(Copy, "rows", counted)
    doubted = believing.looked_at(events[-1])
    assert isinstance(doubted, Doubted)
    assert believing.judge([doubted]) == [Belief.OPEN]
    port.admit([heads[-1]])
    assert believing.judge([doubted]) == [Belief.PROVEN]
    assert sum(asked) <= 8
