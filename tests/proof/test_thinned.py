"""Goal: a proof over readings that were thinned tells the numbers that `completeness` does, and no byte of it can be altered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from landfall.cli.proof_output import finding_words
from streams.integrity.completeness import Completeness, Reported, completeness
from streams.integrity.copy_reader import Copy
from streams.integrity.hash_chain import RUN
from streams.integrity.proof_builder import ProofRequest, make, signed_by_origins
from streams.integrity.proof_checker import ProofFinding, check
from streams.integrity.proof_file import NotShown, ProofFile
from streams.integrity.report_intervals import reported
from streams.log import LogReader
from streams.model.identifiers import Origin
from streams.model.records import Record, to_batch
from streams.retention.kept_records import kept_rows
from tests.proof.kit import CODEC, SigningNode, all_blocks, another, put, received, thin, trust, values
from tests.retention.thinkit import BOXES, EVERY_MS, box
from tests.streams.logkit import NOW_MS, open_log

HOUR, DAY = 3_600_000, 86_400_000
START = NOW_MS - 30 * DAY
RUN_MS = RUN // BOXES * EVERY_MS
STREAMS = ("containers", "containers.kept")
THINNED = 3


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A ship's folder, and what her clock says: four runs, of which the first three are thinned."""
    folder = tmp_path_factory.mktemp("voyage")
    node = received(folder, THINNED + 1)
    thin(node, "containers", START + THINNED * RUN_MS)
    node.log.close()
    return folder, node.clock.at_ms


@pytest.fixture
def ship(voyage: tuple[Path, int], tmp_path: Path) -> Iterator[SigningNode]:
    """The ship, as her folder was left."""
    shutil.copytree(voyage[0], tmp_path / "ship")
    node = SigningNode(tmp_path / "ship")
    node.clock.at_ms = voyage[1]
    yield node
    node.log.close()


def proven(log: LogReader, claim: ProofRequest, of: list[tuple[str, Origin]] | None = None) -> ProofFinding:
    copy = Copy(log, CODEC)
    of = of or signed_by_origins(copy, claim.topic, STREAMS, claim.since_at_ms, claim.until_at_ms)
    found = check(make(copy, claim, of, trust()).to_bytes(), trust())
    assert found.problems == []
    return found


def counted(log: LogReader, claim: ProofRequest) -> Completeness:
    """What `landfall log completeness` tells."""
    rows = log.history(claim.topic, claim.since_at_ms, claim.until_at_ms, ["containers"]).rows.to_pylist()
    told, thinned = reported((row["stream"], row) for row in rows)
    return completeness(told, claim.since_at_ms, claim.until_at_ms, claim.interval_ms, thinned)


@pytest.mark.parametrize(
    ("since_h", "until_h"),
    [(0, 24), (0.5, 34), (3.3, 9.7), (20, 34), (25.7, 30), (27, 34), (-5, 40), (7.2, 7.6)],
)
def test_the_proof_tells_the_numbers_of_completeness(ship: SigningNode, since_h: float, until_h: float) -> None:
    """Of spans that are thinned, that are not, and that begin or end within a window, or between what is kept of it."""
    claim = ProofRequest(box(1), START + round(since_h * HOUR), START + round(until_h * HOUR), EVERY_MS)
    found, expected = proven(ship.log, claim, _both(ship)), counted(ship.log, claim)
    assert found.completeness == expected
    assert expected.thinned is not None


def test_a_thinned_run_is_answered_by_what_its_node_kept_of_it_and_by_nothing_else(ship: SigningNode) -> None:
    """Whoever makes a file may call any run thinned: of a span that ends before the third, nothing in the file says that it was."""
    for until_h, shows_all in ((34, True), (24, True), (9.7, False)):
        assert proven(ship.log, ProofRequest(box(1), START, START + round(until_h * HOUR), EVERY_MS), _both(ship)).shows_all is shows_all


