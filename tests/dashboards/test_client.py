"""Every refusal of the API becomes a sentence and a next step, and a viewer's token goes with the viewer's questions alone."""

from __future__ import annotations

import httpx
import pytest
from pydantic import SecretStr

from dashboards import headline
from dashboards.api_client import ROWS_MAX, ApiClient, ComingBack, LoggedOut, NotThere, PageViewer, Trouble, address
from dashboards.pages_server import options
from dashboards.settings import DashboardSettings
from dashboards.views.tab_session import latest_now_ms
from hq.browser_address import BROWSER

STORY = {"movable": True}
MIRA = PageViewer("token-of-mira", "operations", "Mira")


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
        return httpx.Response(
            200, json={"items": [len(asked)], "names": {str(len(asked)): "x"}, "next": None if len(asked) == 3 else f"c{len(asked)}"}
        )

    whole = ApiClient("http://api", 1.0, httpx.MockTransport(handle)).all_items(MIRA, "/alerts")
    assert (whole["items"], whole["complete"], asked) == ([1, 2, 3], True, ["", "c1", "c2"])
    assert whole["names"] == {"1": "x", "2": "x", "3": "x"}
    endless = client(httpx.Response(200, json={"items": [1] * 500, "next": "again"})).all_items(MIRA, "/alerts")
    assert (len(endless["items"]), endless["complete"]) == (ROWS_MAX, False)


def test_a_part_of_an_address_stays_one_part() -> None:
    assert address("containers", "../status?x#y") == "/containers/..%2Fstatus%3Fx%23y"


def test_logging_in() -> None:
    told = {"access_token": "t", "role": "customer", "name": "Ducks", "customer": "duckworks", "ship": None}
    viewer = client(httpx.Response(200, json=told)).log_in("ducks", "secret")
    assert viewer == PageViewer("t", "customer", "Ducks", "duckworks")
    assert client(httpx.Response(200, json=told)).log_in("ducks", "secret", "203.0.113.7").browser == "203.0.113.7"
    assert viewer.is_customer
    assert (viewer.sees_fleet, viewer.moves(STORY), viewer.acknowledges) == (False, False, False)
    assert (MIRA.sees_fleet, MIRA.moves(STORY), MIRA.acknowledges) == (True, True, True)
    assert not MIRA.moves({"movable": False}), "nobody moves the world's own clock"


def test_nothing_is_asked_or_reported_outside() -> None:
    """Streamlit's options: no usage statistics, our own static files, the port that was asked for."""
    told = options(DashboardSettings(port=8502))
    assert told["client.disableDataExport"], "a file that no audit record names"
    assert told["secrets.files"] == [], "a file in some home that does not read would stop the pages"
    assert (told["browser.gatherUsageStats"], told["server.enableStaticServing"], told["server.port"]) == (False, True, 8502)


def test_a_file_is_fetched_and_the_browser_named() -> None:
    """With each question, and only by the token that the pages share with the API."""
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, content=b"%PDF-") if "file" in request.url.path else httpx.Response(403, json={"error": "No."})

    viewer = PageViewer("t", "operations", "Mira", browser="203.0.113.7")
    for token in (SecretStr("shared"), None):
        api = ApiClient("http://api", 1.0, httpx.MockTransport(handle), token=token)
        assert api.file(viewer, "/reports/i-1/file", **{"as": "pdf"}) == b"%PDF-"
        with pytest.raises(Trouble):
            api.file(viewer, "/reports")
        with pytest.raises(Trouble):
            api.post(viewer, "/logout")
    assert [one.headers.get(BROWSER) for one in asked] == ["203.0.113.7"] * 3 + [None] * 3
    assert dict(asked[0].url.params) == {"as": "pdf"}


def test_the_clock_is_remembered_and_told_with_since_when_it_is_not_known() -> None:
    """Asked without a login; every answer renews it, and a refusal does not take it away."""
    answers: list[httpx.Response | Exception] = [
        httpx.Response(200, json={"clock": {"now_at_ms": 1_777_593_600_000, "speed": 60.0}}),
        httpx.ConnectError("refused"),
    ]

    def handle(request: httpx.Request) -> httpx.Response:
        assert "Authorization" not in request.headers
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    api = ApiClient("http://api", 1.0, httpx.MockTransport(handle))
    begun = api.clock_heard
    tile = headline.unknown_clock_tile(begun, begun.wall_at_ms + 125_000)
    assert (tile.value, "2 min 5 s" in tile.note, "not known since" in tile.note) == ("Unknown", True, True)
    assert api.clock()["clock"]["speed"] == 60.0
    with pytest.raises(ComingBack):
        api.clock()
    assert api.clock_heard.clock == {"now_at_ms": 1_777_593_600_000, "speed": 60.0}
    assert "1 May 2026, 00:00 UTC" in headline.unknown_clock_tile(api.clock_heard, api.clock_heard.wall_at_ms).note


def test_the_newest_of_several_answers_says_what_time_it_is() -> None:
    """What one tells of may have happened after another was given, and is not "ahead of the clock" for that."""
    answers = [{"clock": {"now_at_ms": at_ms}} for at_ms in (5, 9, 7)]
    assert latest_now_ms(*answers) == 9
