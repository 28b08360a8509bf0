"""Goal: an index that is damaged under a running log is built anew from the files by whatever meets it first, and nobody loses anything."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from landfall.storage.file_log import Damage, FileLog, FileLogOptions, WriteLimits
from landfall.storage.index import INDEX_NAME, IndexReader
from landfall.storage.index_integrity import sum_problem
from landfall.storage.merge_levels import Level
from streams.log import Append
from streams.model.errors import RetryLater
from tests.streams.damagekit import COMMITS, ROWS, reopened, written_log
from tests.streams.logkit import append_rows, content, copy_all, numbers, open_log, rows


@pytest.fixture
def written(tmp_path: Path) -> Iterator[tuple[Path, FileLog]]:
    folder, copy = written_log(tmp_path)
    yield folder, copy
    copy.close()


def spoil(path: Path, chance: random.Random) -> None:
    """What a failing disk may make of a file under the process that has it open: some of its pages are noise."""
    with path.open("r+b") as file:
        for at in range(0, path.stat().st_size, 4096):
            if at == 0 or chance.random() < 0.7:
                file.seek(at)
                file.write(chance.randbytes(4096))


WORKS: dict[str, Callable[[FileLog], object]] = {
    "append": lambda log: append_rows(log, rows(1), "ships"),
    "read": numbers,
    "history": lambda log: log.history("box-1").rows.num_rows,
    "latest": lambda log: log.latest("containers", "box-2"),
    "upkeep": lambda log: log.upkeep.step(),
    "gone": lambda log: log.declare_gone("containers", log.origin, 0, 0, "thinned"),
    "generation": lambda log: log.open_generation("to see"),
}


@pytest.mark.parametrize("work", WORKS)
def test_an_index_damaged_under_a_running_log_is_built_anew(written: tuple[Path, FileLog], work: str) -> None:
    """Whatever meets the damage first: it goes on, the bytes lie aside, it is told, and nothing is lost or given twice."""
    folder, copy = written
    found: list[Damage] = []
    small = FileLogOptions(on_damage=found.append, levels=(Level(20, 3, 60),))
    log = open_log(folder, options=small)
    origin, index = log.origin, folder / "log" / "index.sqlite"
    assert [log.append([Append("containers", rows(1, start=COMMITS * ROWS), "gateway", 3)])[0].first] == [COMMITS * ROWS]
    append_rows(log, rows(1), "ships")
    copy_all(log, copy, ["containers"])
    truth = content(copy, ["containers"])
    inode = index.stat().st_ino
    for path in (index, index.with_name("index.sqlite-wal")):
        spoil(path, random.Random(work))
    reader = log.history("box-1").rows.num_rows if work == "history" else 0
    WORKS[work](log)
    for _ in range(3):
        log.upkeep.step()
    assert content(log, ["containers"]) == truth
    assert reader in (0, copy.history("box-1").rows.num_rows)
    assert index.stat().st_ino != inode
    assert [damage.code for damage in found] == ["index_damaged"]
    assert (folder / "log" / "aside" / "index.sqlite.0").stat().st_size > 0
    assert log.append([Append("containers", rows(1), "gateway", 3)])[0].repeated
    assert append_rows(log, rows(1)) == (COMMITS * ROWS + 1 if log.origin == origin else 0)
    log.close()
    log = reopened(folder, found)
    assert truth.items() <= content(log, ["containers"]).items()
    assert len(found) == 1
    log.close()


def told_blocks(log: FileLog) -> None:
    """All blocks of this log's own readings, as a peer asks for them."""
    list(log.blocks("containers", log.origin, 0, log.ledger("containers")[log.origin].end()))


@pytest.mark.parametrize("read", [numbers, told_blocks])
def test_rows_that_vanish_from_the_index_are_found_again(written: tuple[Path, FileLog], read: Callable[[FileLog], object]) -> None:
    """Nobody is given less than the ledger says: neither who reads rows, nor a peer who takes blocks."""
    folder, copy = written
    log = reopened(folder)
    with closing(sqlite3.connect(folder / "log" / "index.sqlite")) as other, other:
        other.execute("DELETE FROM pieces WHERE first = 30")
    with pytest.raises(RetryLater):
        read(log)
    assert content(log, ["containers"]) == content(copy, ["containers"])
    log.close()


