"""Goal: who builds a sensor gets the schema and is told, line by line, what intake would make of payloads, their own and others'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cargo.payloadschema import payload_schema
from tests.intake.test_decoders import DOOR, LOADED, REEFER
from tests.landfall.commands import run


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "payload", "schema")
    assert (code, json.loads(out)) == (0, payload_schema())


def test_payloads_are_checked_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "readings.jsonl"
    lines = [{"device": "T", "return_c": 4.2}, {"device": "T", "return_c": 999, "supply_c": 3}, {"return_c": 4}]
    file.write_text("\n".join([*map(json.dumps, lines), "", "{"]))
    code, out, _ = run(capsys, "payload", "check", file)
    told = out.splitlines()
    assert code == 1
    assert told[0] == "2: return_c = 999 can not be true: moved to `refused`"
    assert told[1] == "3: refused: the payload names no device"
    assert told[2].startswith("4: refused: the payload is no JSON")
    assert told[3] == "1 of 4 taken whole"
    file.write_text(json.dumps(lines[0]))
    assert run(capsys, "payload", "check", file)[:2] == (0, "1 of 1 taken whole\n")
    code, _, err = run(capsys, "payload", "check", tmp_path / "none")
    assert (code, "can not be read" in err) == (2, True)


def test_payloads_of_others_are_checked_through_their_decoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(map(json.dumps, (REEFER, {"events": [DOOR, LOADED]}))))
    code, out, _ = run(capsys, "payload", "check", file, "--decoder", "dcsa-tnt-3")
    assert (code, out.splitlines()) == (1, ["2: event 2: an event of type EQUIPMENT is no reading", "1 of 2 taken whole"])
    code, _, err = run(capsys, "payload", "check", file, "--decoder", "dcsa")
    assert (code, "there is no decoder 'dcsa'" in err) == (2, True)
