"""The simulator's settings: the seed and size of its world, the intakes it publishes to, HQ's API, and how often devices report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from landfall.runtime.service import WorkSettings
from landfall.system.settings_table import (
    DoorUrl,
    GivenPath,
    Host,
    SettingsProblem,
    SettingsTable,
    SharedToken,
    Token,
    WithCertificate,
    between,
    repeated,
)
from sim.arrays import HOUR_MS, MINUTE_MS
from sim.fleets import PRESETS, PresetName, build_fleet
from sim.sim_ports import HearingPlaces
from sim.voyages import STORY
from sim.world import World, build_world

BEGINS_AT_MS = 1_777_593_600_000
"""2026-05-01T00:00:00Z: when the story begins."""
SPEED_DEFAULT = 4_000.0
SPEED_MAX = 1_000_000.0
BOXES_MIN, BOXES_MAX = 40, 20_000
"""Fewer boxes can not play every part of the story; more would need more ships."""


class Cadence(SettingsTable):
    """Intervals of reports, ms: of boxes; of reefers among them `reefer_every` times as seldom, dry boxes at sea `dry_at_sea_every` times.
    Every `gnss_every`-th report has a position. Then those of ships, and of ships that roll hard."""

    report_ms: int = Field(default=HOUR_MS, gt=0)
    reefer_every: int = Field(default=1, ge=1)
    dry_at_sea_every: int = Field(default=2, ge=1)
    gnss_every: int = Field(default=6, ge=1)
    location_ms: int = Field(default=15 * MINUTE_MS, gt=0)
    environment_ms: int = Field(default=10 * MINUTE_MS, gt=0)
    rolling_ms: int = Field(default=MINUTE_MS, gt=0)

    def with_reefers_every(self, interval_ms: int) -> Cadence:
        """Return the same with reefers that report so often, at least as often as all do here, and a whole number of times within that."""
        often = self.report_ms // interval_ms or 1
        more = {"dry_at_sea_every": self.dry_at_sea_every * often, "gnss_every": self.gnss_every * often}
        report_ms = self.report_ms // often
        return self.model_copy(update={"report_ms": report_ms, "reefer_every": interval_ms // report_ms, **more})


CADENCES: dict[str, Cadence] = {
    "demo": Cadence(),
    "short": Cadence(report_ms=6 * HOUR_MS, dry_at_sea_every=2, gnss_every=2, location_ms=30 * MINUTE_MS, environment_ms=HOUR_MS),
    "domain": Cadence(report_ms=15 * MINUTE_MS, reefer_every=4, dry_at_sea_every=96, gnss_every=24),
    "hourly": Cadence(dry_at_sea_every=1),
}
"""`domain`: DOMAIN.md 6, reefers every hour, dry boxes every quarter of one on land and once a day at sea. `hourly`: all every hour, for
load. `demo`: the story's, hourly, dry boxes at sea every 2 h. `short`: the same story with a tenth of the readings per box, for end-to-end
tests."""


class IntakeDoor(SettingsTable):
    """An MQTT intake.

    * `at`: `ship/<IMO number>`, `quay/<UN/LOCODE>`, or `*` for every place without its own intake.
    * `tls_ca`: PEM file; with it the connection uses TLS.
    """

    at: str = Field(pattern=r"^(ship/\d{7}|quay/[A-Z0-9]{5}|\*)$", examples=["ship/9321483", "quay/JPTYO", "*"])
    host: Host = "127.0.0.1"
    port: int = Field(default=1883, gt=0, lt=65536)
    username: str = ""
    password: SecretStr = SecretStr("")
    tls_ca: GivenPath | None = None


class ApiDoor(SettingsTable):
    """Headquarters' API and the login of the booking clerk.

    * `url`: without the trailing `/api`.
    * `tls_ca`: PEM file of the authority of the API's certificate; none: a public authority.
    """

    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+(/[^/\s]+)*/?$", examples=["http://127.0.0.1:8780"])]
    username: str = "clerk"
    password: SecretStr
    tls_ca: GivenPath | None = None


class MetricsDoor(SettingsTable):
    """URL of the node that gets the simulator's metrics (`http://host:port`), and the token to show there."""

    url: DoorUrl
    token: Token
    every_s: float = Field(default=10.0, gt=0)


