"""What the API is told at its start."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field, HttpUrl

from hq.serving.address import SERVING_URL_DEFAULT, DatabaseUrl
from landfall.runtime.service import TellingSettings
from landfall.system.settings_table import DoorUrl, GivenPath, Host, Problem, SharedToken, Token, TrustedProxies, WithCertificate, between


class ApiSettings(TellingSettings, WithCertificate):
    """Settings of `landfall api`.

    `database_url`: the serving database, which the projector makes; as with the projector, by default the SQLite file `serving.db` in the
    folder it is started in. `accounts`: the accounts' own SQLite file, never dropped with it.
    `log`, `door`, `token`: headquarters' log (the folder `log` of its node's), its node's URL (`http://host:port`) and the token of a
    credential there, through which the registry and acknowledgements are written. `clock`: "wall", or the URL of a clock that serves the
    fleet's time as JSON; `control`: the URL at which it is moved (none: it can not be), with `control_token`, the simulator's.
    `pages_token`: who shows it in a request may say from which address that comes: the pages' own `api_token`.
    `tls_certificate`, `tls_key`: PEM files; with them it speaks TLS alone. `trusted_proxies`: addresses or networks of proxies before it,
    whose `X-Forwarded-For` is believed.
    `session_idle_s`: a login that is not used for so long ends (wall's clock). `track_points_max`: of a ship's tail on the map.
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
    def _may_move_the_clock(self) -> Iterator[Problem]:
        if self.control is not None and self.control_token is None:
            mend = "write the simulator's control_token, or take out control"
            yield Problem(("control_token",), "control asks for one, and there is none", mend)
