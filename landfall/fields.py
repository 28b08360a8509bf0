"""Settings' types as people read them: a type in words, what lies where in a table, how each setting's variable is called."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

PREFIX = "LANDFALL_"
BETWEEN = "__"


def in_words(annotation: Any) -> str:
    """A type as people write it: `tuple[KnownPeer, ...]`, without modules and without constraints."""
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


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The tables that a setting of this type holds."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for part in get_args(annotation) for inner in models_in(part)]


def annotation_at(kind: type[BaseModel], place: Sequence[str | int]) -> Any:
    """The type of what lies at `place` (keys and indices) in settings of `kind`; None where nothing does."""
    annotation: Any = kind
    for key in place:
        fields = [model.model_fields[key] for model in models_in(annotation) if isinstance(key, str) and key in model.model_fields]
        if fields:
            annotation = fields[0].annotation
        elif not get_args(annotation):
            return None
    return annotation


def is_secret(kind: type[BaseModel], place: Sequence[str | int]) -> bool:
    """Whether what lies there is for nobody to see: a secret, something that holds one, or something unknown that is named like one."""
    annotation = annotation_at(kind, place)
    inside = [annotation, *(field.annotation for model in models_in(annotation) for field in model.model_fields.values())]
    named = any(word in str(place[-1]) for word in ("password", "token", "secret", "key")) if place else False
    return named or any("SecretStr" in in_words(one) for one in inside if one is not None)


def variables(kind: type[BaseModel], before: str = PREFIX) -> Iterator[str]:
    """The environment variables that settings of `kind` hear: `LANDFALL_PORT`, `LANDFALL_NODE__PORT`; into lists they do not reach."""
    for name, field in kind.model_fields.items():
        yield f"{before}{name.upper()}"
        if get_origin(field.annotation) is not tuple:
            for model in models_in(field.annotation):
                yield from variables(model, f"{before}{name.upper()}{BETWEEN}")
