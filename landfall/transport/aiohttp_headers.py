"""The security headers of the answers of aiohttp's doors."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from landfall.system.http_headers import DATA_HEADERS


def protect_answers(app: web.Application) -> None:
    """Add DATA_HEADERS to every answer of `app` from now on, except where it sets a header itself. An answer that opens a web socket has
    none: no page comes of it, and its bytes are paid for over a satellite.
    """
    app.on_response_prepare.append(_protect)


async def _protect(_: web.Request, answer: web.StreamResponse) -> None:
    if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
        return
    for name, value in DATA_HEADERS.items():
        answer.headers.setdefault(name, value)
