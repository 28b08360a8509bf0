"""What the projector is told at its start."""

from __future__ import annotations

from pydantic import Field

from hq.sensor_places import SensorPlaces
from hq.serving.address import SERVING_URL_DEFAULT, DatabaseUrl
from landfall.runtime.service import WorkSettings
from landfall.system.settings_table import GivenPath


class ProjectorSettings(WorkSettings):
    """Settings of `landfall projector`. Intervals are of the wall clock.

    * `log`: headquarters' log, the folder `log` of its node.
    * `database_url`: an SQLAlchemy address (`sqlite:////path/serving.db`, `postgresql+psycopg://user@host/landfall`). The process may
      drop and create this database. By default it is the SQLite file `serving.db` in the working folder.
    * `door`, `token`: URL of headquarters' node (`http://host:port`) and the token of a credential there, for metrics and exceptions.
      Without a door they are not sent.
    * `clock`: "wall", or the URL of a clock that serves the fleet's time as JSON.
    * `places`: node name to `ship/<imo>` or `quay/<locode>`, the place of that node's sensors.
    """

    log: GivenPath
    database_url: DatabaseUrl = SERVING_URL_DEFAULT
    places: SensorPlaces = Field(default={})
    poll_interval_s: float = Field(0.2, gt=0, le=10)
    step_records_max: int = Field(20_000, ge=1, le=30_000)
