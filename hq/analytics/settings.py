"""The settings of the analytics process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, SecretStr

from hq.spark import SparkSettings
from streams.words import NODE_PATTERN

NodeName = Annotated[str, Field(pattern=f"^{NODE_PATTERN.pattern}$")]
Place = Annotated[str, Field(pattern=r"^(ship/\d{7}|quay/[A-Z]{2}[A-Z2-9]{3})$")]


class AnalyticsSettings(BaseModel):
    """Settings of `landfall analytics`, Spark's part of headquarters.

    `log_dir`: the folder of headquarters' log. `tables_dir`: where its Delta tables are (a folder, or an object store's URL);
    `checkpoint_dir` belongs to them: move or delete both or neither. `scratch_dir`: where Spark may spill. `door_url` (`http://host:port`)
    and `door_token`: the node's append door. `clock`: "wall", or the URL of the fleet's clock. `places`: node name → `ship/<imo>` or
    `quay/<locode>`, where that node's sensors are. `records_max`: of one micro-batch. `trigger_ms`: micro-batches begin at most so often;
    `settle_interval_s`: how often hourly aggregates and the table of states are brought up to date; `compact_interval_s`: how often small
    files are joined. Intervals are of the wall's clock. `health_port` 0: any free one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    log_dir: Path
    tables_dir: str
    checkpoint_dir: Path
    scratch_dir: Path
    door_url: HttpUrl
    door_token: SecretStr
    clock: str = Field(default="wall", pattern=r"^(wall|https?://.+)$")
    places: dict[NodeName, Place] = {}
    spark: SparkSettings = SparkSettings()
    records_max: int = Field(default=100_000, ge=1)
    trigger_ms: int = Field(default=1_000, ge=0)
    settle_interval_s: float = Field(default=30.0, gt=0)
    compact_interval_s: float = Field(default=900.0, gt=0)
    heartbeat_s: float = Field(default=5.0, gt=0)
    health_host: str = "127.0.0.1"
    health_port: int = Field(default=0, ge=0, le=65_535)
