"""The answers of aiohttp's doors: their security headers."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from landfall.system.http_headers import DATA_HEADERS


def protect_answers(app: web.Application) -> None:
    """From now on every answer of `app` has DATA_HEADERS, except where it sets a header itself. None has them that opens a web socket: no
    page comes of it, and its bytes are paid for over a satellite."""
    app.on_response_prepare.append(_protect)


async def _protect(_: web.Request, answer: web.StreamResponse) -> None:
    if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
        return
    for name, value in DATA_HEADERS.items():
        answer.headers.setdefault(name, value)
