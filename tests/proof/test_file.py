"""Goal: a proof file convinces whoever has the origin's public key and nothing else, and no byte of it can be altered unnoticed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from landfall.cli.proof_output import finding_words
from streams.integrity.base64_text import from_text, to_text
from streams.integrity.canonical_bytes import row_digest
from streams.integrity.completeness import completeness
from streams.integrity.copy_reader import Copy, UnreadRows
from streams.integrity.hash_chain import RUN, entries
from streams.integrity.key_trust import Trust
from streams.integrity.merkle_tree import Leaf, Tree, digest_of_rows, entry_bytes, topic_key
from streams.integrity.proof_builder import ProofRequest, make, signed_by_origins
from streams.integrity.proof_checker import ProofFinding, check
from streams.integrity.proof_file import Absent, LeafForm, NotShown, PathForm, Present, ProofFile, ShownRow, WithheldRow, from_cells
from streams.log import Append
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin
from streams.model.records import Record, Value, body_text, to_batch
from tests.proof.kit import CODEC, STRANGER, SigningNode, all_blocks, another, forged, put, trust, values
from tests.streams.logkit import NOW_MS, open_log
from tests.support.refusals import refusal

HOUR = 3_600_000
BOX, OTHER = "MSKU1234565", "MSKU7654321"
START = NOW_MS
EVERY = HOUR // 4
HOURS = 30


def hour_of(number: int, skip: bool) -> pa.RecordBatch:
    """What arrives in one hour: four readings of the box, many of others, and once one with values of all kinds."""
    at_ms = START + number * HOUR
    mine = [Record(BOX, "TRK-1", at_ms + step * EVERY, {"return_c": 4.0 + step, "door": False}, {"n": step}) for step in range(4)]
    kinds: dict[str, Value] = {"return_c": float("nan"), "count": 1 << 62, "note": 'é"\\'}
    odd = [Record(BOX, "TRK-1", at_ms + 5, kinds, {})] if number == 3 else []
    others = [Record(f"box-{n % 50}", f"T{n % 50}", at_ms + n, {"return_c": n / 10}) for n in range(400)]
    return to_batch([*([] if skip else mine), *odd, *others])


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ship's folder: 30 hours of readings, signed every hour; the box is silent in hours 9 to 24, more than a run."""
    folder = tmp_path_factory.mktemp("voyage")
    node = SigningNode(folder)
    for number in range(HOURS):
        node.clock.at_ms = START + (number + 1) * HOUR - 1
        node.append(hour_of(number, skip=9 <= number < 25))
        node.sign()
    node.log.close()
    return folder


@pytest.fixture
def ship(voyage: Path, tmp_path: Path) -> Iterator[SigningNode]:
    shutil.copytree(voyage, tmp_path / "ship")
    node = SigningNode(tmp_path / "ship")
    node.clock.at_ms = START + HOURS * HOUR
    yield node
    node.log.close()


def proof_of(node: SigningNode, since: float, until: float, topic: str = BOX, **more: Any) -> ProofFile:
    claim = ProofRequest(topic, START + int(since * HOUR), START + int(until * HOUR), **more)
    return make(Copy(node.log, CODEC), claim, [("containers", node.log.origin)], trust())


def problems(proof: ProofFile, by: Trust | None = None) -> list[str]:
    return check(proof.to_bytes(), by or trust()).problems


def test_a_proof_shows_every_reading_of_its_span(ship: SigningNode) -> None:
    found = check(proof_of(ship, 2, 13).to_bytes(), trust())
    assert found.problems == []
    [section] = found.sections
    held = ship.log.history(BOX, START + 2 * HOUR, START + 13 * HOUR).rows
    assert len(section.rows) == held.num_rows == 7 * 4 + 1
    assert [row["offset"] for row in section.rows] == sorted(held.column("offset").to_pylist())
    assert section.withheld > 0
    assert found.completeness is not None
    assert (found.completeness.interval_ms, found.completeness.expected, found.completeness.held) == (EVERY, 44, 29)
    assert found.completeness.missing == 4 * 4


