"""Goal: what an origin signed of a span of time is in its proof, however late it came, and no more of the chain than that needs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streams.integrity.copy_reader import Copy
from streams.integrity.hash_chain import RUN
from streams.integrity.proof_builder import ProofRequest, make, signed_by_origins
from streams.integrity.proof_checker import ProofFinding, check
from streams.integrity.proof_file import Absent
from streams.integrity.proof_reach import reach
from streams.integrity.statements import last_statement
from streams.model.records import LATE_MS_MAX, Record, to_batch
from tests.proof.kit import CODEC, SigningNode, trust
from tests.streams.logkit import NOW_MS, open_log, rows

BOX, OTHER = "MSKU1234565", "CSQU3054383"
HOUR, DAY = 3_600_000, 86_400_000
TWO_DAYS = ProofRequest(BOX, NOW_MS, NOW_MS + 2 * DAY)


def report(node: SigningNode, box: str, hours: range, received_at_ms: int) -> None:
    """One reading for each of these hours, received together, and signed."""
    node.clock.at_ms = received_at_ms
    node.append(to_batch([Record(box, "LOG-1", NOW_MS + hour * HOUR, {"return_c": 4.0}) for hour in hours]))
    node.sign()


def proven(node: SigningNode, claim: ProofRequest = TWO_DAYS) -> ProofFinding:
    copy = Copy(node.log, CODEC)
    of = signed_by_origins(copy, claim.topic, ["containers"], claim.since_at_ms, claim.until_at_ms)
    found = check(make(copy, claim, of, trust()).to_bytes(), trust())
    assert found.problems == []
    return found


def test_what_a_logger_brings_after_12_days_out_of_reach_is_in_the_proof(tmp_path: Path) -> None:
    ship = SigningNode(tmp_path)
    report(ship, BOX, range(1), NOW_MS)
    for day in range(1, 13):
        report(ship, OTHER, range(day * 24, day * 24 + 1), NOW_MS + day * DAY)
    report(ship, BOX, range(1, 48), NOW_MS + 12 * DAY + 60_000)
    found = proven(ship)
    assert len(found.sections[0].rows) == ship.log.history(BOX, NOW_MS, NOW_MS + 2 * DAY).rows.num_rows == 48
    assert found.completeness is not None
    assert (found.completeness.held, found.completeness.missing, found.completeness.late) == (48, 0, 47)
    ship.log.close()


def test_it_ends_where_nothing_later_can_be_of_the_span(tmp_path: Path) -> None:
    """The last that can be is received just before 180 days are over. A later one of the same device time is put in order elsewhere."""
    ship = SigningNode(tmp_path)
    report(ship, BOX, range(1), NOW_MS)
    settled_at_ms = NOW_MS + 2 * DAY + LATE_MS_MAX
    report(ship, BOX, range(47, 48), settled_at_ms - HOUR)
    report(ship, OTHER, range(48, 49), settled_at_ms + 60_000)
    settled = last_statement(ship.log, "containers", ship.log.origin)
    report(ship, BOX, range(46, 47), settled_at_ms + HOUR)
    found = proven(ship)
    assert [row["device_at_ms"] for row in found.sections[0].rows] == [NOW_MS, NOW_MS + 47 * HOUR]
    assert found.sections[0].end == settled
    ship.log.close()


def test_a_clock_that_was_ahead_for_a_while_ends_no_proof_too_early(tmp_path: Path) -> None:
    ship = SigningNode(tmp_path)
    ship.append(to_batch([Record(BOX, "LOG-1", NOW_MS)]))
    ship.clock.at_ms = NOW_MS + 3 * LATE_MS_MAX
    ship.sign()
    report(ship, BOX, range(1, 10), NOW_MS + DAY)
    assert len(proven(ship).sections[0].rows) == 10
    ship.log.close()


def test_runs_far_behind_the_span_take_one_path_each(tmp_path: Path) -> None:
    """Less than 1 KiB, of 1,000 boxes: the two topics beside the one that is not there share it."""
    ship = SigningNode(tmp_path)
    report(ship, BOX, range(1), NOW_MS)
    ship.clock.at_ms = NOW_MS + 90 * DAY
    ship.append(to_batch([Record(f"box-{number % 1000}", "T", ship.clock.at_ms) for number in range(4 * RUN)]))
    ship.sign()
    copy = Copy(ship.log, CODEC)
    proof = make(copy, TWO_DAYS, [("containers", ship.log.origin)], trust())
    runs = proof.sections[0].runs
    assert [isinstance(run, Absent) for run in runs] == [False, True, True, True, True]
    assert all(len(msgspec.json.encode(run)) < 1024 for run in runs[1:-1])
    ship.log.close()


def test_statements_are_not_kept_in_memory(tmp_path: Path) -> None:
    """One a minute, for years: a root and a head of each run stay, and none of those before the span."""
    ship = SigningNode(tmp_path)
    for part in range(48):
        ship.append(rows(RUN // 16, part * RUN // 16))
        ship.sign()
    copy, origin = Copy(ship.log, CODEC), ship.log.origin
    for since_at_ms, runs in ((NOW_MS, 3), (NOW_MS + 365 * DAY, 0)):
        found = reach(copy, "containers", origin, (since_at_ms, since_at_ms + DAY), trust())
        assert (found.end.end, len(found.signed.roots), len(found.signed.heads)) == (3 * RUN, runs, runs + 1)
        assert (found.signed.tails, found.signed.sums) == ({}, {})
    ship.log.close()


def test_a_copy_whose_rows_are_not_here_yet_reaches_to_its_last_statement(tmp_path: Path) -> None:
    """Statements come by a cheaper link, or earlier: what they cover is said not to be shown."""
    ship, port = SigningNode(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    report(ship, BOX, range(1), NOW_MS)
    port.admit(list(ship.log.blocks("containers", ship.log.origin, 0, 1)))
    report(ship, BOX, range(1, 9), NOW_MS + 400 * DAY)
    port.admit(list(ship.log.blocks("containers.heads", ship.log.origin, 0, 2)))
    found = check(make(Copy(port, CODEC), TWO_DAYS, [("containers", ship.log.origin)], trust()).to_bytes(), trust())
    assert (found.problems, [run.why for run in found.sections[0].not_shown], found.shows_all) == ([], ["wanted"], False)
    for log in (ship.log, port):
        log.close()
