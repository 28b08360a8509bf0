"""Goal: no other site frames what the API answers, no cache keeps it, and no redirect of it leads elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from hq.asgi_headers import local_path
from landfall.system.http_headers import CACHING, DATA_HEADERS, NO_STORE, POLICY
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import Fleet


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("answers")
    fleet = Fleet(folder)
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as one:
        yield one
    fleet.close()


def test_every_answer_has_the_security_headers(client: httpx.Client) -> None:
    """Data, refusals of the gate and of the application, health, and the description."""
    headers = log_in(client, "mira")
    for status, path in ((200, "/api/fleet"), (404, "/api/nothing"), (200, "/healthz"), (200, "/openapi.json"), (405, "/api/token")):
        answer = client.get(path, headers=headers)
        assert answer.status_code == status, path
        assert DATA_HEADERS.items() <= {name: answer.headers.get(name) for name in DATA_HEADERS}.items(), path
    refused = client.get("/api/fleet")
    assert (refused.status_code, refused.headers[CACHING]) == (401, NO_STORE)


def test_the_reference_is_a_page_in_nobodys_frame(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert "frame-ancestors 'none'" in page.headers[POLICY]
    assert "style-src" in page.headers[POLICY]
    assert page.headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("path", ["/api/clock/", "/healthz/", "/api/token/?next=1"])
def test_a_redirect_does_not_lead_to_the_host_that_the_request_names(client: httpx.Client, path: str) -> None:
    answer = client.get(path, headers={"Host": "evil.example"} | log_in(client, "mira"))
    assert (answer.status_code, answer.headers["location"]) == (307, path.replace("/?", "?").rstrip("/"))


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("http://evil.example/a?b=1", "/a?b=1"),
        ("/a/b?c", "/a/b?c"),
        ("//evil.example/a", "/a"),
        ("http://evil.example//evil.example/a", "/evil.example/a"),
        ("/\\evil.example", "/evil.example"),
        ("https://evil.example", "/"),
    ],
)
def test_a_location_is_a_path(location: str, path: str) -> None:
    assert local_path(location) == path