def test_readings_outside_the_span_and_other_boxes_are_not_told(ship: SigningNode) -> None:
    proof = proof_of(ship, 4, 5)
    text = proof.to_bytes().decode()
    assert "box-" not in text
    assert text.count('"type":"shown"') == 4
    rows = [row for run in proof.sections[0].runs if isinstance(run, Present) for row in run.rows]
    assert sum(isinstance(row, WithheldRow) for row in rows) == len(rows) - 4 > 0


def test_silence_is_shown_as_well(ship: SigningNode) -> None:
    proof = proof_of(ship, 9, 25, interval_ms=EVERY)
    found = check(proof.to_bytes(), trust())
    assert found.problems == []
    assert found.sections[0].absent >= 1
    assert any(isinstance(run, Absent) for run in proof.sections[0].runs)
    assert found.completeness is not None
    assert found.completeness.missing == 16 * 4
    never = check(proof_of(ship, 0, 2, topic=OTHER).to_bytes(), trust())
    assert never.problems == []
    assert never.sections[0].rows == []


def test_it_begins_no_earlier_than_it_must(ship: SigningNode) -> None:
    assert proof_of(ship, 1, 2).sections[0].start is not None
    assert proof_of(ship, 0, 2).sections[0].start is None
    late = proof_of(ship, 28, 29).sections[0]
    assert late.start is not None
    assert late.runs[0].run >= 2


def test_without_the_right_key_it_proves_nothing(ship: SigningNode) -> None:
    proof = proof_of(ship, 4, 5)
    assert any("ship-a was given" in problem for problem in problems(proof, Trust()))
    assert any("is not signed" in problem for problem in problems(proof, trust(key=STRANGER)))


def test_a_copy_that_was_altered_gives_no_proof(ship: SigningNode, tmp_path: Path) -> None:
    origin = ship.log.origin
    port = open_log(tmp_path / "port", "port-b")
    port.admit(forged(all_blocks(ship.log, "containers", origin), RUN + 5, "return_c", -99.0))
    port.admit(all_blocks(ship.log, "containers.heads", origin))
    with refusal(Corrupt, "records_altered"):
        make(Copy(port, CODEC), ProofRequest(BOX, START, START + 9 * HOUR), [("containers", origin)], trust())
    port.close()


def test_of_runs_not_shown_it_is_not_known_what_stood_there_and_the_rest_still_holds(ship: SigningNode) -> None:
    ship.log.declare_gone("containers", ship.log.origin, 0, RUN, "thinned")
    proof = proof_of(ship, 0, 28, interval_ms=EVERY)
    found = check(proof.to_bytes(), trust())
    assert found.problems == []
    assert [run.why for run in found.sections[0].not_shown] == ["thinned"]
    assert isinstance(proof.sections[0].runs[0], NotShown)
    assert found.completeness is not None
    held = ship.log.history(BOX, START, START + 28 * HOUR).rows.num_rows
    assert (found.completeness.thinned, found.completeness.held, found.shows_all) == (0, held, False)


def test_what_nobody_signed_can_not_be_proven(ship: SigningNode, tmp_path: Path) -> None:
    port = open_log(tmp_path / "port", "port-b")
    port.admit(all_blocks(ship.log, "containers", ship.log.origin))
    with refusal(Misuse, "unsigned"):
        make(Copy(port, CODEC), ProofRequest(BOX, START, START + HOUR), [("containers", ship.log.origin)], trust())
    port.close()


