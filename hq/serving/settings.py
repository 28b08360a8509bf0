"""What the projector is told at its start."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, SecretStr


class ProjectorSettings(BaseModel):
    """Settings of `landfall projector`.

    `log_dir` is the folder of headquarters' log; `database_url` an SQLAlchemy address (`sqlite:////path/serving.db`,
    `postgresql+psycopg://user@host/landfall`) of a database this process may drop and make. `door_url` is the node's HTTP door, for metrics
    and exceptions; without one they are not sent. `places`: node name → `ship/<imo>` or `quay/<locode>`, where that node's sensors are.
    Intervals are of the wall's clock.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    log_dir: Path
    database_url: str = Field(pattern=r"^(sqlite|postgresql)")
    places: dict[str, str] = {}
    poll_interval_s: float = Field(default=0.2, gt=0, le=10)
    step_records_max: int = Field(default=20_000, ge=1, le=30_000)
    health_host: str = "127.0.0.1"
    health_port: int = Field(default=0, ge=0, le=65_535)
    door_url: HttpUrl | None = None
    door_token: SecretStr = SecretStr("")
    clock_url: HttpUrl | None = None
    metrics_interval_s: float = Field(default=10.0, gt=0)
