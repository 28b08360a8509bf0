"""Goal: an API that still waits for headquarters' log says so, and ends when it is asked to."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from landfall.system.private_files import write_private
from tests.hq_serving.conftest import STARTED_S_MAX, until
from tests.support.forked import Forked
from tests.support.ports import free_port


def test_an_api_that_waits_for_its_log_ends_when_it_is_asked(tmp_path: Path) -> None:
    """It says what it waits for, and ends well."""
    said = tmp_path / "api.log"
    settings = (
        f'log = "{tmp_path / "log"}"\ndoor = "http://127.0.0.1:9"\ntoken = "door"\naccounts = "{tmp_path / "accounts.db"}"\n'
        f"port = {free_port()}\n"
    )
    write_private(tmp_path / "api.toml", settings.encode())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LANDFALL_")}
    api = Forked("landfall", ("api", "--config", str(tmp_path / "api.toml")), environment, said)
    until(lambda: said.exists() and f"there is no log in {tmp_path / 'log'} yet" in said.read_text(), "the API waits")
    api.send(signal.SIGTERM)
    assert api.wait(STARTED_S_MAX) == 0, said.read_text()