def test_a_generation_that_ended_before_it_signed_is_named_and_keeps_no_other_from_being_shown(ship: SigningNode, tmp_path: Path) -> None:
    signed = ship.log.origin
    copy = open_log(tmp_path / "port", "port-b")
    for stream in ("containers", "containers.heads"):
        copy.admit(all_blocks(ship.log, stream, signed))
    ship.log.open_generation("the marker is missing")
    ship.log.append([Append("containers", to_batch([Record(BOX, "TRK-1", START + 30 * 60_000, {"return_c": 4.5, "door": True})]))])
    copy.admit(all_blocks(ship.log, "containers", ship.log.origin))
    found = signed_by_origins(Copy(copy, CODEC), BOX, ("containers",), START, START + HOUR)
    assert found == [("containers", signed), ("containers", ship.log.origin)]
    proof = make(Copy(copy, CODEC), ProofRequest(BOX, START, START + HOUR), found, trust())
    assert proof.unsigned == [f"containers of {ship.log.origin}"]
    checked = check(proof.to_bytes(), trust())
    assert (checked.problems, [section.origin for section in checked.sections]) == ([], [str(signed)])
    told = list(finding_words(checked))
    assert any(f"containers of {ship.log.origin}, " in line for line in told)
    assert any("under another generation" in line for line in told)
    copy.close()


def test_the_origins_that_have_readings_are_found(ship: SigningNode) -> None:
    streams = ("containers", "events")
    assert signed_by_origins(Copy(ship.log, CODEC), BOX, streams, START, START + HOUR) == [("containers", ship.log.origin)]
    assert signed_by_origins(Copy(ship.log, CODEC), OTHER, streams, START, START + HOUR) == []


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The proof of one reading out of ten."""
    node = SigningNode(tmp_path_factory.mktemp("small"))
    for number in range(5):
        node.clock.at_ms = START + number * HOUR
        rows = [Record(BOX, "TRK-1", START + number * HOUR, {"return_c": 4.5, "door": True}), Record("box-2", "T2")]
        node.append(to_batch(rows))
        node.sign()
    data = proof_of(node, 2, 3).to_bytes()
    node.log.close()
    assert check(data, trust()).problems == []
    return data


def test_every_byte_counts(small: bytes) -> None:
    rng = random.Random(4)
    for at in range(len(small)):
        for other in {small[at] ^ 1 << rng.randrange(8), rng.randrange(256)} - {small[at]}:
            found = check(small[:at] + bytes([other]) + small[at + 1 :], trust())
            assert found.problems, f"byte {at} may be {other}"
        assert check(small[:at], trust()).problems
        assert check(small[:at] + small[at + 1 :], trust()).problems
        assert check(small[:at] + b" " + small[at:], trust()).problems
    assert check(small + b"\n", trust()).problems


def test_whoever_writes_the_digest_anew_is_found_out_by_the_signatures(small: bytes) -> None:
    """Each value of the file is altered in turn, and the file's own digest made right again."""
    whole = json.loads(small)
    altered = 0
    for path, value in values(whole):
        if path[-1] in ("digest", "type") and len(path) == 1:
            continue
        for other in another(value):
            copy = json.loads(small)
            put(copy, path, other)
            try:
                forgery = msgspec.convert(copy, ProofFile).sealed().to_bytes()
            except (msgspec.ValidationError, ValueError):
                continue
            altered += 1
            assert check(forgery, trust()).problems, f"{path} may be {other!r}"
    assert altered > 60


def test_numbers_that_nothing_is_counted_in_are_found_and_raise_nothing(small: bytes) -> None:
    altered = 0
    for path, value in values(json.loads(small)):
        for other in (1 << 70, -(1 << 70), 10**17, -(10**17)) if type(value) is int else ():
            copy = json.loads(small)
            put(copy, path, other)
            altered += 1
            assert check(body_text(copy).encode() + b"\n", trust()).problems, f"{path} may be {other}"
    assert altered > 20


def forge(data: bytes, change: Callable[[Any], None]) -> ProofFinding:
    copy = json.loads(data)
    change(copy)
    return check(msgspec.convert(copy, ProofFile).sealed().to_bytes(), trust())


def test_a_reading_of_the_span_can_not_be_withheld(small: bytes) -> None:
    def withhold(copy: Any) -> None:
        for run in copy["sections"][0]["runs"]:
            for row in run["rows"]:
                if row["type"] == "shown":
                    columns = row.pop("row")
                    row.update(type="withheld", order_at_ms=columns["order_at_ms"], digest=to_text(row_digest(columns)))

    assert any("is withheld" in problem for problem in forge(small, withhold).problems)


