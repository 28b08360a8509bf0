"""The settings of the analytics process."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hq.analytics.appending import REQUEST_RECORDS_MAX
from hq.sensor_places import SensorPlaces
from hq.spark_session import SparkSettings
from landfall.runtime.service import WorkSettings
from landfall.system.settings_table import DoorUrl, GivenPath, Token, given


class AnalyticsSettings(WorkSettings):
    """Settings of `landfall analytics`, Spark's part of headquarters.

    `log_dir`: headquarters' log, the folder `log` of its node's. `tables_dir`: where its Delta tables are (a folder, or an object store's
    URL); `group`: the name of the Unix group that may read that folder, without it the process's own (docs/guide/security.md).
    `checkpoint_dir` belongs to the tables: move or delete both or neither. `scratch_dir`: where Spark may spill. `door`: the node's URL
    (`http://host:port`), and `token`: that of a credential there. `clock`: "wall", or the URL of the fleet's clock. `places`: node
    name → `ship/<imo>` or `quay/<locode>`, where that node's sensors are. `records_max`: of one micro-batch; `request_records_max`: of one
    request at the door. `trigger_ms`: micro-batches begin at most so often; `settle_interval_s`: how often hourly aggregates and the table
    of states are brought up to date; `compact_interval_s`: how often small files are joined. Intervals are of the wall's clock.
    `health_port` 0: any free one.
    """

    log_dir: GivenPath
    tables_dir: Annotated[str, given('write a folder, or an object store\'s URL, like "s3a://bucket/tables"')]
    checkpoint_dir: GivenPath
    scratch_dir: GivenPath
    group: str = ""
    door: DoorUrl
    token: Token
    metrics_every_s: float = Field(default=5.0, gt=0)
    places: SensorPlaces = Field(default={})
    spark: SparkSettings = SparkSettings()
    records_max: int = Field(default=100_000, ge=1)
    request_records_max: int = Field(default=REQUEST_RECORDS_MAX, ge=1)
    trigger_ms: int = Field(default=1_000, ge=0)
    settle_interval_s: float = Field(default=30.0, gt=0)
    compact_interval_s: float = Field(default=900.0, gt=0)
