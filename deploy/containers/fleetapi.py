"""Headquarters' API as a visitor of this machine asks it, with Python alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

ADDRESS, PAGES = "http://localhost:8780", "http://localhost:8501"
PASSWORD = "landfall-demo"
"""Password of every person of the demo."""
ANSWER_S_MAX = 30.0


class FleetApi:
    """Session of one person. Every method raises OSError when the API does not answer, or with an error."""

    def __init__(self, username: str) -> None:
        form = urlencode({"username": username, "password": PASSWORD}).encode()
        self._token = _answer(Request(f"{ADDRESS}/api/token", form))["access_token"]

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer of `GET /api/<path>`."""
        return _answer(Request(f"{ADDRESS}/api/{path}", headers=self._headers()))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of `POST /api/<path>`."""
        headers = self._headers() | {"Content-Type": "application/json"}
        return _answer(Request(f"{ADDRESS}/api/{path}", json.dumps(body).encode(), headers))

    def items(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield every item of a list, page after page."""
        cursor = None
        while True:
            found = self.get(f"{path}?" + urlencode({"limit": 500} | ({"cursor": cursor} if cursor else {})))
            yield from found["items"]
            cursor = found["next"]
            if cursor is None:
                return

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}


def pages_answer() -> bool:
    """Return whether the pages are served."""
    with urlopen(PAGES, timeout=ANSWER_S_MAX) as answer:
        return bool(answer.status == 200)


def _answer(request: Request) -> dict[str, Any]:
    with urlopen(request, timeout=ANSWER_S_MAX) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
