"""Goal: a command that reads leaves no file in a store, whoever calls it, and the store's own process starts as before."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hq.serving.database import ServingDatabase, ServingReader
from landfall.storage.file_log import FileLogReader
from landfall.storage.index import INDEX_NAME
from landfall.system.sqlite_files import connect_to_read
from streams.codec import BlockCodec
from streams.model.errors import RetryLater
from tests.landfall.commands import called
from tests.streams.logkit import append_rows, numbers, open_log, rows
from tests.support.forked import ROOT

GROUP = 65534
OTHER_USER = ["setpriv", f"--reuid={GROUP}", f"--regid={GROUP}", "--clear-groups"]
"""Another user, of the group that may read and write in the folder; only root can become it."""
IS_OPEN = all(folder.stat().st_mode & 0o001 for folder in (ROOT, *ROOT.parents))
"""Whether another user can reach these tests: a clone in a home may be its owner's alone."""
CALLERS = [[], OTHER_USER] if os.geteuid() == 0 and IS_OPEN else [[]]
BOUNDED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""As this user, whom rights of files bind; root they bind only so."""
LOOK = "SELECT count(*) FROM lines"
COMMANDS = (
    ("log", "ls"),
    ("log", "cat", "containers"),
    ("log", "tail", "containers"),
    ("log", "history", "MSKU1234565"),
    ("log", "gaps", "containers"),
    ("log", "check"),
    ("log", "completeness", "MSKU1234565", "--since", "2026-01-01", "--until", "2026-12-01"),
    ("stream", "ls"),
)


def standing(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file in `folder`: its owner and length."""
    return {str(path.relative_to(folder)): (path.stat().st_uid, path.stat().st_size) for path in folder.rglob("*") if path.is_file()}


def stopped_node(home: Path) -> None:
    log = open_log(home)
    append_rows(log, rows(10))
    log.close()