def test_a_section_can_not_be_shortened_or_left_out(small: bytes) -> None:
    assert forge(small, lambda copy: copy["sections"][0]["runs"].pop()).problems
    assert forge(small, lambda copy: copy["sections"].pop()).problems
    assert forge(small, lambda copy: copy["sections"].append(copy["sections"][0])).problems
    assert forge(small, lambda copy: copy["sections"][0].update(start=copy["sections"][0]["end"])).problems
    assert forge(small, lambda copy: copy["sections"][0].update(origin=str(Origin("ship-a", 9)))).problems


def test_a_topic_that_is_there_can_not_be_shown_to_be_absent(ship: SigningNode) -> None:
    """Whoever makes the proof has the whole tree, and signs nothing."""
    proof = proof_of(ship, 2, 5)
    rows = [part for part in Copy(ship.log, CODEC).rows("containers", ship.log.origin, 0, RUN) if not isinstance(part, UnreadRows)]
    tree = Tree(entry for part in rows for entry in entries(part))
    index, there = tree.place(BOX)
    assert there
    assert 0 < index < len(tree.leaves) - 1
    present = proof.sections[0].runs[0]
    before, after, last = index - 1, index + 1, len(tree.leaves) - 1
    lies = [(before, after), (before, None), (None, after), (None, None), (0, 1), (None, 0), (last, None), (index, after), (before, index)]
    for left, right in lies:
        chosen = [side for side in (left, right) if side is not None] or [0]
        sides = (None if side is None else LeafForm.of(tree.leaves[side]) for side in (left, right))
        lie = Absent(0, present.root, len(tree.leaves), PathForm.of(tree.path(chosen[0], chosen[-1] + 1)), *sides)
        section = msgspec.structs.replace(proof.sections[0], runs=[lie, *proof.sections[0].runs[1:]])
        counted = completeness([], proof.since_at_ms, proof.until_at_ms)
        forgery = msgspec.structs.replace(proof, sections=[section], completeness=counted.to_json()).sealed()
        assert [problem for problem in problems(forgery) if "run 0" in problem], (left, right)


@pytest.mark.parametrize(
    ("since", "at", "told"), [(2, 0, "do not lead to the head that its origin signed"), (26, -1, "is not what its origin signed last")]
)
def test_a_record_and_every_digest_above_it_altered_are_not_what_was_signed(ship: SigningNode, since: int, at: int, told: str) -> None:
    proof = proof_of(ship, since, since + 3)
    run = proof.sections[0].runs[at]
    assert isinstance(run, Present)
    rows: list[ShownRow | WithheldRow] = [ShownRow({**row.row, "return_c": 99.5}) if isinstance(row, ShownRow) else row for row in run.rows]
    entered = [
        entry_bytes(int(str(row.row["order_at_ms"])), row_digest(from_cells(row.row)))
        if isinstance(row, ShownRow)
        else entry_bytes(row.order_at_ms, from_text(row.digest))
        for row in rows
    ]
    root = run.path.path(run.leaves).root(Leaf(topic_key(BOX), digest_of_rows(b"".join(entered))))
    lie = msgspec.structs.replace(run, rows=rows, root=to_text(root))
    runs = [lie if one is run else one for one in proof.sections[0].runs]
    section = msgspec.structs.replace(proof.sections[0], runs=runs)
    [problem] = problems(msgspec.structs.replace(proof, sections=[section]).sealed())
    assert told in problem


def test_a_run_of_another_stream_does_not_fit(ship: SigningNode) -> None:
    proof = proof_of(ship, 2, 5)
    for change in ({"stream": "ships"}, {"origin": "ship-b@5"}):
        forgery = msgspec.structs.replace(proof, sections=[msgspec.structs.replace(proof.sections[0], **change)]).sealed()
        assert problems(forgery, Trust({"ship-a": trust().keys["ship-a"], "ship-b": trust().keys["ship-a"]}))
