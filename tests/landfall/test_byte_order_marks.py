"""Goal: a file that a spreadsheet or a Windows editor saved, with a byte order mark in front, reads as without it."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest

from cargo.search.forecast import read_forecast
from landfall.cli.key_arguments import given_trust
from landfall.cli.login_prompt import read_password
from landfall.cli.sync_commands import node_settings
from landfall.offline.bundle_plan import read_position_file
from landfall.runtime.settings_loader import load
from landfall.system.private_files import write_private
from sim.recorded import read_recorded
from tests.landfall.commands import run
from tests.landfall.test_configuration import Kiosk
from tests.landfall.test_given_keys import MINE
from tests.landfall.test_search_area import CSV, LOST

RECORDED = Path(__file__).parents[1] / "sim" / "recorded.csv"
NODE = '[node]\nnode = "ducks"\nrole = "customer"\nidentity = "duckworks"\nfolder = "/var/ducks"\nport = 8300\n'
POSITION = {"landfall": "position 1", "node": "tokyo", "settled": {"containers": {"ship-a@1": [[0, 5]]}}}
WEATHER = [{"time": "2026-05-01T00:00:00Z", "wind_speed_ms": 12, "wind_from_deg": 350}]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('name = "a"\n[door]\nport = 1\n', lambda file: str(load(Kiosk, file, {}, lambda: (Kiosk,)))),
        (NODE, lambda file: str(node_settings(file))),
        (RECORDED.read_text(), lambda file: tuple(read_recorded(file))),
        ("salt and rope\n", read_password),
        (f"{MINE}\n", lambda file: str(given_trust([str(file)], ["tokyo"]))),
        (json.dumps(POSITION), lambda file: str(read_position_file(file.read_bytes(), "tokyo"))),
        (CSV, lambda file: str(read_forecast(file.read_text()).weather)),
        (json.dumps(WEATHER), lambda file: str(read_forecast(file.read_text()).weather)),
    ],
    ids=["settings", "node", "recorded", "password", "keys", "position", "forecast", "forecast_json"],
)
def test_a_mark_changes_nothing(tmp_path: Path, text: str, read: Callable[[Path], Hashable]) -> None:
    found = []
    for number, mark in enumerate((b"", codecs.BOM_UTF8)):
        file = tmp_path / f"{number}.txt"
        write_private(file, mark + text.encode())
        found.append(read(file))
    assert found[0] == found[1]


def test_commands_take_marked_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "marked.txt"
    file.write_text(CSV, "utf-8-sig")
    assert run(capsys, "search-area", tmp_path / "area.geojson", *LOST, "--forecast", file, "--hours", 30, "--particles", 20)[0] == 0
    file.write_text('{"device": "T", "return_c": 4.2}\n', "utf-8-sig")
    assert run(capsys, "payload", "check", file)[1].endswith("1 of 1 taken whole\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffsalt and rope\n"))
    assert read_password(None) == "salt and rope"
