"""Goal: a record that was set aside because its origin never signed it so is not back when the index is built anew from the files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from landfall.storage.backup import backup, restore
from landfall.storage.damage import Damage
from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from landfall.storage.index_writer import remove_index
from landfall.storage.merge_levels import Level
from landfall.storage.rejected_records import DISOWNED_NAME
from streams.model.block import Block
from streams.model.errors import RetryLater
from streams.model.ranges import RangeSet
from tests.proof.kit import all_blocks, forged
from tests.streams.logkit import FullDisk, append_rows, content, open_log, rows

STREAM, FORGED, COUNT = "containers", 25, 60
OPTIONS = FileLogOptions(WriteLimits(segment_bytes=1500), levels=(Level(20, 3, 60), Level(60, 3, 200)))
WHOLE, LACKING = RangeSet([(0, COUNT)]), RangeSet([(0, FORGED), (FORGED + 1, COUNT)])


@pytest.fixture
def blocks(tmp_path: Path) -> list[Block]:
    """What a ship appended, a few records a block."""
    ship = open_log(tmp_path / "ship")
    for start in range(0, COUNT, 6):
        append_rows(ship, rows(6, start))
    found = all_blocks(ship, STREAM, ship.origin)
    ship.close()
    return found


def lying(folder: Path, blocks: list[Block], options: FileLogOptions = OPTIONS) -> FileLog:
    """A port's log to which a relay brought one record altered."""
    log = open_log(folder, "port-b", options=options)
    for block in forged(blocks, FORGED, "return_c", 99.0):
        log.admit([block])
    return log


def disown(log: FileLog, blocks: list[Block]) -> None:
    assert log.set_aside(STREAM, blocks[0].origin, FORGED, FORGED + 1, "not what was signed") == 1
    assert held(log, blocks) == LACKING


def held(log: FileLog, blocks: list[Block]) -> RangeSet:
    return log.ledger(STREAM)[blocks[0].origin].held


def rebuilt(log: FileLog, folder: Path, options: FileLogOptions = OPTIONS) -> FileLog:
    log.close()
    remove_index(folder / "log" / "index.sqlite")
    return open_log(folder, "port-b", options=options)


def forged_value(log: FileLog, blocks: list[Block]) -> object:
    return content(log, [STREAM])[STREAM, blocks[0].origin, FORGED]["return_c"]


def tidied(log: FileLog) -> None:
    while log.upkeep.step():
        pass


@pytest.mark.parametrize("merged", ["not", "before", "after", "moved"])
def test_it_is_not_back_whatever_became_of_its_bytes(
    tmp_path: Path, blocks: list[Block], monkeypatch: pytest.MonkeyPatch, merged: str
) -> None:
    """In its segment, in a merged file, or moved there with the block it came in; and the true one comes and stays."""
    log = lying(tmp_path, blocks)
    if merged == "before":
        tidied(log)
    disown(log, blocks)
    if merged == "moved":
        monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 500)
        log.trim(STREAM, blocks[0].origin, FORGED - 3)
        tidied(log)
        log = rebuilt(log, tmp_path)
        assert held(log, blocks) == LACKING.within(FORGED - 3, COUNT)
    else:
        if merged == "after":
            tidied(log)
        log = rebuilt(log, tmp_path)
        assert held(log, blocks) == LACKING
    assert log.admit(blocks) == 1
    tidied(log)
    log = rebuilt(log, tmp_path)
    assert FORGED in held(log, blocks)
    assert forged_value(log, blocks) != 99.0
    log.close()


def test_what_is_brought_again_just_so_is_kept_from_then_on(tmp_path: Path, blocks: list[Block]) -> None:
    """Nothing that was acknowledged is lost, were it forged: whoever judges it judges it again."""
    log = lying(tmp_path, blocks)
    disown(log, blocks)
    assert log.admit(forged(blocks, FORGED, "return_c", 99.0)) == 1
    log = rebuilt(log, tmp_path)
    assert (held(log, blocks), forged_value(log, blocks)) == (WHOLE, 99.0)
    log.close()


def test_of_two_that_were_forged_neither_is_back_and_what_is_held_disowns_nothing(tmp_path: Path, blocks: list[Block]) -> None:
    log = lying(tmp_path, blocks)
    disown(log, blocks)
    assert log.admit(forged(blocks, FORGED, "return_c", 77.0)) == 1
    disown(log, blocks)
    assert log.admit(blocks) == 1
    assert log.admit(forged(blocks, FORGED, "return_c", 99.0)) == 0, "nothing held is replaced"
    log = rebuilt(log, tmp_path)
    assert held(log, blocks) == WHOLE
    assert forged_value(log, blocks) not in (99.0, 77.0)
    log.close()


def test_a_backup_brings_it_along(tmp_path: Path, blocks: list[Block]) -> None:
    log = lying(tmp_path / "port", blocks)
    disown(log, blocks)
    backup(tmp_path / "port" / "log", tmp_path / "backup")
    log.close()
    shutil.rmtree(tmp_path / "port")
    restore(tmp_path / "backup", tmp_path / "port")
    log = rebuilt(open_log(tmp_path / "port", "port-b", options=OPTIONS), tmp_path / "port")
    assert held(log, blocks) == LACKING
    log.close()


def test_a_full_disk_sets_nothing_aside_and_is_told(tmp_path: Path, blocks: list[Block]) -> None:
    disk = FullDisk()
    options = FileLogOptions(disk=disk)
    log = lying(tmp_path, blocks, options)
    disk.writes_left = 0
    with pytest.raises(RetryLater):
        log.set_aside(STREAM, blocks[0].origin, FORGED, FORGED + 1, "not what was signed")
    assert held(log, blocks) == WHOLE
    disk.writes_left = None
    disown(log, blocks)
    disk.writes_left = 0
    with pytest.raises(RetryLater):
        log.admit(forged(blocks, FORGED, "return_c", 99.0))
    disk.writes_left = None
    assert log.admit(forged(blocks, FORGED, "return_c", 99.0)) == 1
    log = rebuilt(log, tmp_path)
    assert held(log, blocks) == WHOLE, "what was taken in the end is held"
    log.close()


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_a_damaged_list_is_told_and_the_log_opens(tmp_path: Path, blocks: list[Block], damage: str) -> None:
    log = lying(tmp_path, blocks)
    disown(log, blocks)
    log.close()
    path = tmp_path / "log" / DISOWNED_NAME
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes({"flipped": bytes(data), "cut": bytes(data[:-5]), "empty": b""}[damage])
    told: list[Damage] = []
    log = open_log(tmp_path, "port-b", options=FileLogOptions(on_damage=told.append))
    [one] = told
    assert one.why.startswith(DISOWNED_NAME)
    assert held(log, blocks) == LACKING, "its index knows"
    log.close()