class SimSettings(WithCertificate):
    """Settings of the simulator.

    * `data`: its own folder, for progress and the ground truth. No other process reads it.
    * `tls_certificate`, `tls_key`: PEM files; with them its clock is at `https://`.
    """

    data: GivenPath
    intakes: tuple[IntakeDoor, ...]
    api: ApiDoor | None = None
    """API for the clerk. None: no clerk; the registry is not written."""
    metrics: MetricsDoor | None = None
    """The door for metrics; None: metrics are not sent."""
    seed: int = Field(default=1, ge=0)
    preset: Literal["story", PresetName] = "story"
    """`story`: the demo's. The others are fleets of DOMAIN.md 6, three weeks long: 6 ships with 2,000 boxes each, 30 with 10,000, 1 with
    24,000 (docs/guide/simulator.md)."""
    boxes: int = Field(default=2_000, ge=BOXES_MIN, le=BOXES_MAX)
    """Number of boxes of the story: a fleet has as many as its preset says."""
    cadence: Literal["demo", "short"] = "demo"
    """Intervals of the story's reports: a fleet has its own."""
    reefers_min: Literal[60, 15] = 60
    """Interval of the reports of a fleet's reefers, minutes."""
    listening: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    """The share of boxes whose trackers do as the ship's node asks (docs/reference/storm-mode.md). Their reports depend on when it asks."""
    begins_at_ms: int = BEGINS_AT_MS
    speed: float = Field(default=SPEED_DEFAULT, gt=0, le=SPEED_MAX)
    """Fleet time per wall time at the start of a fresh story; a plain start keeps the speed last set."""
    clock_host: Host = "127.0.0.1"
    clock_port: int = Field(default=8790, ge=0, lt=65536)
    control_token: SharedToken | None = None
    """Token of clients that may pause, speed up and jump. None: nobody may."""

    @between
    def _knows_each_intake_once(self) -> Iterator[SettingsProblem]:
        for number, at in repeated(self.intakes, "at"):
            yield SettingsProblem(("intakes", number, "at"), f"there is an intake at {at!r} already", "leave one table of each intake")

    @between
    def _has_an_intake_everywhere(self) -> Iterator[SettingsProblem]:
        there = [one.at for one in self.intakes if one.is_sound("at")]
        if "*" in there or not self.is_sound("preset"):
            return
        missing = [at for at in self.places.names if at not in there]
        if len(missing) > len(self.intakes) - len(there):  # else what is wrong may be what is missing
            yield SettingsProblem(("intakes",), f"there is none at {', '.join(missing)}", "write an [[intakes]] for each")

    def story(self) -> str:
        """Return a description of what defines the story: its progress means something to this very story alone."""
        begins = datetime.fromtimestamp(self.begins_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        listening = f", {self.listening:g} listening" if self.listening else ""
        often = f", reefers every {self.reefers_min} min" if self.reefers_min != 60 else ""
        fleet = f"{self.boxes} boxes, {self.cadence}" if self.preset == "story" else f"the {self.preset} fleet{often}"
        return f"seed {self.seed}, {fleet}, from {begins}{listening}"

    @property
    def places(self) -> HearingPlaces:
        """Places that receive the boxes."""
        return STORY if self.preset == "story" else PRESETS[self.preset].places

    def world(self) -> World:
        """Return what is simulated. Raises Misuse when a ship is too small for its boxes."""
        if self.preset == "story":
            return build_world(self.seed, self.boxes, self.begins_at_ms)
        return build_fleet(self.seed, PRESETS[self.preset], self.begins_at_ms)

    def reporting(self) -> Cadence:
        """Return how often everything in it reports."""
        if self.preset == "story":
            return CADENCES[self.cadence]
        return CADENCES[PRESETS[self.preset].cadence].with_reefers_every(self.reefers_min * MINUTE_MS)

    def doors(self) -> dict[str, IntakeDoor]:
        """Return the intake of each place, `at` that place."""
        given = {one.at: one for one in self.intakes}
        return {name: given.get(name) or given["*"].model_copy(update={"at": name}) for name in self.places.names}

    @property
    def progress(self) -> Path:
        """The file that says how far the story has come."""
        return self.data / "progress.json"


class ReplaySettings(WorkSettings):
    """A replay of recorded readings through one intake.

    * `speed`: fleet time per wall time; 0: as fast as acknowledgements allow.
    * `door`, `token`: URL of a node (`http://host:port`) and the token of a credential there, for metrics and failures. Without a door
      they are not sent.
    """

    intake: IntakeDoor
    speed: float = Field(default=0.0, ge=0)
    rows_max: int | None = Field(default=None, gt=0)
