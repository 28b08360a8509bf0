"""Goal: an operator starts a ship from the bay plan she already has, is told all that is wrong with it, and gets it back as a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cargo.baplie.baplie_reader import read_bayplan
from cargo.baplie.baplie_writer import write_bayplan
from cargo.baplie.bay_plan import BayPlan
from cargo.vocabulary.registry_entries import Dangerous, LoadList, Stowed, parse_entry
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import make_container, make_imo
from landfall.cli.bayplan_commands import next_call, summary
from landfall.cli.hq_requests import answer_of, headquarters
from landfall.storage.file_log import FileLogReader
from streams.codec import BlockCodec
from streams.model.errors import Misuse
from streams.model.identifiers import Position
from tests.hq_serving.conftest import api_of, login_words, settings_for
from tests.hq_serving.test_registry import running_node
from tests.landfall.commands import called
from tests.support.process import wait
from tests.support.refusals import refusal

NOW_MS = 1_777_593_600_000
HOUR_MS = 3_600_000
IMO = make_imo(950133)
NUMBERS = tuple(make_container("MSKU", serial) for serial in range(4))
BOXES = (
    Stowed(NUMBERS[0], "0340282", "45R1", "JPTYO", "SGSIN", weight_kg=24_000, empty=False, setpoint_c=-18.0, dangerous=()),
    Stowed(NUMBERS[1], "0330106", "22G1", "JPTYO", "AUSYD", weight_kg=8_000, empty=False, dangerous=(Dangerous("2761", "6.1"),)),
    Stowed(NUMBERS[2], "0350106", "22G1", "CNSHA", "AUSYD", tracker=False, dangerous=()),
)
PLAN = BayPlan(IMO, "BIG BLUE ONE", "009E", "JPTYO", "SGSIN", NOW_MS, BOXES)
AFTER = BayPlan(
    *("", "BIG BLUE ONE", "009E", "", "AUSYD", None),
    boxes=(*BOXES[1:], Stowed(NUMBERS[3], "0340484", "45G1", "SGSIN", "AUSYD", "BK-7", weight_kg=30_000)),
)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Options that reach the API of a real headquarters, whose folder is the test's."""
    with running_node(tmp_path) as door, api_of(settings_for(tmp_path / "log", tmp_path, door)) as client:
        yield login_words(client, "cleo", tmp_path)


def load_lists(folder: Path) -> list[LoadList]:
    with closing(FileLogReader(folder / "log", BlockCodec())) as reader:
        bodies = [body for batch in reader.read("registry", Position()) for body in batch.records.column("body").to_pylist()]
    values = [parse_entry(body).value for body in bodies]
    return [value for value in values if isinstance(value, LoadList)]


def test_a_ship_is_started_and_followed_from_her_bay_plans(at: tuple[str, ...], tmp_path: Path) -> None:
    """The first plan is call 1; the same again changes nothing; the next, which names no ship, is call 2, with what came off."""
    plan, after = tmp_path / "tokyo.edi", tmp_path / "singapore.edi"
    plan.write_bytes(write_bayplan(PLAN, "2", NOW_MS))
    after.write_bytes(write_bayplan(AFTER, "3", NOW_MS))
    done = called("bayplan", "import", plan, *at)
    assert done.returncode == 0, done.stderr
    assert f"load list {IMO}/1 is written, version 1: 2 loaded, " in done.stdout
    assert "already, version 1" in called("bayplan", "import", plan, *at).stdout
    done = called("bayplan", "import", after, "--ship", IMO, "--port", "sgsin", "--departs", "2026-05-08T08:00+08:00", *at)
    assert done.returncode == 0, done.stderr
    assert f"{IMO}/2 is written, version 1: 1 loaded, 1 discharged" in done.stdout
    first, second = load_lists(tmp_path)
    assert (first.call, first.port, first.departs_at_ms, first.load, first.aboard) == (1, "JPTYO", NOW_MS, NUMBERS[:2], BOXES)
    assert (second.call, second.port, second.load, second.discharge) == (2, "SGSIN", NUMBERS[3:], NUMBERS[:1])
    assert second.aboard == AFTER.boxes, "booking, tracker and what was not told of dangerous goods come through both dialects"


