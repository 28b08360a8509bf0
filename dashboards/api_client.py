"""The pages' way to headquarters' API: every question is asked with the viewer's own token, and every refusal has a sentence for people."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import SecretStr

from dashboards import texts
from hq.browser_address import browser_headers
from landfall.transport.tls import trusting
from streams.model.metrics import Metrics

Answer = dict[str, Any]
PAGE_ROWS, ROWS_MAX = 500, 10_000
"""Rows of a list that are asked for at once, and at most."""


class Trouble(Exception):
    """The API gave no answer that a page could show. `hint` says what the viewer can do."""

    def __init__(self, message: str, hint: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


class LoggedOut(Trouble):
    """The viewer's token no longer holds: log in again."""


class NotThere(Trouble):
    """There is no such thing among those the viewer may see."""


class ComingBack(Trouble):
    """The API, or its database, is away or being built; the same question may be answered in a moment."""


@dataclass(frozen=True, slots=True)
class PageViewer:
    """The account that is logged in, at a browser of the address `browser`. `token` is the only thing that gives rights; role and customer
    only choose which pages are shown."""

    token: str
    role: str
    name: str
    customer: str | None = None
    ship: str | None = None
    browser: str | None = None

    @property
    def is_customer(self) -> bool:
        """Whether the viewer gets the portal instead of the fleet."""
        return self.role == "customer"

    @property
    def sees_fleet(self) -> bool:
        """Whether the viewer sees every ship and customer, and the state of the processes."""
        return self.role in ("operations", "clerk")

    def moves(self, clock: Answer) -> bool:
        """Return whether the viewer may pause, speed up and jump: only the clock of a story can be moved. `clock`: of an answer."""
        return self.role == "operations" and bool(clock["movable"])

    @property
    def acknowledges(self) -> bool:
        """Whether the viewer may take note of alerts."""
        return self.role in ("operations", "crew")

    @property
    def reports_losses(self) -> bool:
        """Whether the viewer may report a loss in the company's name."""
        return self.role == "operations"


@dataclass(frozen=True, slots=True)
class ClockHeard:
    """The API's last answer on the fleet's clock (`{"now_at_ms", "speed"}`; None before the first), and its time by the wall, UTC ms.

    Before the first answer `wall_at_ms` is when this process began to ask.
    """

    clock: Answer | None
    wall_at_ms: int


