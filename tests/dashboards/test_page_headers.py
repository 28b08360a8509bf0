"""Goal: no other site frames the pages, no cache keeps what they show, and no redirect of theirs leads elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dashboards.pages_server import PAGE_HEADERS
from landfall.system.http_headers import CACHING, NO_STORE
from landfall.transport.tls import trusting
from tests.intake.test_endpoint import self_signed
from tests.support.page_stage import pages_at
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Asks pages whose API is away."""
    folder = tmp_path_factory.mktemp("headers")
    with pages_at(folder, f"http://127.0.0.1:{free_port()}") as url, httpx.Client(base_url=url, trust_env=False) as one:
        yield one


@pytest.mark.parametrize("path", ["/", "/containers", "/healthz", "/_stcore/health", "/_stcore/host-config", "/media/none.csv"])
def test_pages_and_data_have_the_security_headers(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert PAGE_HEADERS.items() <= {name: answer.headers.get(name) for name in PAGE_HEADERS}.items()


def test_files_that_are_everybodys_may_be_kept(client: httpx.Client) -> None:
    page = client.get("/").text
    script = page.partition('src="./static/js/')[2].partition('"')[0]
    for path in (f"/static/js/{script}", "/app/static/land.geojson"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["X-Content-Type-Options"]) == (200, "nosniff"), path
    assert NO_STORE not in client.get(f"/static/js/{script}").headers[CACHING]


def test_with_a_certificate_the_pages_speak_tls_alone(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    files = {"tls_certificate": str(certificate), "tls_key": str(key)}
    with pages_at(tmp_path, f"http://127.0.0.1:{free_port()}", **files) as url:
        assert httpx.get(f"{url}/healthz", verify=trusting(certificate), trust_env=False).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url.replace('https', 'http')}/healthz", trust_env=False)


@pytest.mark.parametrize("path", ["/healthz/", "/containers/", "//evil.example/", "/_stcore/health/"])
def test_a_redirect_does_not_lead_to_the_host_that_the_request_names(client: httpx.Client, path: str) -> None:
    answer = client.get(httpx.URL(str(client.base_url).rstrip("/") + path), headers={"Host": "evil.example"})
    location = answer.headers.get("location", "/")
    assert (location.startswith("/"), location.startswith("//"), "http" in location) == (True, False, False), location
