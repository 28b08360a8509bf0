"""Goal: the folders of logs and tables are for their user and, to read, for their group; one that is open to others is refused."""

from __future__ import annotations

import grp
import os
import stat
import threading
from pathlib import Path

import pytest

from hq.delta_tables import make_root
from landfall.storage.file_log import FileLogOptions
from landfall.storage.kafka.settings import FileLogSettings
from landfall.storage.log_kinds import LogOptions
from landfall.storage.log_kinds import open_log as open_as_set
from landfall.system.shared_folders import make_shared
from streams.codec import BlockCodec
from streams.integrity.record_authorization import Entitled
from streams.model.clock import WallClock
from streams.model.errors import Misuse
from tests.streams.logkit import append_rows, numbers, open_log, rows
from tests.support.refusals import refusal

ROOT = os.geteuid() == 0
OWN_GROUP = grp.getgrgid(os.getegid()).gr_name
OTHER_GROUP = next((grp.getgrgid(number).gr_name for number in (65534, *os.getgroups()) if ROOT or number != os.getegid()), OWN_GROUP)
"""A group that this user may give a file to: any as root."""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def a_log(home: Path, group: str = "") -> None:
    """Ten rows more in the log of the node in `home`."""
    log = open_log(home, options=FileLogOptions(group=group))
    append_rows(log, rows(10))
    log.close()


def test_a_new_log_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        a_log(tmp_path)
    finally:
        os.umask(before)
    assert mode(tmp_path / "log") == 0o750
    opened = {path.name: oct(mode(path)) for path in (tmp_path / "log").rglob("*") if mode(path) & 0o022}
    assert not opened


@pytest.mark.parametrize("bad", [0o755, 0o754, 0o770, 0o751])
def test_a_log_that_is_open_to_others_is_refused_and_the_hint_mends_it(tmp_path: Path, bad: int) -> None:
    a_log(tmp_path)
    (tmp_path / "log").chmod(bad)
    with refusal(Misuse, "folder_open", f"{bad:04o}") as refused:
        open_log(tmp_path)
    assert refused.value.hint == f"chmod -R g-w,o-rwx {tmp_path / 'log'}"
    assert os.system(refused.value.hint) == 0
    log = open_log(tmp_path)
    assert numbers(log) == list(range(10))
    log.close()


def test_a_segment_that_the_group_may_write_is_refused_by_name(tmp_path: Path) -> None:
    a_log(tmp_path)
    segment = next(path for path in (tmp_path / "log").rglob("*.segment"))
    segment.chmod(0o660)
    with refusal(Misuse, "folder_open", segment.name):
        open_log(tmp_path)


def test_an_empty_folder_is_closed_and_taken(tmp_path: Path) -> None:
    """A new disk that is mounted there, say."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log").chmod(0o777)
    a_log(tmp_path)
    assert mode(tmp_path / "log") == 0o750


def test_tables_are_closed_to_others_too(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    make_root(str(tables))
    assert mode(tables) == 0o750
    (tables / "history").mkdir()
    tables.chmod(0o755)
    with pytest.raises(Misuse) as refused:
        make_root(str(tables))
    assert refused.value.code == "folder_open"
    make_root("s3a://bucket/tables")


def test_the_group_gets_what_is_there_and_what_comes(tmp_path: Path) -> None:
    a_log(tmp_path)
    a_log(tmp_path, OTHER_GROUP)
    a_log(tmp_path, OTHER_GROUP)
    log = tmp_path / "log"
    assert {path.group() for path in (log, *log.rglob("*"))} == {OTHER_GROUP}
    (log / "later").mkdir()
    (log / "later" / "file").touch()
    assert (log / "later" / "file").group() == OTHER_GROUP
    assert mode(log) == 0o2750


def test_the_nodes_setting_lets_the_group_through_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "node"
    home.mkdir(0o750)
    options = LogOptions(lambda _: None, threading.Event(), Entitled())
    open_as_set(FileLogSettings(group=OTHER_GROUP), home, "tokyo", BlockCodec(), WallClock(), options).close()
    assert (home.group(), (home / "log").group(), mode(home)) == (OTHER_GROUP, OTHER_GROUP, 0o750)


def test_a_group_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse) as refused:
        make_shared(tmp_path / "log", "no-such-group")
    assert refused.value.code == "group_unknown"


def test_a_group_that_the_system_does_not_give_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(Misuse) as refused:
        make_shared(tmp_path / "log", OTHER_GROUP)
    assert refused.value.code == "group_refused"
