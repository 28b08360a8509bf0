"""Goal: what a node or a command writes is nobody's to read but its user's and its group's, and secrets are its user's alone."""

from __future__ import annotations

from pathlib import Path

from streams.log import Append
from streams.model.records import Record, to_batch
from tests.streams.logkit import append_rows, open_log, rows
from tests.support.forked import landfall
from tests.support.process import NodeProcess

CONFIG = '[node]\nnode = "tokyo"\nrole = "port"\nidentity = "JPTYO"\nfolder = "{}"\nport = {{port}}\n'
SECRETS = {"credentials.json", "operator.token", "signing.key"}


def test_others_read_nothing_of_a_node(tmp_path: Path) -> None:
    folder = tmp_path / "tokyo"
    process = NodeProcess(tmp_path / "settings", "port", "tokyo", "door-of-tokyo", CONFIG.format(folder))
    process.start()
    process.wait_ready()
    process.append.append([Append("containers", to_batch([Record("MSKU1234565")]))])
    process.stop()
    made = [path for path in folder.rglob("*") if path.exists()]
    modes = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in made}
    assert any(name.endswith(".segment") for name in modes)
    assert not {name: oct(mode) for name, mode in modes.items() if mode & 0o027}
    secret = {name: mode for name, mode in modes.items() if mode == 0o600}
    assert secret.keys() >= {name for name in modes if name in SECRETS}


def test_others_read_nothing_of_what_a_command_writes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "node")
    append_rows(log, rows(10))
    log.close()
    done = landfall("log", "backup", tmp_path / "copy", "-f", tmp_path / "node")
    assert done.returncode == 0, done.stderr
    made = [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]
    assert len(made) > 3
    assert not {str(path): oct(path.stat().st_mode) for path in made if path.stat().st_mode & 0o027}
