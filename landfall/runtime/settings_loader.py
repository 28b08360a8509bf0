"""The loader of settings from a TOML file and the environment: the only place that reads either. It reports every problem at once."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

from pydantic import SecretStr, ValidationError

from landfall.runtime.partial_settings import Draft
from landfall.runtime.settings_types import (
    BETWEEN,
    PREFIX,
    annotation_at,
    as_written,
    examples_of,
    in_words,
    is_secret,
    kinds_in,
    models_in,
    secrets_in,
    variables,
)
from landfall.system.private_files import check_private
from landfall.system.settings_table import MISFIT, UNFIT, Place, SettingsTable
from landfall.system.text_files import ENCODING
from streams.commit_points import CRASH_VARIABLE
from streams.model.errors import Misuse

SYNTAX_PROBLEMS_MAX = 20
_MAKES_SECRET = "python3 -c 'import secrets; print(secrets.token_hex(32))'"
NEAR_MIN = 0.7
"""Minimum similarity of two names when one may be meant by the other, 0 to 1."""
_OWN_LINE = re.compile(r"\s*[\w.\"'-]+\s*=")
"""Pattern of a line with a setting of its own. A line that does not match may be part of a list, or the head of what follows."""
Settings = TypeVar("Settings", bound=SettingsTable)
Kinds = Callable[[], Iterable[type[SettingsTable]]]


def load(kind: type[Settings], path: Path | None, environment: Mapping[str, str] | None = None, others: Kinds = tuple) -> Settings:
    """Return the settings of one process: the TOML file at `path` (if any), then `LANDFALL_<KEY>` and `LANDFALL_<TABLE>__<KEY>` over it.

    A variable's value is read as TOML when it reads as such (`8080`, `true`, `["a"]`), else as text. A variable of `others`, the settings
    of all processes, is left to them. Raises Misuse with a line for every problem: where, what, and what to do.
    """
    reading = _Reading(kind, path)
    reading.read_file()
    reading.read_environment(os.environ if environment is None else environment, others)
    settings = reading.checked()
    if settings is None or reading.problems:
        many = f"{len(reading.problems)} problem{'s' if len(reading.problems) > 1 else ''} in the settings"
        lines = "\n".join(f"  {problem}" for problem in reading.problems)
        raise Misuse(f"{many}:\n{lines}\n", hint="docs/reference/settings.md lists every setting", code="settings_invalid")
    return settings


@dataclass(slots=True)
class _Reading(Generic[Settings]):
    """Settings in the making: their values, the variable that each comes from, and the problems so far, in sentences."""

    kind: type[Settings]
    path: Path | None
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Place, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Lines of the file that do not read; their settings are not missing."""

    def read_file(self) -> None:
        """Read the file's values. Each line that is no TOML is a problem, and the others are read all the same."""
        if self.path is None:
            return
        try:
            lines = self.path.read_text(ENCODING).splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else "it is not TOML, which is UTF-8 text"
            self.problems.append(f"{self.path} can not be read: {why}; give the right path with --config")
            self.unread.append("[")
            return
        for _ in range(SYNTAX_PROBLEMS_MAX):
            try:
                self.values = tomllib.loads("\n".join(lines))
            except tomllib.TOMLDecodeError as problem:
                place = re.search(r"\(at line (\d+)", str(problem))
                number = min(int(place[1]) if place else len(lines), len(lines))
                line = lines[number - 1]
                what = str(problem).partition(" (at ")[0]
                self.problems.append(f"{self.path}, line {number} ({line.partition('=')[0].strip()!r}) is not TOML: {what}; fix that line")
                self.unread.append(line)
                lines[number - 1] = ""
            else:
                return

    def read_environment(self, environment: Mapping[str, str], others: Kinds) -> None:
        """Put the variables' values over the file's; a variable that no process knows is a problem."""
        for name, text in sorted(environment.items()):
            if not name.startswith(PREFIX) or name == CRASH_VARIABLE:
                continue
            keys = tuple(name.removeprefix(PREFIX).lower().split(BETWEEN))
            if keys[0] in self.kind.model_fields:
                self._put(keys, _toml_value(text), name)
            elif not any(keys[0] in other.model_fields for other in others()):
                near = _near(name, variables(self.kind)) or _near(name, (one for other in others() for one in variables(other)))
                self.problems.append(f"{name}: there is no such setting; {_meant(near)}")

    def checked(self) -> Settings | None:
        """Return the settings; None when they are not valid, with a problem for each reason."""
        try:
            settings = self.kind.model_validate(self.values)
        except ValidationError as problems:
            of_one = [problem for problem in problems.errors(include_url=False) if problem["type"] != MISFIT]
            self.problems += [sentence for problem in of_one for sentence in self._sentences(problem)]
            self.problems += self._between(of_one)
            return None
        self.problems += self._open_to_others(settings)
        return settings

    def _open_to_others(self, settings: SettingsTable) -> Iterator[str]:
        """Yield the problem of a file with a secret that others may read: like keys, it is for its owner alone."""
        of_file = (place for place in secrets_in(settings) if self._variable_of(place) is None and _is_in(self.values, place))
        if self.path is None or (place := next(of_file, None)) is None:
            return
        try:
            check_private(self.path)
        except Misuse as problem:
            yield f"{self._where(place)} is a secret, and {problem}"

    def _between(self, of_one: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield what does not fit together, as far as the problems with single settings (`of_one`) and with lines allow it."""
        if all(_OWN_LINE.match(line) for line in self.unread):
            unknown = [problem["loc"] for problem in of_one if problem["type"] == "extra_forbidden"]
            meant = ((*as_written(self.kind, place[:-1]), _near_setting(self.kind, place) or "") for place in unknown)
            wrong = (as_written(self.kind, problem["loc"]) for problem in of_one)
            draft = Draft(frozenset(wrong), frozenset(meant), all_read=not self.unread)
            for problem in draft.problems(self.kind, self.values):
                yield f"{self._where(problem.where)}: {problem.what}; {problem.hint}"

    def _put(self, keys: tuple[str, ...], value: Any, name: str) -> None:
        inner = self.values
        for depth, key in enumerate(keys[:-1], 1):
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                plain = self.origins.get(keys[:depth]) or f"{self.path}: {'.'.join(keys[:depth])}"
                self.problems.append(f"{name} asks for a table, but {plain} gives a plain value; unset one of them")
                return
        inner[keys[-1]] = value
        self.origins[keys] = name

    def _sentences(self, problem: Mapping[str, Any]) -> Iterator[str]:
        """Yield the problem in a sentence; nothing when a line that does not read may be the reason for it."""
        place, type_ = tuple(problem["loc"]), problem["type"]
        if (type_ == "missing" and self.unread) or (
            type_ == "extra_forbidden" and any(line.lstrip().startswith("[") for line in self.unread)
        ):
            return
        value, written = problem["input"], _written(self.kind, problem)
        shown = isinstance(value, str | int | float | bool) and not is_secret(self.kind, place)
        yield f"{self._where(written)}{_sentence(self.kind, place, problem, f' is {value!r}' if shown else '', written in self.origins)}"

    def _variable_of(self, place: Place) -> str | None:
        """Return the variable that gives the value there, or a table around it; None where the file gives it."""
        return next((self.origins[place[:depth]] for depth in range(len(place), 0, -1) if place[:depth] in self.origins), None)

    def _where(self, place: Place) -> str:
        variable = self._variable_of(place)
        written = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
        return variable or ": ".join(part for part in (str(self.path) if self.path else "", written) if part) or "the settings"


def _is_in(values: Any, place: Place) -> bool:
    for key in place:
        try:
            values = values[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _needed(wanted: Any) -> str:
    """Return what a table that is one of a kind must have."""
    kinds = models_in(wanted)
    needed = [name for name, field in kinds[0].model_fields.items() if field.is_required()] if len(kinds) == 1 else []
    return f" with {', '.join(needed)}" if needed else ""


def _sentence(kind: type[SettingsTable], place: Place, problem: Mapping[str, Any], given: str, by_variable: bool) -> str:
    """Return what is wrong at `place` and what to do about it; `given`: the value there, as far as it may be shown."""
    wanted, written = annotation_at(kind, place), _written(kind, problem)
    match problem["type"]:
        case "missing":
            table = bool(models_in(wanted))
            write = (
                f"its table [{'.'.join(map(str, written))}]{_needed(wanted)}"
                if table
                else f"it ({in_words(wanted) if wanted is not None else 'a value'})"
            )
            reach = "" if any(isinstance(key, int) for key in written) else f" or set {_variable(written)}{BETWEEN + '…' if table else ''}"
            return f" is missing; write {write}{reach}"
        case "extra_forbidden":
            near = _near_setting(kind, place)
            if near is None and isinstance(problem.get("input"), dict) and (elsewhere := _table_elsewhere(kind, str(place[-1]))):
                return f": there is no such setting; did you mean [{'.'.join(elsewhere)}]?"
            return f": there is no such setting; {_meant(_variable((*written[:-1], near)) if near and by_variable else near)}"
        case "union_tag_not_found" | "union_tag_invalid":
            tag = problem["ctx"].get("tag")
            return f" is {'missing' if tag is None else repr(tag)}; write one of {', '.join(map(repr, kinds_in(wanted, written[-1])))}"
        case _ if problem["type"] == UNFIT:
            return f": {problem['msg']}"
        case "string_pattern_mismatch":
            like = " or ".join(f'"{example}"' for example in examples_of(kind, problem["ctx"]["pattern"]))
            return f"{given}{' and' if given else ''} should be of another form; write one like {like}"
        case "too_short" if SecretStr in (wanted, *get_args(wanted)):
            least, there = problem["ctx"]["min_length"], problem["ctx"]["actual_length"]
            return f" has {there} characters and should have at least {least}; write a longer one, like what `{_MAKES_SECRET}` prints"
        case "value_error":
            return f": {problem['msg'].removeprefix('Value error, ')}; fix it"
    said = problem["msg"].partition(", unable to parse")[0]
    if said.startswith("Input should be "):
        said = f"{' and' if given else ''} {said.removeprefix('Input ')}"
    else:
        said = f": {said[0].lower()}{said[1:]}"
    return f"{given}{said}; write {_example(problem, wanted)}"


def _written(kind: type[SettingsTable], problem: Mapping[str, Any]) -> Place:
    """Return where to fix the problem, as a file has it."""
    place = as_written(kind, problem["loc"])
    return (*place, problem["ctx"]["discriminator"].strip("'")) if problem["type"].startswith("union_tag") else place


def _near(name: str, names: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, list(names), 1, NEAR_MIN)), None)


def _near_setting(kind: type[SettingsTable], place: Place) -> str | None:
    """Return the setting that an unknown key there seems to mean."""
    tables = models_in(annotation_at(kind, place[:-1]))
    return _near(str(place[-1]), (name for table in tables for name in table.model_fields))


def _table_elsewhere(kind: type[SettingsTable], name: str) -> tuple[str, ...] | None:
    """Return where in settings of `kind` a table of this name is, the nearest to their top; None where there is none."""
    waiting: list[tuple[tuple[str, ...], type[SettingsTable]]] = [((), kind)]
    for place, table in waiting:
        for key, setting in table.model_fields.items():
            inner = models_in(setting.annotation)
            if inner and key == name:
                return (*place, key)
            waiting += [((*place, key), one) for one in inner]
    return None


def _meant(near: str | None) -> str:
    return f"did you mean {near}?" if near else "take it out"


def _variable(place: Place) -> str:
    return PREFIX + BETWEEN.join(str(key).upper() for key in place)


def _example(problem: Mapping[str, Any], wanted: Any) -> str:
    """Return what to write instead."""
    type_ = problem["type"]
    if type_ == "literal_error":
        return f"one of {problem['ctx']['expected']}"
    if type_.startswith(("greater_than", "less_than")):
        return "a number within that bound"
    for start, example in _EXAMPLES.items():
        if type_.startswith(start):
            return example
    return f"a {in_words(wanted)}" if wanted is not None else "what docs/reference/settings.md says"


_EXAMPLES = {
    "int": "a whole number without quotes, like 8080",
    "float": "a number without quotes, like 2.5",
    "bool": "true or false",
    "string_too": "a text of that length",
    "string": 'a text in quotes, like "tokyo"',
    "url": 'an address in quotes, like "http://127.0.0.1:8770"',
    "path": 'a path in quotes, like "/var/lib/landfall"',
    "tuple": 'a list, like ["a", "b"]',
    "list": 'a list, like ["a", "b"]',
    "dict": "a table, like [name] with its keys below",
    "model": "a table, like [name] with its keys below",
}
"""Examples by the beginning of the error's type."""


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
