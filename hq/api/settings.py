"""The settings of the API, read at its start."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field, HttpUrl

from hq.serving.address import SERVING_URL_DEFAULT, DatabaseUrl
from landfall.runtime.service import ReportSettings
from landfall.system.settings_table import (
    DoorUrl,
    GivenPath,
    Host,
    SettingsProblem,
    SharedToken,
    Token,
    TrustedProxies,
    WithCertificate,
    between,
)


class ApiSettings(ReportSettings, WithCertificate):
    """Settings of `landfall api`.

    * `database_url`: the projector's database; by default the SQLite file `serving.db` in the working folder.
    * `accounts`: SQLite file of the accounts.
    * `log`: headquarters' log, the folder `log` of its node.
    * `door`, `token`: URL of headquarters' node (`http://host:port`) and the token of a credential there, for registry and
      acknowledgements.
    * `clock`: "wall", or the URL of a clock that serves the fleet's time as JSON.
    * `control`, `control_token`: URL and token of the simulator, to move the clock; without it the clock can not be moved.
    * `pages_token`: a request with it may name the address that it comes from. It is the pages' `api_token`.
    * `tls_certificate`, `tls_key`: PEM files; with them the API speaks TLS only.
    * `trusted_proxies`: addresses or networks of proxies in front of the API; `X-Forwarded-For` is used from these only.
    * `session_idle_s`: a session ends after this time without a request. No step of the clock changes it.
    * `track_points_max`: maximum points of a ship's track on the map.
    """

    database_url: DatabaseUrl = SERVING_URL_DEFAULT
    accounts: GivenPath
    log: GivenPath
    door: DoorUrl
    token: Token
    session_idle_s: int = Field(8 * 3600, ge=60)
    host: Host = "127.0.0.1"
    port: int = Field(8780, ge=0, le=65_535)
    control: HttpUrl | None = None
    control_token: SharedToken | None = None
    trusted_proxies: TrustedProxies = ()
    pages_token: SharedToken | None = None
    track_points_max: int = Field(120, ge=0, le=5_000)

    @between
    def _may_move_the_clock(self) -> Iterator[SettingsProblem]:
        if self.control is not None and self.control_token is None:
            hint = "write the simulator's control_token, or take out control"
            yield SettingsProblem(("control_token",), "control asks for one, and there is none", hint)
