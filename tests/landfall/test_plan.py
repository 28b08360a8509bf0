"""Goal: before she sails, people are told of a voyage what is ashore when, what it costs and what thins, by her own settings; a slip is
told with its remedy.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from landfall.cli.plan_output import age, size
from landfall.system.private_files import write_private
from tests.landfall.commands import run

SHIP = """
[node]
node = "ship-a"
role = "ship"
identity = "9321483"
folder = "ship-a"
disk_budget_bytes = {disk}
known = [{{ node = "hq", role = "hq" }}, {{ node = "tokyo", role = "port", identity = "JPTYO" }}]
[node.links.satellite]
rate_bit_s = 128_000
budget_bytes_per_day = {budget}
alerts_reserve_bytes = 50_000
overhead_percent = 4.0
price_per_mb = 8.0
[node.links.port]
rate_bit_s = 8_000_000
[headquarters]
node = "hq"
url = "http://hq.example:8871"
token = "a-token-of-some-length"
[[ports]]
node = "tokyo"
url = "http://tokyo.example:8871"
token = "a-token-of-some-length"
locode = "JPTYO"
name = "Tokyo"
latitude_deg = 35.6
longitude_deg = 139.8
"""
VOYAGE = ("--days-at-sea", 3, "--boxes", 60, "--sails", "2026-05-01T12:00")


def ship(folder: Path, budget: int = 5_000_000, disk: int = 100_000_000, without: str = "") -> Path:
    """Her settings, but for the lines that begin with `without`."""
    lines = SHIP.format(budget=budget, disk=disk).splitlines()
    write_private(folder / "ship.toml", "\n".join(line for line in lines if not without or not line.startswith(without)).encode())
    return folder / "ship.toml"


def planned(capsys: pytest.CaptureFixture[str], file: Path, *words: object) -> Any:
    code, out, told = run(capsys, "plan", "-c", file, *VOYAGE, "--json", *words)
    assert code == 0, told
    return json.loads(out)


def test_people_read_when_how_much_what_it_costs_and_what_thins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reading of each box every five minutes is more than the disk takes."""
    code, out, _ = run(capsys, "plan", "-c", ship(tmp_path, disk=4_700_000), *VOYAGE, "--interval", 5)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("at sea, 2026-05-01 12:00:00Z to 2026-05-04 12:00:00Z: ")
    assert "satellite" in lines[0]
    at_sea, in_port = out.split("in port, ")
    [of_readings] = [line for line in at_sea.splitlines() if line.strip().startswith("containers ")]
    assert "waits for port" in of_readings
    assert "2026-05-04 12:00:00Z to 2026-05-05 00:00:00Z" in in_port
    assert "containers.kept" in in_port
    assert re.search(r"disk: at most 4.7\d? MB .*, of 4.7 MB", in_port)
    assert re.search(r"full 2026-05-0\d \d\d:00:00Z, .* after sailing", in_port)
    thinned = re.search(r"containers thins: ([\d,]+) of its oldest records become ([\d,]+), windows of 6 h", in_port)
    assert thinned, "an hour's twelve readings are nearly all extremes of something"
    records, kept = (int(told.replace(",", "")) for told in thinned.groups())
    assert records % 4_096 == 0, "whole runs"
    assert 2 * kept < records


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--interval", "inf"),
        ("--interval", "1e300"),
        ("--alerts-per-day", "inf"),
        ("--events-per-day", "1e12"),
        ("--ship-interval", "inf"),
        ("--outage", "inf"),
        ("--outage", "0.1"),
        ("--sails", "9999-12-31T23:00"),
    ],
)
def test_what_no_voyage_can_be_is_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    code, _, problem = run(capsys, "plan", "-c", ship(tmp_path), *VOYAGE, option, value)
    assert code == 2
    assert option in problem or value in problem
    assert "Traceback" not in problem


def test_a_budget_that_is_too_small_cuts_the_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Days are UTC's, and each costs what was charged; what waits past midnight is late; alerts are not."""
    told = planned(capsys, ship(tmp_path, budget=320_000), "--ship-interval", 0.5, "--alerts-per-day", 6)
    at_sea = told["legs"][0]
    assert [day["day"] for day in at_sea["days"]] == ["2026-05-01", "2026-05-02", "2026-05-03", "2026-05-04"]
    whole = at_sea["days"][1]
    assert 270_000 <= whole["charged_bytes"] <= 320_000
    assert whole["cost"] == pytest.approx(whole["charged_bytes"] * 8 / 1e6, abs=1e-3)
    assert at_sea["from_at_ms"] < whole["cut_at_ms"] < at_sea["from_at_ms"] + 36 * 3_600_000
    assert at_sea["streams"]["ships"]["lag_max_s"] > 3_600
    assert at_sea["streams"]["alerts"]["lag_max_s"] < 1
    assert told["disk"]["full_at_ms"] is None
    assert set(told["streams"]) == set(at_sea["streams"])


def test_outages_make_what_the_satellite_carries_late_and_no_satellite_leaves_all_for_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ship(tmp_path)
    half = planned(capsys, file, "--satellite-share", 0.5, "--outage", 90)["legs"][0]["streams"]["ships"]
    assert half["lag_max_s"] == pytest.approx(90 * 60, rel=0.01)
    sea, port = planned(capsys, file, "--satellite-share", 0)["legs"]
    assert not sea["streams"]["alerts"]["carried"]
    assert port["streams"]["alerts"]["all_after_s"] < 2
    assert sum(day["bytes"] for day in sea["days"]) == 0


@pytest.mark.parametrize(
    ("without", "words", "told"),
    [
        ("rate_bit_s = 8", (), "nobody says how quick the port link is → give --port-rate, or write rate_bit_s in [node.links.port]"),
        ("identity = ", (), "1 problem in the settings"),
        ("", ("--sails", "soon"), "'soon' is no time"),
        ("", ("--boxes", 0), "--boxes"),
        ("", ("--satellite-share", 1.5), "--satellite-share"),
    ],
)
def test_a_slip_is_told_with_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], without: str, words: tuple[object, ...], told: str
) -> None:
    code, out, problem = run(capsys, "plan", "-c", ship(tmp_path, without=without), *VOYAGE, *words)
    assert code == 2
    assert told in problem.replace("│ ", "").replace(" │", "")
    assert out == ""


def test_a_ship_without_a_port_of_call_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ship.toml"
    write_private(file, SHIP.format(budget=5_000_000, disk=10_000_000).partition("[[ports]]")[0].encode())
    code, _, problem = run(capsys, "plan", "-c", file, *VOYAGE)
    assert (code, "[ports_missing]" in problem) == (2, True)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "not in this leg"),
        (0.4, "at once"),
        (44.3, "44 s"),
        (455.0, "7 min 35 s"),
        (3_600.0, "1 h"),
        (86_399.9, "1 d"),
        (1.74e6, "20 d 3 h"),
    ],
)
def test_spans_are_told_as_people_say_them(seconds: float | None, told: str) -> None:
    assert age(seconds) == told


@pytest.mark.parametrize(("bytes_", "told"), [(0, "0 B"), (811.6, "812 B"), (4_620, "4.62 kB"), (173_263_580, "173 MB"), (2e9, "2 GB")])
def test_sizes_are_told_as_links_are_paid_for(bytes_: float, told: str) -> None:
    assert size(bytes_) == told


def test_without_settings_the_demos_ship_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "plan", "--days-at-sea", "20", "--boxes", "2000", "--json")
    assert (code, "the demo's ship" in err) == (0, True), err
    assert json.loads(out)