class ApiClient:
    """Questions to the API, each on its own. Safe from any thread; keeps connections open, and of what was answered the clock alone."""

    def __init__(
        self,
        api_url: str,
        timeout_s: float,
        transport: httpx.BaseTransport | None = None,
        metrics: Metrics | None = None,
        token: SecretStr | None = None,
        authority: Path | None = None,
    ) -> None:
        """`token`: by which the browser's address may be named. `authority`: a PEM file of who signed the API's certificate; None: a
        public one did. `metrics` counts the answers by status (`api_2xx` …, `api_away`) and observes `api_call`.

        Raises Misuse when the file does not load.
        """
        self._metrics, self._token = metrics or Metrics("pages"), token
        verify = True if authority is None else trusting(authority)
        self._http = httpx.Client(
            base_url=api_url.rstrip("/") + "/api", timeout=timeout_s, transport=transport, trust_env=False, verify=verify
        )
        self.clock_heard = ClockHeard(None, wall_ms())

    def log_in(self, username: str, password: str, browser: str | None = None) -> PageViewer:
        """Return the viewer with this username and password, at a browser of this address. Raises LoggedOut when they are wrong, else as
        `get`."""
        headers = browser_headers(self._token, browser)
        answer = self._asked("POST", "/token", data={"username": username, "password": password}, headers=headers)
        return PageViewer(answer["access_token"], answer["role"], answer["name"], answer.get("customer"), answer.get("ship"), browser)

    def log_out(self, viewer: PageViewer) -> None:
        """End the viewer's session at the API. Raises as `get`."""
        self.post(viewer, "/logout")

    def clock(self) -> Answer:
        """Return the fleet's clock, `{"clock": {"now_at_ms", "speed"}}`, which needs no login. Raises ComingBack or Trouble."""
        return self._asked("GET", "/clock")

    def get(self, viewer: PageViewer, path: str, **parameters: Any) -> Answer:
        """Return the answer to one question. Raises LoggedOut, NotThere, ComingBack, or Trouble for any other refusal."""
        wanted = {name: value for name, value in parameters.items() if value is not None}
        return self._asked("GET", path, headers=self._headers(viewer), params=wanted)

    def post(self, viewer: PageViewer, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Return the answer to an act of the viewer. Raises as `get`."""
        return self._asked("POST", path, headers=self._headers(viewer), json=dict(body or {}))

    def file(self, viewer: PageViewer, path: str, **parameters: str) -> bytes:
        """Return a file for the viewer to keep; the API notes who took it. Raises as `get`."""
        answer = self._answer("GET", path, headers=self._headers(viewer), params=parameters)
        if not answer.is_success:
            _understood(answer)
        return answer.content

    def all_items(self, viewer: PageViewer, path: str, rows_max: int = ROWS_MAX, **parameters: Any) -> Answer:
        """Return the first page's answer with the `items` and `names` of all pages, at most `rows_max` items; `complete`: whether that was
        all."""
        answer = self.get(viewer, path, limit=min(PAGE_ROWS, rows_max), **parameters)
        items, names, cursor = list(answer["items"]), dict(answer.get("names", {})), answer.get("next")
        while cursor is not None and len(items) < rows_max:
            more = self.get(viewer, path, limit=min(PAGE_ROWS, rows_max - len(items)), cursor=cursor, **parameters)
            items, names, cursor = items + more["items"], names | more.get("names", {}), more.get("next")
        return {**answer, "items": items, "names": names, "complete": cursor is None}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _headers(self, viewer: PageViewer) -> dict[str, str]:
        return {"Authorization": f"Bearer {viewer.token}", **browser_headers(self._token, viewer.browser)}

    def _asked(self, method: str, path: str, **how: Any) -> Answer:
        answer = _understood(self._answer(method, path, **how))
        if "clock" in answer:
            self.clock_heard = ClockHeard(answer["clock"], wall_ms())
        return answer

    def _answer(self, method: str, path: str, **how: Any) -> httpx.Response:
        began_s, outcome = time.perf_counter(), "api_away"
        try:
            answer = self._http.request(method, path, **how)
            outcome = f"api_{answer.status_code // 100}xx"
        except httpx.TimeoutException as problem:
            raise ComingBack("Headquarters' API does not answer in time.", "The page asks again by itself.") from problem
        except httpx.TransportError as problem:
            raise ComingBack("Headquarters' API can not be reached.", "Check that it runs. The page asks again by itself.") from problem
        finally:
            self._metrics.count(outcome)
            self._metrics.observe("api_call", (time.perf_counter() - began_s) * 1000)
        return answer


def wall_ms() -> int:
    """Return the wall's time, UTC ms."""
    return time.time_ns() // 1_000_000


def address(*parts: str) -> str:
    """Return a path of the API of these parts, each written so that it stays one part."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _understood(answer: httpx.Response) -> Answer:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Trouble(
            f"What answers at {answer.url.host} is not headquarters' API.", "Correct api_url in the settings.", answer.status_code
        )
    if answer.is_success:
        return body
    message, hint = str(body.get("error") or f"The API answered {answer.status_code}."), str(body.get("hint") or "")
    match answer.status_code:
        case 401:
            raise LoggedOut(message, hint, 401)
        case 404:
            raise NotThere(message, hint, 404)
        case 503:
            raise ComingBack(message, _since(body) or hint, 503)
    raise Trouble(message, hint, answer.status_code)


def _since(body: Mapping[str, Any]) -> str:
    since = (body.get("rebuilding") or {}).get("since_wall_at_ms")
    return f"It is being rebuilt from the log since {texts.moment(since)}. This page comes back by itself." if since else ""
