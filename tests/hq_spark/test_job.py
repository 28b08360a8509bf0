"""Goal: the job begins only with tables, checkpoint and log that belong together, and what it appends is appended once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from pydantic import SecretStr, ValidationError

from hq.analytics.appending import PIECE_RECORDS_MAX, PIECES_MAX, REQUEST_RECORDS_MAX, append_all, append_piece, pieces
from hq.analytics.checkpoint import last_done, standings_after
from hq.analytics.job import CALLED_BY, check_belonging, is_trouble
from hq.analytics.settings import AnalyticsSettings
from hq.analytics.steps import Stopping
from hq.delta_tables import HISTORY, HISTORY_WRITER
from streams.gap_skipping_reader import ReaderStanding
from streams.log import Append, Appended
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import Origin, Position
from tests.hq_spark.history import read_history
from tests.support.refusals import refusal
from tests.support.spark_fleet import BOXES, NOON_MS, TOKEN, Place, reading, rows


class ForgetfulDoor:
    """Takes an append and loses the answer, every other time."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._calls = 0

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        self._calls += 1
        answers = self._place.log.append(appends)
        if self._calls % 2:
            raise RetryLater("the answer was lost")
        return answers


class DyingDoor:
    """Takes so many requests and answers them; whoever comes with another dies before it is sent."""

    def __init__(self, place: Place, requests: int) -> None:
        self._place = place
        self._left = requests

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        if not self._left:
            raise SystemExit("killed")
        self._left -= 1
        return self._place.log.append(appends)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path / "hq", "hq")
    yield one
    one.log.close()


def settings(folder: Path) -> AnalyticsSettings:
    return AnalyticsSettings(
        log_dir=folder / "log",
        tables_dir=str(folder / "tables"),
        checkpoint_dir=folder / "checkpoint",
        scratch_dir=folder / "scratch",
        door="http://127.0.0.1:1",
        token=SecretStr(TOKEN),
    )


def begun(folder: Path, *, done: bool) -> None:
    """A checkpoint as Spark leaves it after its first micro-batch was begun, and perhaps done."""
    source = '{"containers": {"hq@5": 7}, "registry": {}}'
    for name, text in (("offsets", f"v1\n{{}}\n{source}"), ("commits", "v1\n{}")):
        if name == "offsets" or done:
            (folder / name).mkdir(parents=True)
            (folder / name / "0").write_text(text)


def written(folder: Path) -> None:
    """A history table to which micro-batch 0 was written."""
    rows_ = pa.table({"batch": pa.array([0], pa.int64())})
    properties = CommitProperties(app_transactions=[Transaction(HISTORY_WRITER, 0)])
    write_deltalake(HISTORY.path(str(folder)), rows_, commit_properties=properties)


def test_tables_and_checkpoint_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    check_belonging(settings(tmp_path))
    begun(tmp_path / "checkpoint", done=False)
    check_belonging(settings(tmp_path))
    written(tmp_path / "tables")
    check_belonging(settings(tmp_path))
    with refusal(Misuse, "tables_missing", "checkpoint"):
        check_belonging(settings(tmp_path).model_copy(update={"checkpoint_dir": tmp_path / "elsewhere"}))
    begun(tmp_path / "other", done=True)
    with refusal(Misuse, "tables_missing", "tables"):
        check_belonging(settings(tmp_path).model_copy(update={"checkpoint_dir": tmp_path / "other", "tables_dir": str(tmp_path / "none")}))


def test_the_checkpoint_says_how_far_a_micro_batch_reads(tmp_path: Path) -> None:
    assert last_done(tmp_path) is None
    begun(tmp_path / "checkpoint", done=True)
    assert last_done(tmp_path / "checkpoint") == 0
    assert standings_after(tmp_path / "checkpoint", 0) == {
        "containers": ReaderStanding(Position({Origin("hq", 5): 7})),
        "registry": ReaderStanding(),
    }


def test_answers_that_are_lost_give_no_second_copy(place: Place) -> None:
    records = [reading(BOXES[0], NOON_MS + n) for n in range(2 * PIECE_RECORDS_MAX + 5)]
    door = ForgetfulDoor(place)
    for _ in range(2):
        with pytest.raises(RetryLater):
            append_all(door, pieces("states", "analytics.states", 3, records))
        append_all(door, pieces("states", "analytics.states", 3, records[:1]))
    append_all(place.log, pieces("states", "analytics.states", 3, records))
    assert [row.record.device_at_ms for row in rows(place.log, "states")] == [record.device_at_ms for record in records]


def test_who_dies_between_two_requests_of_one_step_appends_the_rest_when_it_repeats_it(place: Place) -> None:
    given = {
        f"customers/{name}": [reading(box, NOON_MS + n) for n in range(PIECE_RECORDS_MAX + 3)]
        for name, box in zip("abc", BOXES, strict=False)
    }

    def step() -> Iterator[Append]:
        for stream, records in given.items():
            yield from pieces(stream, "analytics.customers", 3, records)

    def held() -> dict[str, int]:
        return {stream: sum(batch.records.num_rows for batch in place.log.read(stream, Position())) for stream in given}

    whole = {stream: len(records) for stream, records in given.items()}
    with pytest.raises(SystemExit):
        append_all(DyingDoor(place, 1), step(), first_time=True)
    first = held()
    assert 0 < sum(first.values()) <= REQUEST_RECORDS_MAX
    with pytest.raises(SystemExit):
        append_all(DyingDoor(place, 1), step())
    assert held() == first, "the repeated request brought something new"
    assert append_all(place.log, step()) == sum(whole.values()) - sum(first.values())
    assert held() == whole
    assert append_all(place.log, step()) == 0
    for stream, records in given.items():
        assert [row.record.device_at_ms for row in rows(place.log, stream)] == [record.device_at_ms for record in records]


def test_a_log_that_has_the_results_of_other_tables_is_noticed(place: Place) -> None:
    append_all(place.log, pieces("states", "analytics.states", 0, [reading(BOXES[0], NOON_MS)]), first_time=True)
    with refusal(Misuse, "results_of_another", "states"):
        append_all(place.log, pieces("states", "analytics.states", 0, [reading(BOXES[1], NOON_MS)]), first_time=True)


def test_more_pieces_than_a_sequence_has_room_for_are_refused() -> None:
    with refusal(Misuse, "appends_too_many", PIECES_MAX, "states"):
        append_piece("states", "p", 1, PIECES_MAX, pa.RecordBatch.from_pylist([]))


def test_settings_name_places_as_the_map_does(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        AnalyticsSettings.model_validate({**settings(tmp_path).model_dump(), "places": {"albatross": "somewhere"}})


def test_there_is_no_history_before_there_is_a_table(tmp_path: Path) -> None:
    assert read_history(str(tmp_path), BOXES[0]).num_rows == 0


@pytest.mark.parametrize(("problem", "told"), [(Stopping(), False), (RetryLater("the node is away"), True)])
def test_a_clean_end_tells_of_no_exception(problem: Exception, told: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A micro-batch that may not begin any more is refused by one, which the door between Spark and us would tell with its traceback."""
    door = logging.getLogger(CALLED_BY)
    door.addFilter(is_trouble)
    try:
        raise problem
    except (Stopping, RetryLater):
        door.exception("an exception on this side")
    finally:
        door.removeFilter(is_trouble)
    assert bool(caplog.records) == told
