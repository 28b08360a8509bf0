"""The settings of the pages, read at their start."""

from __future__ import annotations

from pydantic import Field, HttpUrl

from landfall.runtime.service import ReportSettings
from landfall.system.settings_table import GivenPath, Host, SharedToken, TrustedProxies, WithCertificate


class DashboardSettings(ReportSettings, WithCertificate):
    """Settings of `landfall dashboards`.

    * `api_url`: headquarters' API, asked with each viewer's own token.
    * `api_token`: the API's `pages_token`. With it the pages name the browser's address; without it all logins count as one address.
    * `api_ca`: PEM file of the authority of the API's certificate, if it is not a public one.
    * `tls_certificate`, `tls_key`: PEM files, read at the start; with them the pages speak TLS only.
    * `trusted_proxies`: addresses or networks of proxies in front of the pages; `X-Forwarded-For` is used from these only.
    * `refresh_s`: time between two updates of a live page, seconds of the wall clock.
    * `api_timeout_s`: maximum time to wait for an answer.
    * `door`, `token`: URL of headquarters' node and the token of a credential there, for metrics and failures. Without a door they are
      not sent.
    * `clock`: "wall", or the URL of the fleet's clock.
    """

    api_url: HttpUrl = HttpUrl("http://127.0.0.1:8780")
    api_token: SharedToken | None = None
    api_ca: GivenPath | None = None
    trusted_proxies: TrustedProxies = ()
    host: Host = "127.0.0.1"
    port: int = Field(default=8501, ge=1, le=65_535)
    refresh_s: float = Field(default=2.0, ge=0.5, le=60.0)
    api_timeout_s: float = Field(default=10.0, gt=0.0, le=60.0)
