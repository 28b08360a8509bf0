"""A demo in a folder whose name means something in an address: the serving database is that folder's, for the projector and its readers;
so are the files of a Delta table.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from sqlalchemy import func, select

from hq.api.settings import ApiSettings
from hq.delta_tables import HISTORY
from hq.serving import models as m
from hq.serving.address import file_address, serving_url
from hq.serving.database import ServingReader
from hq.serving.projector import ProjectorSettings
from hq.spark_rows import WIDE
from landfall.demo.fleet_settings import Fleet as Demo
from landfall.demo.fleet_settings import write_settings
from landfall.runtime.settings_loader import load
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for
from tests.hq_serving.fleet import DUCKS, Fleet, fill
from tests.hq_spark.history import read_history

ODD = ("boxes #3", "boxes?mode=memory", "boxes%41", "100%", "a&b;c=d+e", "user:word@host", "Kähne %2F", "'\"`")


@pytest.mark.parametrize("name", ODD)
def test_a_path_is_read_back_from_its_address(name: str) -> None:
    path = Path("/srv") / name / "serving.db"
    assert serving_url(file_address(path)).database == str(path)


@pytest.mark.parametrize("name", ["boxes?mode=memory&b;c=d+e", "user:word@host #3 %41 100% Kähne '\"`"])
def test_the_projector_and_the_api_meet_where_the_demos_settings_say(tmp_path: Path, name: str) -> None:
    """The settings that a demo in that folder writes are read; the store is made there, and nowhere else; the API answers from it."""
    demo = Demo(tmp_path / name)
    files = write_settings(demo)
    projecting, answering = load(ProjectorSettings, files["projector"], {}), load(ApiSettings, files["api"], {})
    assert projecting.database_url == answering.database_url
    logs = Fleet(tmp_path / "logs")
    fill(logs)
    project(make_projector(logs.hq_dir, projecting.database_url))
    assert [path for path in tmp_path.rglob("serving.db*") if path.suffix == ".db"] == [demo.folder / "serving" / "serving.db"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({"logs", name})
    with closing(ServingReader(answering.database_url)) as reader, reader.snapshot() as connection:
        assert connection.execute(select(func.count()).select_from(m.BookingRow)).scalar() == 3
    with api_of(settings_for(logs.hq_dir, demo.folder, database_url=answering.database_url)) as client:
        found = client.get(f"/api/containers/{DUCKS[0]}", headers=log_in(client, "mira"))
    assert (found.status_code, found.json()["booking"]["reference"]) == (200, "BK-1")
    logs.close()


@pytest.mark.parametrize("name", ["boxes #3", "boxes?mode=memory", "100%", "user:word@host", "Kähne"])
def test_a_history_is_read_from_the_files_of_its_folder(tmp_path: Path, name: str) -> None:
    """Not from where their addresses, taken for paths, would point."""
    row = pa.table(
        {one.name: pa.array([DUCKS[0] if one.name == "topic" else 1 if one.name == "order_at_ms" else None], one.type) for one in WIDE}
    )
    write_deltalake(str(tmp_path / "made" / HISTORY.name), row)
    root = (tmp_path / "made").rename(tmp_path / name)
    assert all(Path(file).is_file() for file in HISTORY.files(str(root)))
    assert read_history(str(root), DUCKS[0]).num_rows == 1
