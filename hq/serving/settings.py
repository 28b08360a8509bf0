"""What the projector is told at its start."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class ProjectorSettings(BaseModel):
    """Settings of `landfall projector`.

    `log` is the folder of headquarters' log; `database_url` an SQLAlchemy address (`sqlite:////path/serving.db`,
    `postgresql+psycopg://user@host/landfall`) of a database this process may drop and make. `door` is the node's URL
    (`http://host:port`) and `token` what local processes show there, for metrics and exceptions; without a door they are not sent. `clock`:
    "wall", or the URL of a clock that serves the fleet's time as JSON. `places`: node name → `ship/<imo>` or `quay/<locode>`, where that
    node's sensors are. Intervals are of the wall's clock.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    log: Path
    database_url: str = Field(pattern=r"^(sqlite|postgresql)")
    places: dict[str, str] = {}
    poll_interval_s: float = Field(0.2, gt=0, le=10)
    step_records_max: int = Field(20_000, ge=1, le=30_000)
    host: str = "127.0.0.1"
    health_port: int = Field(0, ge=0, le=65_535)
    door: str | None = Field(None, pattern=r"^https?://[^/]+$")
    token: SecretStr = SecretStr("")
    clock: str = "wall"
    metrics_every_s: float = Field(10.0, gt=0)
