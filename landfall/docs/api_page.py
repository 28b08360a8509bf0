"""`docs/reference/api.md`: every endpoint of headquarters' API, the rights of each role, the error codes, and example answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hq.api.access import Right, Viewer
from hq.api.accounts import ROLES
from hq.api.app import describe_api
from hq.api.codes import MEANINGS
from hq.api.examples import EXAMPLES
from landfall.docs.markdown_tables import GENERATED, table

Fields = Mapping[str, Any]
FRAME = ("clock", "as_of_at_ms")
"""Fields of every answer. The tables leave them out."""
_HEAD = f"""# Headquarters' API

The API process serves `/api`. Outside of it are `GET /healthz`, `GET /openapi.json`, and `GET /docs`: this reference as a page.
[api-fields.md](api-fields.md) describes conventions, access and fields.
{GENERATED}

In the tables, a parameter with `=` has that default. A field with `?` may be left out.
"""


def page() -> str:
    """Return the whole page in Markdown."""
    schema = describe_api()
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for path, methods in schema["paths"].items():
        for method, endpoint in methods.items():
            row = (_request(method, path, endpoint, schema), endpoint["description"], _answer(method, path, endpoint, schema))
            sections.setdefault(endpoint["tags"][0], []).append(row)
    parts = [f"## {section}\n\n{table(('request', 'meaning', 'answer'), rows)}" for section, rows in sections.items()]
    return "\n".join([_HEAD, *parts, _rights(), _codes(), _examples()])


def _request(method: str, path: str, endpoint: Fields, schema: Fields) -> str:
    parts = [f"`{method.upper()} {path}`"]
    if parameters := [_parameter(one) for one in endpoint.get("parameters", ()) if one["in"] == "query" or "enum" in one["schema"]]:
        parts.append(f"parameters: {', '.join(parameters)}")
    if body := endpoint.get("requestBody"):
        parts.append(f"body: {', '.join(_fields(body, schema))}")
    return "; ".join(parts)


def _parameter(one: Fields) -> str:
    form = one["schema"]
    values = form.get("enum") or next((part["items"]["enum"] for part in form.get("anyOf", ()) if "items" in part), None)
    name = one["name"] + (f"={form['default']}" if form.get("default") not in (None, "", False) else "")
    return f"`{name}`" + (f" ({', '.join(values)})" if values else "")


def _answer(method: str, path: str, endpoint: Fields, schema: Fields) -> str:
    """Return the fields of the example answer, else of the described one; nothing for files and for answers that only have the frame."""
    example = EXAMPLES.get((method, path))
    names = [f"`{name}`" for name in example] if example else _fields(endpoint["responses"]["200"], schema)
    return ", ".join(name for name in names if name.strip("`") not in FRAME)


def _fields(part: Fields, schema: Fields) -> list[str]:
    forms = (content["schema"] for content in part.get("content", {}).values())
    return [name for form in forms if "$ref" in form for name in _names(schema["components"]["schemas"][form["$ref"].rpartition("/")[2]])]


def _names(model: Fields) -> Iterator[str]:
    required = model.get("required", ())
    for name, form in model["properties"].items():
        values = form.get("enum")
        yield f"`{name}`{'' if name in required else '?'}" + (f" ({', '.join(values)})" if values else "")


def _rights() -> str:
    rows = ((right.value, *("yes" if Viewer("", role, "").may(right) else "" for role in ROLES)) for right in Right)
    head = "## Rights\n\nEvery role may read the endpoints that name no role, within its own data.\n\n"
    return head + table(("right", *ROLES), rows)


def _codes() -> str:
    head = (
        "## Error codes\n\nErrors of the database have a code that begins with `database_`. While the log can not be written or read,"
        " 503 has the code of what failed,"
        " such as `disk_refused`, `kafka_refused`, `node_unreachable` or `unreadable`.\n\n"
    )
    return head + table(("code", "status", "meaning"), ((f"`{code}`", *meaning) for code, meaning in MEANINGS.items()))


def _examples() -> str:
    """Return the example answers without the frame, one line for each field."""
    parts = ["## Example answers\n"]
    for (method, path), example in EXAMPLES.items():
        fields = [f" {json.dumps({name: value}, ensure_ascii=False)[1:-1]}" for name, value in example.items() if name not in FRAME]
        if fields:
            parts.append(f"`{method.upper()} {path}`\n\n```json\n{{\n" + ",\n".join(fields) + "\n}\n```\n")
    return "\n".join(parts)
