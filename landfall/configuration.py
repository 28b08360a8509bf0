"""Settings from a TOML file and the environment: the only place that reads either, reporting every problem at once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from streams.errors import Misuse

PREFIX = "LANDFALL_"
Settings = TypeVar("Settings", bound=BaseModel)


def load(kind: type[Settings], path: Path | None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of one process: the TOML file at `path` (if any), then `LANDFALL_<KEY>` and `LANDFALL_<TABLE>__<KEY>` over it.

    A variable's value is read as TOML when it reads as such (`8080`, `true`, `["a"]`), else as text. Only variables that name a setting's
    first part count. Raises Misuse with one line for every problem there is: what is wrong, where, and what was given.
    """
    values = _from_toml(path) if path else {}
    for name, text in sorted((os.environ if environment is None else environment).items()):
        if name.startswith(PREFIX):
            keys = name.removeprefix(PREFIX).lower().split("__")
            if keys[0] in kind.model_fields:
                _put(values, keys, _toml_value(text), name)
    try:
        return kind.model_validate(values)
    except ValidationError as problems:
        raise Misuse(_told(problems, path), hint="mend these settings and start again; docs/settings.md lists them all") from None


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise Misuse(f"the settings file {path} can not be read: {problem.strerror}", hint="give the right path with --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise Misuse(f"the settings file {path} is not TOML: {problem}", hint="mend that line") from None


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(values: dict[str, Any], keys: list[str], value: Any, name: str) -> None:
    for key in keys[:-1]:
        inner = values.setdefault(key, {})
        if not isinstance(inner, dict):
            raise Misuse(f"{name} asks for a table where the settings have a plain value", hint="unset it, or name the setting itself")
        values = inner
    values[keys[-1]] = value


def _told(problems: ValidationError, path: Path | None) -> str:
    lines = [f"{problems.error_count()} problem(s) in the settings" + (f" of {path}" if path else "")]
    for problem in problems.errors(include_url=False):
        where = ".".join(str(part) for part in problem["loc"]) or "settings"
        given = "" if problem["type"] == "missing" or _secret(where) else f"; given: {problem['input']!r}"
        lines.append(f"  {where}: {problem['msg']}{given}")
    return "\n".join(lines)


def _secret(where: str) -> bool:
    return any(word in where for word in ("password", "token", "secret", "key"))
