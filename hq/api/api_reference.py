"""The API's reference at `/docs`: one page made here from the OpenAPI description, with no script and nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import HTMLResponse

from hq.api.examples import EXAMPLES

Fields = Mapping[str, Any]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; background: #071422; color: #e4eef5; }
a { color: #4cc2e0; } code, pre { font: 13px/1.45 ui-monospace, monospace; } summary { cursor: pointer; padding: .45rem .2rem; }
details { border-top: 1px solid #21405a; } pre { background: #10263a; padding: .8rem; overflow-x: auto; border-radius: .4rem; }
b { display: inline-block; min-width: 3.2rem; color: #f7c843; } span, td { color: #8fabc0; } table { border-spacing: 0 .15rem; }
td:first-child { padding-right: 1.4rem; color: #e4eef5; white-space: nowrap; }
"""


def add_reference(app: FastAPI) -> None:
    """Add `GET /docs` to `app`, which shows every endpoint with its parameters, body and an example answer."""

    def docs(_: Request) -> HTMLResponse:
        return HTMLResponse(page(app.openapi()), headers={"Content-Security-Policy": POLICY})

    app.add_route("/docs", docs, include_in_schema=False)


def add_examples(app: FastAPI) -> None:
    """Add the examples to `/openapi.json` of `app`."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            for (method, path), example in EXAMPLES.items():
                schema["paths"][path][method]["responses"]["200"]["content"]["application/json"]["example"] = example
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def page(schema: Fields) -> str:
    """Return the reference of an OpenAPI description, as HTML."""
    about = schema["info"]
    endpoints = "".join(
        _endpoint(method.upper(), path, operation) for path, methods in schema["paths"].items() for method, operation in methods.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(about["title"])}: the API</title><style>{_STYLE}</style>'
        f"<h1>{escape(about['title'])}: the API</h1><p>{_html(about['description'])} All endpoints but the clock and the token require "
        '<code>Authorization: Bearer …</code>. As a machine reads it: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{endpoints}</html>"
    )


def _endpoint(method: str, path: str, operation: Fields) -> str:
    body = "".join(_parts(operation))
    first, _, _ = str(operation.get("description", "")).partition("\n\n")
    head = f"<b>{method}</b> <code>{escape(path)}</code> <span>{_html(first)}</span>"
    return f"<details><summary>{head}</summary>{body}</details>"


def _parts(operation: Fields) -> Iterator[str]:
    _, _, more = str(operation.get("description", "")).partition("\n\n")
    if more.strip():
        yield f"<p>{_html(more)}</p>"
    if parameters := operation.get("parameters"):
        rows = (
            f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(_kind(parameter))}</td></tr>" for parameter in parameters
        )
        yield f"<table>{''.join(rows)}</table>"
    if wanted := _example(operation.get("requestBody", {})):
        yield f"<p>Body</p>{wanted}"
    if answer := _example(operation.get("responses", {}).get("200", {})):
        yield f"<p>Answer, for example</p>{answer}"


def _html(text: str) -> str:
    """Return a docstring's words, `so` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _kind(parameter: Fields) -> str:
    """Return where a parameter stands, and which values it takes."""
    form = parameter.get("schema", {})
    kinds = [one.get("type", "") for one in form.get("anyOf", [form])]
    limits = [f"{words} {form[name]}" for name, words in (("minimum", "from"), ("maximum", "to"), ("default", "else")) if form.get(name)]
    choice = [" | ".join(map(str, form["enum"]))] if "enum" in form else [kind for kind in kinds if kind and kind != "null"]
    return ", ".join([f"in the {parameter['in']}", *choice, *limits])


def _example(part: Fields) -> str:
    """Return the example that a body or answer gives of itself; for a form the names of its fields."""
    shown = ""
    for content in part.get("content", {}).values():
        example = content.get("example") or next(iter(content.get("schema", {}).get("examples", [])), None)
        if example is not None:
            shown = f"<pre>{escape(json.dumps(example, indent=1, ensure_ascii=False))}</pre>"
    return shown
