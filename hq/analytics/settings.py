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
    """Settings of `landfall analytics`, Spark's part of headquarters. Intervals are of the wall clock.

    * `log_dir`: headquarters' log, the folder `log` of its node.
    * `tables_dir`: the Delta tables, a folder or the URL of an object store. `checkpoint_dir` belongs to them: move or delete both or
      neither.
    * `group`: Unix group that may read `tables_dir`; by default the process's own (docs/guide/security.md).
    * `scratch_dir`: folder where Spark may spill.
    * `door`, `token`: URL of headquarters' node (`http://host:port`) and the token of a credential there.
    * `clock`: "wall", or the URL of the fleet's clock.
    * `places`: node name to `ship/<imo>` or `quay/<locode>`, the place of that node's sensors.
    * `records_max`, `request_records_max`: maximum records of a micro-batch, and of a request to the node.
    * `trigger_ms`: minimum time between two micro-batches.
    * `settle_interval_s`: how often hourly aggregates and the table of states are updated.
    * `compact_interval_s`: how often small files are merged.
    * `health_port`: port of `/healthz`; 0: any free one.
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