@pytest.mark.parametrize("dialect", ["2", "3"])
def test_what_is_exported_is_imported_the_same(at: tuple[str, ...], tmp_path: Path, dialect: str) -> None:
    plan, out = tmp_path / "plan.edi", tmp_path / "out.edi"
    plan.write_bytes(write_bayplan(PLAN, "2", NOW_MS))
    assert called("bayplan", "import", plan, *at).returncode == 0
    done = called("bayplan", "export", IMO, out, "--dialect", dialect, *at)
    assert done.stdout.startswith(f"{out}: 3 boxes "), done.stderr
    assert read_bayplan(out.read_bytes()).plan.boxes == BOXES
    assert "already, version 1" in called("bayplan", "import", out, *at).stdout
    assert "[load_list_unknown]" in called("bayplan", "export", "9999999", out, *at).stderr


def test_what_is_wrong_with_boxes_is_told_and_costs_no_box(at: tuple[str, ...], tmp_path: Path) -> None:
    plan = tmp_path / "bad.edi"
    content = write_bayplan(AFTER, "2", NOW_MS).replace(b"0330106", b"03301xx").replace(NUMBERS[3].encode(), b"MSKU0000000")
    plan.write_bytes(content.replace(b"22G1", b"22", 1))
    done = called("bayplan", "import", plan, *at)
    told = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert all(word in told for word in ("--ship", "--port", "--departs")), "all that is missing is asked for at once"
    assert all(word in told for word in ("segment 7 (LOC+147+03301xx::5)", "'22'", "MSKU0000000"))
    assert load_lists(tmp_path) == []
    done = called("bayplan", "import", plan, "--ship", IMO, "--port", "SGSIN", "--departs", "2026-05-08T08:00+08:00", *at)
    assert done.returncode == 0, done.stderr
    boxes = [(box.container, box.slot, box.size_type) for box in load_lists(tmp_path)[0].aboard]
    assert boxes == [(NUMBERS[1], "", ""), (NUMBERS[2], "0350106", "22G1"), ("MSKU0000000", "0340484", "45G1")]


def test_ports_that_the_registry_does_not_know_are_noted_once_each(at: tuple[str, ...], tmp_path: Path) -> None:
    """Goal: who imports a plan sees which codes may be wrong; the file's own faults are not repeated."""
    value = {"locode": "JPTYO", "name": "Tokyo", "latitude_deg": 35.6, "longitude_deg": 139.8, "radius_nm": 5.0}
    with headquarters(at[1], "cleo", Path(at[5])) as client:
        answer_of(client, "POST", "/api/registry", json={"entries": [{"type": "port", "id": "JPTYO", "value": value}]})
    plan = tmp_path / "plan.edi"
    plan.write_bytes(write_bayplan(PLAN, "2", NOW_MS))
    done = called("bayplan", "import", plan, *at)
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("note: ") for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert [line.split(" ")[0] for line in lines] == ["SGSIN", "AUSYD", "CNSHA"]


def test_a_call_sign_names_the_ship_through_the_registry(at: tuple[str, ...], tmp_path: Path) -> None:
    plan = tmp_path / "plan.edi"
    plan.write_bytes(write_bayplan(PLAN, "2", NOW_MS).replace(f"{IMO}:146:11".encode(), b"9V1234:103:"))
    done = called("bayplan", "import", plan, *at)
    assert (done.returncode, "9V1234" in " ".join(done.stderr.split())) == (2, True)
    fields = {"imo": IMO, "name": "Big Blue One", "call_sign": "9V1234", "mmsi": "563012345", "flag": "SG", "capacity_boxes": 2000}
    body = {"entries": [{"type": "ship", "id": IMO, "value": fields}]}
    with headquarters(at[1], "cleo", Path(at[5])) as client:
        answer_of(client, "POST", "/api/registry", json=body)

    def is_listed() -> bool:
        return called("bayplan", "import", plan, *at).returncode == 0

    wait(is_listed)
    assert [one.ship for one in load_lists(tmp_path)] == [IMO]


