"""Goal: who builds a sensor gets the schema and is told, line by line, what intake would make of payloads, their own and others'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cargo.vocabulary.payload_schema import payload_schema
from streams.model.clock import WallClock
from tests.intake.test_decoders import DOOR, LOADED, REEFER
from tests.landfall.commands import run


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "payload", "schema")
    assert (code, json.loads(out)) == (0, payload_schema())


def test_payloads_are_checked_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "readings.jsonl"
    now_ms = WallClock().now_ms()
    whole = {"device": "T", "at": now_ms, "return_c": 4.2}
    lines = [whole, whole | {"return_c": 999, "supply_c": 3}, {"return_c": 4}, [whole, whole | {"power_on": 1}]]
    file.write_text("\n".join([*map(json.dumps, lines), "", "{"]))
    code, out, _ = run(capsys, "payload", "check", file)
    told = out.splitlines()
    assert code == 1
    assert [line.split(" ")[:2] for line in told[:4]] == [["2:", "return_c"], ["3:", "refused:"], ["4:", "power_on"], ["5:", "refused:"]]
    assert told[4] == "1 of 5 taken whole"
    file.write_text(json.dumps(whole))
    assert run(capsys, "payload", "check", file)[:2] == (0, "1 of 1 taken whole\n")
    code, _, err = run(capsys, "payload", "check", tmp_path / "none")
    assert (code, "[file_unavailable]" in err) == (2, True)


def test_it_warns_of_what_intake_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "readings.jsonl"
    now_ms = WallClock().now_ms()
    file.write_text(
        "\n".join(json.dumps({"device": "T", "return_c": 4, **at}) for at in ({"at": now_ms // 1_000}, {"at": now_ms * 1_000}, {}))
    )
    code, out, _ = run(capsys, "payload", "check", file)
    told = out.splitlines()
    assert (code, told[-1]) == (0, "3 of 3 taken whole")
    for line, words in zip(told, (("stale", "seconds"), ("future", "microseconds"), ("no_time", "")), strict=False):
        assert "warning" in line
        assert all(word in line for word in words)


def test_payloads_of_others_are_checked_through_their_decoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(map(json.dumps, (REEFER, {"events": [DOOR, LOADED]}))))
    code, out, _ = run(capsys, "payload", "check", file, "--decoder", "dcsa-tnt-3")
    told = [line for line in out.splitlines() if "warning" not in line]
    assert (code, told[0].startswith("2: event 2: "), told[1:]) == (1, True, ["1 of 2 taken whole"])
    code, _, err = run(capsys, "payload", "check", file, "--decoder", "dcsa")
    assert (code, "[decoder_invalid]" in err) == (2, True)
