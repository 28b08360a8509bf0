"""Goal: the API and a process's health speak TLS by their settings, alone; a renewed certificate is shown without a restart; and only
proxies that are trusted say whose request they pass on."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from hq.api.logins import FAILURES_FREE
from hq.api.settings import ApiSettings
from landfall.runtime import health_server
from landfall.runtime.health_server import serve_health
from landfall.system.settings_table import WithCertificate
from landfall.transport import certificate_renewal
from landfall.transport.tls import showing, trusting
from streams.model.errors import Misuse
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, until
from tests.hq_serving.fleet import Fleet
from tests.intake.test_endpoint import self_signed
from tests.support.refusals import refusal

DEADLINE_S = 60.0


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[ApiSettings]:
    fleet = Fleet(tmp_path)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    yield settings_for(fleet.hq_dir, tmp_path)
    fleet.close()


def shown_at(port: int) -> str:
    return ssl.get_server_certificate(("localhost", port), timeout=DEADLINE_S)


def renew(folder: Path) -> str:
    """Another certificate and its key in the place of those in `folder`; the certificate."""
    (beside := folder / "beside").mkdir()
    for made in self_signed(beside):
        made.replace(folder / made.name)
    return (folder / "certificate.pem").read_text()


def test_the_api_speaks_tls_alone_and_shows_what_was_renewed(
    settings: ApiSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_renewal, "LOOK_EVERY_S", 0.05)
    certificate, key = self_signed(tmp_path)
    with api_of(settings.model_copy(update={"tls_certificate": certificate, "tls_key": key})) as client:
        port = client.base_url.port or 0
        assert client.get("/api/fleet", headers=log_in(client, "mira")).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{port}/healthz", trust_env=False, timeout=DEADLINE_S)
        before, other = shown_at(port), renew(tmp_path)
        until(lambda: shown_at(port) != before, "the new certificate")
        assert shown_at(port).split() == other.split()


def test_health_speaks_tls_alone_and_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who connects and says nothing holds up nobody else."""
    monkeypatch.setattr(health_server, "RENEWED_S", 0.0)
    certificate, key = self_signed(tmp_path)
    trusted = trusting(certificate)
    with serve_health("127.0.0.1", 0, lambda: (True, {}), WithCertificate(tls_certificate=certificate, tls_key=key)) as port:
        with socket.create_connection(("127.0.0.1", port)):
            answer = httpx.get(f"https://localhost:{port}/healthz", verify=trusted, trust_env=False, timeout=DEADLINE_S)
        assert answer.status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{port}/healthz", trust_env=False, timeout=DEADLINE_S)
        assert renew(tmp_path).split() == shown_at(port).split()


def test_a_key_that_others_may_read_and_files_that_do_not_load_are_refused(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    key.chmod(0o640)
    with refusal(Misuse, "file_open"):
        showing("the API", certificate, key)
    key.chmod(0o600)
    with refusal(Misuse, "certificate_not_loaded"):
        showing("the API", key, key)
    with refusal(Misuse, "certificate_not_loaded"):
        showing("the API", certificate, tmp_path / "missing.pem")


def test_only_a_trusted_proxy_names_the_sender(settings: ApiSettings) -> None:
    """Of several in a row the last that is no trusted proxy counts."""

    def guess(client: httpx.Client, sender: str) -> str:
        answer = client.post("/api/token", data={"username": "donald", "password": "guess"}, headers={"X-Forwarded-For": sender})
        return str(answer.json()["code"])

    for proxies, last in (((), "login_slowed"), (("10.9.0.0/16",), "login_slowed"), (("127.0.0.1", "10.9.0.0/16"), "login_wrong")):
        with api_of(settings.model_copy(update={"trusted_proxies": proxies})) as client:
            codes = [guess(client, f"203.0.113.{number}, 10.9.1.1") for number in range(FAILURES_FREE + 1)]
            assert codes == [*["login_wrong"] * FAILURES_FREE, last], proxies


def test_a_proxy_that_is_no_address_is_told(settings: ApiSettings) -> None:
    with refusal(ValidationError, "trusted_proxies", "proxy.example"):
        ApiSettings.model_validate({**settings.model_dump(), "token": "x", "trusted_proxies": ["proxy.example"]})
