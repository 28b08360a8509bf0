"""Goal: a serving store whose tables another version made is made anew from the log; one of this version keeps its rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from hq.serving.database import SCHEMA, ServingDatabase, make_tables, open_engine, schema_hash
from hq.serving.models import METADATA
from tests.hq_serving.conftest import make_projector, project, sqlite_url, table_rows
from tests.hq_serving.fleet import Fleet, fill


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    postgres: str = request.getfixturevalue("postgres")
    return postgres.format(f"schema_{request.node.name.split('[')[0][-24:]}")


def change(url: str, statement: str, **values: str) -> None:
    engine = open_engine(url, read_only=False)
    with engine.begin() as connection:
        connection.execute(text(statement), values)
    engine.dispose()


def prepare(url: str) -> None:
    database = ServingDatabase(url)
    database.prepare()
    database.close()


def tables(url: str) -> set[str]:
    engine = open_engine(url, read_only=False)
    with engine.connect() as connection:
        found = set(inspect(connection).get_table_names())
    engine.dispose()
    return found


def test_a_store_of_this_version_keeps_its_rows(fleet: Fleet, url: str) -> None:
    fill(fleet)
    project(make_projector(fleet.hq_dir, url))
    before = table_rows(url)
    change(url, "CREATE TABLE of_another_program (one INTEGER)")
    prepare(url)
    assert table_rows(url) == before
    assert tables(url) == {*METADATA.tables, SCHEMA.name, "of_another_program"}


def test_a_store_of_another_version_is_made_anew_from_the_log(fleet: Fleet, url: str) -> None:
    """Its tables that this version does not know go too; those of other programs stay."""
    fill(fleet)
    project(make_projector(fleet.hq_dir, url))
    before = table_rows(url)
    for name in ("of_before", "of_another_program"):
        change(url, f"CREATE TABLE {name} (one INTEGER)")
    change(url, "UPDATE schema SET hash = 'of before', tables = :names", names='["reading", "of_before"]')
    prepare(url)
    assert not any(table_rows(url).values())
    assert tables(url) == {*METADATA.tables, SCHEMA.name, "of_another_program"}
    project(make_projector(fleet.hq_dir, url))
    assert table_rows(url) == before


def test_tables_that_say_not_who_made_them_are_made_anew(url: str) -> None:
    prepare(url)
    change(url, "DELETE FROM schema")
    engine = open_engine(url, read_only=False)
    with engine.connect() as connection:
        assert [make_tables(connection), make_tables(connection)] == [True, False]
        assert schema_hash(connection, rows_version=1) != schema_hash(connection, rows_version=2)
    engine.dispose()