def test_of_many_notes_twenty_are_shown_and_counted(tmp_path: Path) -> None:
    plan = tmp_path / "plan.edi"
    boxes = tuple(Stowed(f"LOOSE-{n}", str(Slot(2 * n + 1, 0, 82)), "22G1", "JPTYO", "SGSIN") for n in range(30))
    plan.write_bytes(write_bayplan(replace(PLAN, boxes=boxes), "2", NOW_MS))
    done = called("bayplan", "check", plan)
    lines = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert (done.returncode, len(lines), re.findall(r"\d+", lines[-1])) == (0, 21, ["10", "30"])


def test_a_plan_without_a_box_is_taken_when_it_is_said_to_be_empty(at: tuple[str, ...], tmp_path: Path) -> None:
    """Goal: a file that lost its boxes on the way does not discharge a ship."""
    plan = tmp_path / "empty.edi"
    plan.write_bytes(write_bayplan(replace(PLAN, boxes=()), "2", NOW_MS))
    done = called("bayplan", "import", plan, *at)
    told = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert "[plan_empty]" in told
    assert "--empty" in told
    assert load_lists(tmp_path) == []
    assert called("bayplan", "import", plan, "--empty", *at).returncode == 0
    assert [listed.aboard for listed in load_lists(tmp_path)] == [()]


@pytest.mark.parametrize(
    ("trackers", "carrying"), [("all", NUMBERS[:3]), ("none", ()), ("reefers", NUMBERS[:1]), ("list.txt", NUMBERS[1:2]), ("", NUMBERS[:2])]
)
def test_who_carries_a_tracker_is_said_beside_the_plan(
    at: tuple[str, ...], tmp_path: Path, trackers: str, carrying: tuple[str, ...]
) -> None:
    plan = tmp_path / "plan.edi"
    plan.write_bytes(write_bayplan(PLAN, "2", NOW_MS))
    (tmp_path / "list.txt").write_text(f"{NUMBERS[1]}\n\n{NUMBERS[3]}\n", "utf-8-sig")
    said = ("--trackers", tmp_path / trackers if trackers.endswith(".txt") else trackers) if trackers else ()
    done = called("bayplan", "import", plan, *said, *at)
    assert done.returncode == 0, done.stderr
    assert tuple(box.container for box in load_lists(tmp_path)[0].aboard if box.tracker) == carrying


def test_a_plan_is_checked_without_headquarters(tmp_path: Path) -> None:
    plan = tmp_path / "plan.edi"
    plan.write_bytes(write_bayplan(PLAN, "2", NOW_MS))
    done = called("bayplan", "check", plan)
    assert (done.returncode, done.stdout.splitlines()) == (0, list(summary(PLAN)))
    assert list(summary(PLAN)) == [
        f"BIG BLUE ONE {IMO} leaves JPTYO 2026-05-01 00:00:00Z",
        "3 boxes in 3 bays: 1 on deck, 2 in the hold",
        "32 t: 24 t port, 0 t centre, 8 t starboard",
        "1 reefers, 1 with a set temperature",
        "1 boxes with dangerous goods: UN 2761",
        "to AUSYD 2, SGSIN 1",
        "1 without a tracker",
    ]
    _, carried_on = [line for line in summary(replace(PLAN, port="SGSIN")) if line not in summary(PLAN)]
    assert carried_on.startswith("1 of them to SGSIN, ")
    assert "[file_unavailable]" in called("bayplan", "check", tmp_path / "none.edi").stderr
    assert "no such word" in called("bayplan", "import", plan, "--trackers", "some", "--api", "x", "-u", "x", "--password-file", "x").stderr


def test_which_call_a_plan_is_of() -> None:
    calls = [{"call": 4, "port": "JPTYO", "departs_at_ms": 0}, {"call": 5, "port": "SGSIN", "departs_at_ms": 100 * HOUR_MS}]
    assert next_call([], "SGSIN", 0) == 1
    assert next_call(calls, "SGSIN", 90 * HOUR_MS) == 5, "she sails earlier than first told"
    assert next_call(calls, "SGSIN", 1_000 * HOUR_MS) == 6, "she comes again"
    assert next_call(calls, "AUSYD", 200 * HOUR_MS) == 6
    with refusal(Misuse, "call_ambiguous", "call 5", "SGSIN", "--call"):
        next_call(calls, "JPTYO", HOUR_MS)