def killed_node(home: Path, live: Path) -> None:
    """What a node's folder holds after a kill and a copy that left out the shared memory: a write-ahead log alone."""
    log = open_log(live)
    append_rows(log, rows(10))
    shutil.copytree(live, home, ignore=shutil.ignore_patterns("*-shm"))
    log.close()
    assert (home / "log" / f"{INDEX_NAME}-wal").stat().st_size > 0


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: "another user" if caller else "this user")
def test_all_commands_at_a_stopped_node(caller: Sequence[str]) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        stopped_node(home)
        for path in (home, *home.rglob("*")):
            if caller:
                os.chown(path, -1, GROUP)
            path.chmod(0o770 if path.is_dir() else 0o660)
        before = standing(home)
        script = "import sys; from tests.landfall.test_reading_leaves_nothing import read_all; read_all(sys.argv[1])"
        command = [*caller, sys.executable, "-B", "-c", script, str(home)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert standing(home) == before
        for path in home.rglob("*"):  # its own process starts where its group may not write
            path.chmod(path.stat().st_mode & ~0o020)
        log = open_log(home)
        assert numbers(log) == list(range(10))
        log.close()


def read_all(home: str) -> None:
    """Calls every command that reads at the node in `home`."""
    for words in COMMANDS:
        done = called(*words, "-f", home)
        assert done.returncode == 0, (words, done.stderr)


def test_after_a_kill_the_write_ahead_log_is_read_and_left(tmp_path: Path) -> None:
    killed_node(tmp_path / "node", tmp_path / "live")
    before = standing(tmp_path / "node")
    done = called("log", "cat", "containers", "-f", tmp_path / "node", "--format", "json")
    assert (done.returncode, done.stdout.count("\n")) == (0, 10), done.stderr
    assert standing(tmp_path / "node") == before


def test_a_reader_of_a_stopped_node_sees_what_the_node_writes_later(tmp_path: Path) -> None:
    stopped_node(tmp_path)
    reader = FileLogReader(tmp_path / "log", BlockCodec())
    assert numbers(reader) == list(range(10))
    log = open_log(tmp_path)
    append_rows(log, rows(10, start=10))
    log.close()
    assert numbers(reader) == list(range(20)), "of a writer that came and went"
    log = open_log(tmp_path)
    append_rows(log, rows(10, start=20))
    assert numbers(reader) == list(range(30)), "of one that runs"
    log.close()
    reader.close()


def test_a_file_of_another_user_is_named_with_its_owner(tmp_path: Path) -> None:
    stopped_node(tmp_path)
    foreign = tmp_path / "log" / f"{INDEX_NAME}-shm"
    foreign.touch()
    foreign.chmod(0o444)
    if os.geteuid() == 0:
        os.chown(foreign, 65534, 65534)
    script = "import sys; from tests.landfall.test_reading_leaves_nothing import open_refused; open_refused(sys.argv[1])"
    done = subprocess.run([*BOUNDED, sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    code, owner, named = done.stdout.split("|")
    assert (code, owner in named, str(foreign) in named) == ("file_of_another", True, True)


def open_refused(home: str) -> None:
    """Says how the node in `home` refuses to start."""
    file = Path(home) / "log" / f"{INDEX_NAME}-shm"
    try:
        open_log(Path(home))
    except RetryLater as refused:
        print(refused.code, file.owner(), refused, sep="|", end="")


def test_the_serving_database_is_read_without_a_trace(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'serving.db'}"
    database = ServingDatabase(url)
    database.prepare()
    database.close()
    before = standing(tmp_path)
    reader = ServingReader(url)
    with reader.snapshot() as snapshot:
        assert snapshot.exec_driver_sql("SELECT count(*) FROM projected").scalar() == 0
    assert standing(tmp_path) == before, "the projector is stopped"
    database = ServingDatabase(url)
    database.prepare()
    with database.transaction() as transaction:
        transaction.exec_driver_sql("CREATE TABLE later (id INTEGER)")
    database.close()
    with reader.snapshot() as snapshot:
        assert snapshot.exec_driver_sql("SELECT count(*) FROM later").scalar() == 0, "what the projector wrote before it went"
    database = ServingDatabase(url)
    database.prepare()
    with database.transaction() as transaction:
        transaction.exec_driver_sql("INSERT INTO later VALUES (1)")
    with reader.snapshot() as snapshot:
        assert snapshot.exec_driver_sql("SELECT count(*) FROM later").scalar() == 1, "what it writes while it runs"
    database.close()
    reader.close()


def test_a_reader_who_may_not_write_waits_for_a_writer_that_starts_after_a_kill() -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        stopped_node(home)
        log = open_log(home)
        for path in (home, *home.rglob("*")):
            path.chmod(0o550 if path.is_dir() else 0o440)
        shared = home / "log" / f"{INDEX_NAME}-shm"
        shared.chmod(0o640)
        subprocess.run([sys.executable, "-c", f"open({str(shared)!r}, 'r+b').write(bytes(136))"], check=True)  # as a kill may leave it
        shared.chmod(0o440)
        script = "import sys; from tests.landfall.test_reading_leaves_nothing import read_twice; read_twice(sys.argv[1])"
        command = [*BOUNDED, sys.executable, "-B", "-c", script, str(home / "log" / INDEX_NAME)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "SQLITE_READONLY_RECOVERY\n"
            append_rows(log, rows(10))
            assert reader.stdout.read() == "read"
        assert reader.returncode == 0
        log.close()


def read_twice(index: str) -> None:
    """Says why the index can not be read at once; then waits until it can be."""
    with closing(connect_to_read(Path(index), 0.0)) as early:
        try:
            early.execute(LOOK)
        except sqlite3.OperationalError as problem:
            print(problem.sqlite_errorname, flush=True)
    connection = connect_to_read(Path(index), 120.0)
    connection.execute(LOOK)
    connection.close()
    print("read", end="")


def test_a_database_that_is_no_database_leaves_no_connection(tmp_path: Path) -> None:
    index, log = tmp_path / INDEX_NAME, tmp_path / f"{INDEX_NAME}-wal"
    index.write_bytes(b"no database" * 1_000)
    log.write_bytes(b"no log" * 1_000)
    with pytest.raises(sqlite3.DatabaseError) as refused:
        connect_to_read(index, 1.0)
    assert refused.value.sqlite_errorcode == sqlite3.SQLITE_NOTADB
