"""Every refusal of the API becomes a sentence and a next step, and a viewer's token goes with the viewer's questions alone."""

from __future__ import annotations

import httpx
import pytest

from dashboards.client import PAGES_MAX, ApiClient, ComingBack, LoggedOut, NotThere, Trouble, Viewer, address
from dashboards.run import command_line
from dashboards.settings import DashboardSettings

MIRA = Viewer("token-of-mira", "operations", "Mira")


def client(answer: httpx.Response | Exception) -> ApiClient:
    def handle(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ApiClient("http://api", 1.0, httpx.MockTransport(handle))


def test_the_token_goes_along() -> None:
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"items": []})

    api = ApiClient("http://api/", 1.0, httpx.MockTransport(handle))
    api.get(MIRA, "/containers", q="BB&limit=9", booking=None)
    assert asked[0].headers["Authorization"] == "Bearer token-of-mira"
    assert asked[0].url.path == "/api/containers"
    assert dict(asked[0].url.params) == {"q": "BB&limit=9"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx.Response(401, json={"error": "You are not logged in.", "hint": "Get a token."}), LoggedOut),
        (httpx.Response(403, json={"error": "Your account may not see it.", "hint": "Log in."}), Trouble),
        (httpx.Response(404, json={"error": "There is no such container.", "hint": "Check."}), NotThere),
        (httpx.Response(503, json={"error": "Being built.", "rebuilding": {"since_wall_at_ms": 1_777_593_600_000}}), ComingBack),
        (httpx.Response(200, text="<html>another server</html>"), Trouble),
        (httpx.Response(200, json=[1]), Trouble),
        (httpx.Response(500, json={}), Trouble),
        (httpx.ConnectError("refused"), ComingBack),
        (httpx.ReadTimeout("slow"), ComingBack),
    ],
)
def test_refusals_have_words(answer: httpx.Response | Exception, kind: type[Trouble]) -> None:
    """Never a traceback, never silence."""
    with pytest.raises(kind) as caught:
        client(answer).get(MIRA, "/map")
    assert type(caught.value) is kind
    assert str(caught.value).endswith(".")


def test_a_store_being_built_says_since_when() -> None:
    answer = httpx.Response(
        503, json={"error": "Being built.", "hint": "Ask again.", "rebuilding": {"since_wall_at_ms": 1_777_593_600_000}}
    )
    with pytest.raises(ComingBack) as caught:
        client(answer).get(MIRA, "/map")
    assert "since 1 May 2026, 00:00 UTC" in caught.value.hint


def test_all_pages_are_fetched_up_to_a_limit() -> None:
    """Cursor by cursor; a list without end is cut, and says so."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("cursor", ""))
        return httpx.Response(200, json={"items": [len(asked)], "next": None if len(asked) == 3 else f"c{len(asked)}"})

    whole = ApiClient("http://api", 1.0, httpx.MockTransport(handle)).all_items(MIRA, "/alerts")
    assert (whole["items"], whole["complete"], asked) == ([1, 2, 3], True, ["", "c1", "c2"])
    endless = client(httpx.Response(200, json={"items": [1], "next": "again"})).all_items(MIRA, "/alerts")
    assert (len(endless["items"]), endless["complete"]) == (PAGES_MAX, False)


def test_a_part_of_an_address_stays_one_part() -> None:
    assert address("containers", "../status?x#y") == "/containers/..%2Fstatus%3Fx%23y"


def test_logging_in() -> None:
    told = {"access_token": "t", "role": "customer", "name": "Ducks", "customer": "duckworks", "ship": None}
    viewer = client(httpx.Response(200, json=told)).log_in("ducks", "secret")
    assert viewer == Viewer("t", "customer", "Ducks", "duckworks")
    assert viewer.is_customer
    assert (viewer.sees_fleet, viewer.moves_clock, viewer.acknowledges) == (False, False, False)
    assert (MIRA.sees_fleet, MIRA.moves_clock, MIRA.acknowledges) == (True, True, True)


def test_nothing_is_asked_or_reported_outside() -> None:
    """Streamlit's command line: no usage statistics, our own static files, told everything by its arguments."""
    command = command_line(DashboardSettings(port=8502))
    assert "--browser.gatherUsageStats=false" in command
    assert "--server.enableStaticServing=true" in command
    assert "--server.port=8502" in command
    assert DashboardSettings.model_validate_json(command[-1]) == DashboardSettings(port=8502)
    assert command[-2] == "--"
