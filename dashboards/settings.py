"""What the pages are told at their start."""

from __future__ import annotations

from pydantic import Field, HttpUrl

from landfall.runtime.service import TellingSettings
from landfall.system.settings_table import GivenPath, Host, SharedToken, TrustedProxies, WithCertificate


class DashboardSettings(TellingSettings, WithCertificate):
    """Settings of `landfall dashboards`.

    `api_url`: headquarters' API, asked with each viewer's own token. `api_token`: the API's `pages_token`, by which the pages tell it from
    which browser's address a request comes; without it all logins come from theirs, and are slowed together. `api_ca`: a PEM file of who
    signed the API's certificate, where no public authority did. `tls_certificate`, `tls_key`: PEM files; with them the pages are at
    https:// alone, and show what was in these files when they started. `trusted_proxies`: addresses or networks of proxies before them,
    whose `X-Forwarded-For` is believed. `refresh_s`: how often a live page asks again, in seconds of the wall's clock. `api_timeout_s`:
    how long an answer is waited for. `door`, headquarters' node, and `token`, that of a credential there, are for metrics and failures;
    without a door they are not sent. `clock`: "wall", or the URL of the fleet's clock.
    """

    api_url: HttpUrl = HttpUrl("http://127.0.0.1:8780")
    api_token: SharedToken | None = None
    api_ca: GivenPath | None = None
    trusted_proxies: TrustedProxies = ()
    host: Host = "127.0.0.1"
    port: int = Field(default=8501, ge=1, le=65_535)
    refresh_s: float = Field(default=2.0, ge=0.5, le=60.0)
    api_timeout_s: float = Field(default=10.0, gt=0.0, le=60.0)