DAMAGE = {
    "another file": "UPDATE pieces SET segment = segment + 1 WHERE segment = 2",
    "no file": "UPDATE pieces SET segment = NULL WHERE segment = 2",
    "no row": "DELETE FROM pieces WHERE segment = 2",
    "no length": "UPDATE pieces SET length = 'long' WHERE first = 10",
    "no origin": "UPDATE lines SET origin = x'00' || origin",
    "another column": "UPDATE sqlite_master SET sql = replace(sql, 'one INTEGER', 'onm INTEGER') WHERE name = 'mark'",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_nothing_is_deleted_by_what_a_damaged_index_says(tmp_path: Path, damage: str) -> None:
    """Upkeep plans by rows that nobody verifies: before it deletes a file that seems dead, all of them are."""
    found: list[Damage] = []
    log = open_log(tmp_path, options=FileLogOptions(WriteLimits(segment_bytes=1000), found.append))
    for commit in range(COMMITS):
        append_rows(log, rows(ROWS, start=commit * ROWS))
    truth = content(log, ["containers"])
    with closing(sqlite3.connect(tmp_path / "log" / "index.sqlite")) as other, other:
        other.execute("PRAGMA writable_schema = ON")
        assert other.execute(DAMAGE[damage]).rowcount > 0
    while log.upkeep.step():
        pass
    assert content(log, ["containers"]) == truth
    assert not any(lost.offsets for lost in found)
    assert [one.code for one in found] in ([], ["index_damaged"])
    log.close()
    log = reopened(tmp_path, found)
    assert content(log, ["containers"]) == truth
    assert [one.code for one in found] == ["index_damaged"]
    log.close()


def test_a_row_older_than_the_index_s_mark_is_found(tmp_path: Path) -> None:
    """As after a power cut on a disk that lies about syncs: the row matches its own checksum. Believed, a retry would be taken twice."""
    index, found = tmp_path / "log" / INDEX_NAME, list[Damage]()
    log = open_log(tmp_path)
    log.append([Append("containers", rows(3), "gateway", 1)])
    with closing(sqlite3.connect(index)) as other:
        [older] = other.execute("SELECT * FROM producers").fetchall()
    log.append([Append("containers", rows(3, start=3), "gateway", 2)])
    log.close()
    with closing(sqlite3.connect(index)) as other:
        other.execute("INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?, ?, ?, ?)", older)
        other.commit()
    index.with_name(f"{INDEX_NAME}.sum").unlink()
    log = reopened(tmp_path, found)
    [damage] = found
    assert (damage.code, "older than" in damage.why) == ("index_damaged", True)
    [answer] = log.append([Append("containers", rows(3, start=3), "gateway", 2)])
    assert (answer.first, answer.repeated) == (3, True)
    log.close()


def test_a_log_that_ended_while_it_was_read_opens_as_it_was(tmp_path: Path) -> None:
    """A reader keeps SQLite's write-ahead log from coming down as the log ends: the next start leaves the index as its digest has it."""
    log, index, damage = open_log(tmp_path), tmp_path / "log" / INDEX_NAME, list[Damage]()
    reader = IndexReader.open(index)
    assert reader.rows("SELECT count(*) FROM lines") == [(0,)]
    ahead = index.with_name(f"{INDEX_NAME}-wal")
    while ahead.stat().st_size < 5 << 20:  # SQLite brings 4 MiB down by itself
        append_rows(log, rows(3))
    log.close()
    reader.close()
    assert ahead.stat().st_size >= 5 << 20
    log = open_log(tmp_path, options=FileLogOptions(on_damage=damage.append))
    assert (sum_problem(index), damage) == (None, [])
    log.close()