@pytest.mark.parametrize("hidden", ["containers", "containers.kept"])
def test_shown_runs_that_are_called_thinned_are_not_said_to_be_missing(ship: SigningNode, hidden: str) -> None:
    """The file's completeness and digest are made right again, which takes no key."""
    copy, claim = Copy(ship.log, CODEC), ProofRequest(box(1), START, START + 34 * HOUR, EVERY_MS)
    honest = make(copy, claim, _both(ship), trust())
    told = check(honest.to_bytes(), trust())
    assert told.completeness is not None
    assert (told.shows_all, told.completeness.missing) == (True, 0)
    assert "\n".join(finding_words(told)).count("one every 60 s") == 2
    sections = [
        msgspec.structs.replace(one, runs=[NotShown(run.run, run.root, "thinned") for run in one.runs]) if one.stream == hidden else one
        for one in honest.sections
    ]
    lie = msgspec.structs.replace(honest, sections=sections)
    counted_again = check(lie.sealed().to_bytes(), trust()).completeness
    assert counted_again is not None
    lie = msgspec.structs.replace(lie, completeness=counted_again.to_json())
    found = check(lie.sealed().to_bytes(), trust())
    assert (found.problems, found.shows_all) == ([], False)
    assert found.completeness is not None
    assert found.completeness.missing
    words = "\n".join(finding_words(found))
    assert f" {found.completeness.missing:,} missing or " in words
    assert "; readings of it may stand in runs that are not shown\n" in words


def test_runs_that_are_thinned_whole_are_in_the_proof_as_not_shown(ship: SigningNode) -> None:
    found = proven(ship.log, ProofRequest(box(1), START, START + DAY))
    kept = ship.log.history(box(1), START, START + DAY).rows.num_rows
    assert [(one.stream, len(one.rows)) for one in found.sections] == [("containers", 0), ("containers.kept", kept)]
    assert [run.why for run in found.sections[0].not_shown] == ["thinned"] * THINNED
    assert found.completeness is not None
    assert (found.completeness.held, found.completeness.thinned) == (kept, 1440 - kept)
    assert (found.completeness.missing, found.completeness.late) == (0, 0)


def test_where_thinning_kept_nothing_of_a_box_the_file_does_not_tell_what_stood_in_the_runs(ship: SigningNode) -> None:
    """A box of which one reading comes late, of a time whose runs are thinned: that they were is the maker's word."""
    ship.append(to_batch([Record("MSKU7654321", "T9", START + HOUR)]))
    ship.sign()
    found = proven(ship.log, ProofRequest("MSKU7654321", START, START + DAY, HOUR))
    assert [(one.stream, len(one.rows)) for one in found.sections] == [("containers", 1), ("containers.kept", 0)]
    assert found.completeness == counted(ship.log, ProofRequest("MSKU7654321", START, START + DAY, HOUR))
    assert not found.shows_all


def test_what_is_thinned_again_is_told_alike(tmp_path: Path) -> None:
    ship = received(tmp_path, 14)
    thin(ship, "containers", 1 << 62)
    thin(ship, "containers.kept", 1 << 62)
    claim = ProofRequest(box(1), START, START + 14 * RUN_MS, EVERY_MS)
    found = proven(ship.log, claim)
    assert found.completeness == counted(ship.log, claim)
    assert {(one.stream, run.why) for one in found.sections for run in one.not_shown} == {(stream, "thinned") for stream in STREAMS}
    assert not found.shows_all, "nothing signed is left of what was thinned twice that tells where it stood"
    ship.log.close()


def test_what_was_kept_twice_counts_once(ship: SigningNode) -> None:
    """Thinned again, and killed before the narrower windows were declared gone."""
    [narrow] = ship.log.run("containers.kept", ship.log.origin, 0, 1 << 20)
    ship.append(kept_rows("containers.kept", ship.log.origin, narrow.records.slice(40, 700), DAY), "containers.kept")
    ship.sign()
    claim = ProofRequest(box(1), START + 5 * HOUR, START + 11 * HOUR, EVERY_MS)
    once = counted(ship.log, claim)
    assert proven(ship.log, claim).completeness == once
    assert once.missing == 0


def test_at_a_copy_that_has_the_readings_what_was_kept_of_them_counts_for_nothing(tmp_path: Path) -> None:
    """Nor where they may come yet: the copy's own completeness does not count it either."""
    ship, whole, without = received(tmp_path / "ship", 2), open_log(tmp_path / "hq", "hq"), open_log(tmp_path / "port", "port-b")
    whole.admit(all_blocks(ship.log, "containers", ship.log.origin))
    thin(ship, "containers", START + RUN_MS)
    for copy in (whole, without):
        for stream in ("containers.heads", "containers.kept", "containers.kept.heads"):
            copy.admit(all_blocks(ship.log, stream, ship.log.origin))
    claim = ProofRequest(box(1), START, START + 8 * HOUR, EVERY_MS)
    found = proven(whole, claim, _both(ship))
    assert found.completeness == (at_home := counted(whole, claim))
    assert (at_home.held, at_home.thinned, found.shows_all) == (480, 0, True)
    assert at_home.late
    lacking = proven(without, claim, _both(ship))
    assert lacking.completeness == counted(without, claim)
    assert (counted(without, claim).held, lacking.shows_all) == (0, False)
    for log in (ship.log, whole, without):
        log.close()


