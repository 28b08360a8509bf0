"""Settings' types as people read them: a type in words, the contents of a table by place, and the name of each setting's variable."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from landfall.system.settings_table import Place, SettingsTable

PREFIX = "LANDFALL_"
BETWEEN = "__"


def in_words(annotation: Any) -> str:
    """Return a type as people write it: `tuple[KnownPeer, ...]`, without modules and without constraints."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return in_words(inner[0])
    if origin in (Union, UnionType):
        return " | ".join(in_words(one) for one in inner)
    if origin is Literal:
        return " | ".join(repr(one) for one in inner)
    if inner:
        return f"{origin.__name__}[{', '.join(in_words(one) for one in inner)}]"
    return {type(None): "None", Ellipsis: "..."}.get(annotation) or str(annotation.__name__)


def models_in(annotation: Any) -> list[type[SettingsTable]]:
    """Return the tables that a setting of this type holds."""
    if inspect.isclass(annotation) and issubclass(annotation, SettingsTable):
        return [annotation]
    return [inner for part in get_args(annotation) for inner in models_in(part)]


def kinds_in(annotation: Any, chosen_by: str | int) -> dict[str | int, type[SettingsTable]]:
    """Return the tables that a setting of this type may be, by the value of their key `chosen_by`."""
    return {name: model for model in models_in(annotation) for name in get_args(model.model_fields[str(chosen_by)].annotation)}


def annotation_at(kind: type[SettingsTable], place: Sequence[str | int]) -> Any:
    """Return the type of what lies at `place` (keys and indices, kinds chosen) in settings of `kind`; None where there is nothing."""
    return [kind, *(annotation for _, annotation, _ in _on_the_way(kind, place))][-1]


def as_written(kind: type[SettingsTable], place: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return `place` as a file has it: without the names of kinds, which pydantic puts after a table that is one of several."""
    return tuple(key for key, _, is_kind in _on_the_way(kind, place) if not is_kind)


def _on_the_way(kind: type[SettingsTable], place: Sequence[str | int]) -> Iterator[tuple[str | int, Any, bool]]:
    """Yield each key of `place`, the type of what lies there, and whether the key is the name of one of several kinds of table."""
    annotation: Any = kind
    chosen_by: str | None = None
    for key in place:
        fields = [model.model_fields[key] for model in models_in(annotation) if isinstance(key, str) and key in model.model_fields]
        if chosen_by is not None:
            annotation, chosen_by = kinds_in(annotation, chosen_by)[key], None
            yield key, annotation, True
            continue
        if fields:
            annotation = fields[0].annotation
            chosen_by = fields[0].discriminator if isinstance(fields[0].discriminator, str) else None
        elif not get_args(annotation):
            annotation = None
        yield key, annotation, False


def is_secret(kind: type[SettingsTable], place: Sequence[str | int]) -> bool:
    """Return whether the value there must not be shown: a secret, something that holds one, or something unknown that is named like one."""
    annotation = annotation_at(kind, place)
    inside = [annotation, *(field.annotation for model in models_in(annotation) for field in model.model_fields.values())]
    named = any(word in str(place[-1]) for word in ("password", "token", "secret", "key")) if place else False
    return named or any("SecretStr" in in_words(one) for one in inside if one is not None)


def secrets_in(value: object, place: Place = ()) -> Iterator[Place]:
    """Yield where secrets lie in settings, empty ones left out."""
    if isinstance(value, SecretStr):
        if value.get_secret_value():
            yield place
        return
    inside: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, SettingsTable):
        inside = ((name, getattr(value, name)) for name in type(value).model_fields)
    elif isinstance(value, Mapping):
        inside = value.items()
    elif isinstance(value, list | tuple):
        inside = enumerate(value)
    for key, one in inside:
        yield from secrets_in(one, (*place, key))


def examples_of(annotation: Any, pattern: str) -> list[str]:
    """Return the examples that settings of this type with this `pattern` give."""
    inside = [field for field in get_args(annotation)[1:] if isinstance(field, FieldInfo)] if get_origin(annotation) is Annotated else []
    for model in models_in(annotation):
        inside += model.model_fields.values()
    for field in inside:
        if any(getattr(constraint, "pattern", None) == pattern for constraint in field.metadata):
            return [str(example) for example in field.examples or ()]
    deeper = [field.annotation for model in models_in(annotation) for field in model.model_fields.values()]
    return next((found for part in (*deeper, *get_args(annotation)) if (found := examples_of(part, pattern))), [])


def variables(kind: type[SettingsTable], before: str = PREFIX) -> Iterator[str]:
    """Yield the environment variables that settings of `kind` read: `LANDFALL_PORT`, `LANDFALL_NODE__PORT`. They do not reach into
    lists.
    """
    for name, field in kind.model_fields.items():
        yield f"{before}{name.upper()}"
        if get_origin(field.annotation) is not tuple:
            for model in models_in(field.annotation):
                yield from variables(model, f"{before}{name.upper()}{BETWEEN}")
