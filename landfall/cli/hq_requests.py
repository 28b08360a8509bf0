"""Requests of `landfall` commands to headquarters' API: login, questions, and its refusals in words for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from landfall.cli.login_prompt import read_password
from streams.model.errors import Misuse, RetryLater

TIMEOUT_S = 30.0
Api = Annotated[str, typer.Option("--api", help="Address of headquarters' API: http://host:port.")]
Username = Annotated[str, typer.Option("--username", "-u", help="Name of your account at headquarters.")]


@contextmanager
def headquarters(api: str, username: str, password_file: Path | None) -> Iterator[httpx.Client]:
    """Yield a client of headquarters' API, logged in with a password from `read_password`. Raises RetryLater when the API is away, Misuse
    for its refusals.
    """
    password = read_password(password_file)
    with httpx.Client(base_url=api, timeout=TIMEOUT_S, trust_env=False) as client:
        token = answer_of(client, "POST", "/api/token", data={"username": username, "password": password})["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        try:
            yield client
        finally:
            with suppress(httpx.TransportError):
                client.post("/api/logout")


def answer_of(client: httpx.Client, method: str, path: str, **content: Any) -> dict[str, Any]:
    """Return the API's answer. Raises RetryLater when the API is away, Misuse with every problem that it names."""
    try:
        answer = client.request(method, path, **content)
        body: dict[str, Any] = answer.json()
    except (httpx.TransportError, ValueError) as problem:
        raise RetryLater(
            f"headquarters' API at {client.base_url} does not answer: {problem}",
            hint="start it, or give its address",
            code="api_unreachable",
        ) from None
    if answer.is_success:
        return body
    problems = [line for one in body.get("problems", []) for line in str(one.get("problem", one)).splitlines()]
    raise Misuse(
        "\n  ".join([str(body.get("error", answer.reason_phrase)), *problems]),
        hint=str(body.get("hint", "")),
        code=str(body.get("code", "")),
    )