def test_where_no_kept_reading_is_shown_the_file_does_not_tell_what_stood_in_a_thinned_run(ship: SigningNode) -> None:
    claim = ProofRequest(box(1), START, START + DAY, EVERY_MS)
    assert not proven(ship.log, claim, [("containers", ship.log.origin)]).shows_all


def test_a_window_that_is_none_thins_nothing() -> None:
    def kept(window: Any) -> Mapping[str, Any]:
        body = json.dumps({"landfall_kept": {"window_h": window}})
        return {"order_at_ms": 5 * HOUR, "received_at_ms": 9 * HOUR, "device": "T", "body": body, "source_origin": "ship-a@5"}

    for window in (0, -1, 1e300, 10**400, "1", None):
        told, thinned = reported([("containers.kept", kept(window))])
        assert (told, thinned) == ([Reported(5 * HOUR, 9 * HOUR, "T")], []), window
    assert reported([("containers.kept", kept(6))]) == ([Reported(5 * HOUR, 5 * HOUR, "T")], [(5 * HOUR, 5 * HOUR)])


def _both(ship: SigningNode) -> list[tuple[str, Origin]]:
    return [(stream, ship.log.origin) for stream in STREAMS]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A proof with every kind of run: one thinned, one without the topic, and what was kept."""
    node = SigningNode(tmp_path_factory.mktemp("small"))
    mine = [Record(box(1), "T1", NOW_MS + minute * EVERY_MS, {"return_c": minute / 2}) for minute in range(6)]
    node.append(to_batch([*mine, *(Record(box(2), "T2", NOW_MS, {"return_c": 4.0}) for _ in range(RUN - 6)), Record(box(3), "T3", NOW_MS)]))
    node.sign()
    thin(node, "containers", 1 << 62)
    data = make(Copy(node.log, CODEC), ProofRequest(box(1), NOW_MS, NOW_MS + HOUR), _both(node), trust()).to_bytes()
    node.log.close()
    kinds = [run["type"] for section in json.loads(data)["sections"] for run in section["runs"]]
    assert kinds == ["not_shown", "absent", "present"]
    assert check(data, trust()).problems == []
    return data


def test_every_byte_counts(small: bytes) -> None:
    for at, byte in enumerate(small):
        altered = small[:at] + bytes([byte ^ 1 << at % 7]) + small[at + 1 :]
        assert check(altered, trust()).problems, f"byte {at} may be altered"


def test_what_is_no_base64url_is_named(small: bytes) -> None:
    def told(*path: str | int, text: str) -> str:
        copy = json.loads(small)
        put(copy, path, text)
        return check(msgspec.convert(copy, ProofFile).sealed().to_bytes(), trust()).problems[0]

    assert told("sections", 0, "runs", 0, "root", text="abcde").endswith(" 'abcde' is no base64url")
    assert told("sections", 1, "runs", 0, "path", "beside", 0, text="é").endswith(" 'é' is no base64url")
    assert told("sections", 1, "end", "head", text="_-=").endswith(" '_-=' is no base64url")
    assert told("sections", 1, "end", "head", text="_-8").endswith(" 2 bytes, not 32")


def test_only_why_a_run_is_not_shown_is_the_word_of_who_made_the_file(small: bytes) -> None:
    """Each value is altered in turn, and the file's own digest and completeness made right again."""
    found = set()
    for path, value in values(json.loads(small)):
        for other in another(value) if path[0] == "sections" else ():
            copy = json.loads(small)
            put(copy, path, other)
            try:
                lie = msgspec.convert(copy, ProofFile)
            except msgspec.ValidationError:
                continue
            told = check(lie.sealed().to_bytes(), trust())
            if told.completeness is not None:
                lie = msgspec.structs.replace(lie, completeness=told.completeness.to_json())
            if not check(lie.sealed().to_bytes(), trust()).problems:
                found.add(path[-1])
    assert found == {"why"}
