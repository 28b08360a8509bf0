"""Goal: a batch that the database cancels each time is halved until only the record that it does not take is set aside, and reported."""

from __future__ import annotations

from contextlib import closing

import pytest
from sqlalchemy import select, text

from hq.serving import models as m
from hq.serving.database import ServingReader
from hq.serving.database_faults import DatabaseAway, DatabaseCancelled
from hq.serving.portions import CANCELLED_MAX, HALVED
from hq.serving.projection_loop import Projector
from hq.serving.projector import unreported_appends
from tests.hq_serving.conftest import make_projector
from tests.hq_serving.faulty import server_of, with_setting, with_trigger
from tests.hq_serving.fleet import DUCKS, NOW_MS, Fleet


def stepped(one: Projector, codes: list[str] | None = None, steps_max: int = 500) -> list[int]:
    """Steps until nothing is left; how many records each took, 0 for one that was cancelled, with its code among `codes`."""
    taken = list[int]()
    while len(taken) < steps_max:
        try:
            if not (step := one.step()):
                return taken
            taken.append(step)
        except DatabaseCancelled as problem:
            taken.append(0)
            if codes is not None:
                codes.append(problem.code)
    raise AssertionError(f"still not done after {taken}")


@pytest.mark.parametrize("at", [0, 5, 7], ids=["first", "middle", "last"])
def test_one_record_that_takes_too_long_is_set_aside_and_all_others_are_there(postgres: str, fleet: Fleet, at: int) -> None:
    slow = DUCKS[3]
    numbers = [DUCKS[0]] * 8
    numbers[at] = slow
    for step, number in enumerate(numbers):
        fleet.readings("ship-one", [number], count=1, at_ms=NOW_MS + 1000 * step)
    fleet.state("container", DUCKS[0], ("quay", "SGSIN"))
    url = postgres.format(f"cancelled{at}")
    one = make_projector(fleet.hq_dir, url)
    one.start()
    sleeps = f"IF NEW.topic = '{slow}' THEN PERFORM pg_sleep(60); END IF;"
    with with_trigger(url, "reading", sleeps), with_setting(url, "statement_timeout", "250ms"):
        codes = list[str]()
        taken = stepped(one, codes)
        assert taken.count(0) <= CANCELLED_MAX * 4, "of 8, 4, 2 and 1 records"
        assert codes.count(HALVED) == 3
        assert one.whole
        fleet.readings("ship-one", [DUCKS[1]] * 6, count=1, at_ms=NOW_MS)
        assert stepped(one) == [6], "the next batch is whole again"
    with closing(ServingReader(url)) as reader, reader.snapshot() as connection:
        topics = connection.execute(select(m.Reading.topic)).scalars().all()
        aside = connection.execute(select(m.Rejected.stream, m.Rejected.offset, m.Rejected.topic)).all()
        assert connection.execute(select(m.ContainerState.container)).scalars().all() == [DUCKS[0]]
    assert sorted(topics) == sorted([number for number in numbers if number != slow] + [DUCKS[1]])
    assert [tuple(row) for row in aside] == [("containers", at, slow)]


def test_a_record_that_is_set_aside_is_reported_once_by_its_coordinates(postgres: str, fleet: Fleet) -> None:
    """After it was tried alone as often as a batch is."""
    url = postgres.format("cancelled_reported")
    [record] = fleet.readings("ship-one", [DUCKS[3]], count=1)
    one = make_projector(fleet.hq_dir, url)
    one.start()
    with with_trigger(url, "reading", "PERFORM pg_sleep(60);"), with_setting(url, "statement_timeout", "250ms"):
        assert stepped(one) == [0] * CANCELLED_MAX + [1]
    with one.database.transaction() as connection:
        appends, told = unreported_appends(connection, {}, "projector", NOW_MS)
        assert unreported_appends(connection, told, "projector", NOW_MS) == ([], told)
    assert [(append.stream, append.producer, append.sequence) for append in appends] == [
        ("exceptions", f"projector/containers/{record.origin}", record.offset + 1)
    ]


def test_who_waits_for_a_lock_is_not_cancelled_and_nothing_is_set_aside(postgres: str, fleet: Fleet) -> None:
    """However short a time a statement may take."""
    url = postgres.format("locked_long")
    one = make_projector(fleet.hq_dir, url)
    one.start()
    assert one.step() == 0
    fleet.readings("ship-one", DUCKS, count=1)
    with with_setting(url, "statement_timeout", "400ms"), server_of(url) as other:
        for statement in ("SET statement_timeout = 0", "BEGIN", "LOCK TABLE reading IN ACCESS EXCLUSIVE MODE"):
            other.execute(text(statement))
        for _ in range(CANCELLED_MAX + 1):
            with pytest.raises(DatabaseAway) as caught:
                one.step()
            assert caught.value.code == "database_busy"
        other.execute(text("ROLLBACK"))
        assert stepped(one) == [len(DUCKS)]
