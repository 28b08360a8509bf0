"""The check of settings that do not fit together, when some of them are wrong: the right ones are made, and every table is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from landfall.runtime.settings_types import kinds_in, models_in
from landfall.system.settings_table import Place, SettingsProblem, SettingsTable


class _InDoubtError(Exception):
    """The value there is wrong, or cannot be known."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The known problems of settings, by place as a file has it.

    `wrong`: wrong values. `meant`: settings that unknown keys seem to mean, so that they are not there by mistake. `all_read`: no line of
    the file was left out, so what is absent is not there.
    """

    wrong: frozenset[Place]
    meant: frozenset[Place]
    all_read: bool
    _made: list[tuple[Place, SettingsTable]] = field(default_factory=list)

    def problems(self, kind: type[SettingsTable], values: Mapping[str, Any]) -> Iterator[SettingsProblem]:
        """Yield all that does not fit together in `values`, settings of `kind`, whatever else is wrong; each at its whole place."""
        self._table(kind, values, ())
        for place, table in self._made:
            for problem in table.problems():
                yield replace(problem, where=(*place, *problem.where))

    def _table(self, kind: type[SettingsTable], values: Mapping[str, Any], place: Place) -> SettingsTable:
        """Return a table that holds only the right settings."""
        right: dict[str, Any] = {}
        for name, setting in kind.model_fields.items():
            try:
                inner = (*place, name)
                right[name] = self._value(setting, values[name], inner) if name in values else self._default(setting, inner)
            except _InDoubtError:
                continue
        table = kind.model_construct(**right)
        for name in kind.model_fields.keys() - right.keys():
            vars(table).pop(name, None)
        self._made.append((place, table))
        return table

    def _default(self, setting: FieldInfo, place: Place) -> Any:
        if setting.is_required() or place in self.meant or not self.all_read:
            raise _InDoubtError
        return setting.get_default(call_default_factory=True)

    def _value(self, setting: FieldInfo, value: Any, place: Place) -> Any:
        if models_in(setting.annotation):
            return self._tables(setting.annotation, setting.discriminator, value, place)
        if any(wrong_place[: len(place)] == place for wrong_place in self.wrong):
            raise _InDoubtError
        typed: Any = Annotated[setting.annotation, setting]
        return TypeAdapter(typed).validate_python(value)

    def _tables(self, annotation: Any, chosen_by: Any, value: Any, place: Place) -> Any:
        """Return the table there, or each of a list or of a table of tables."""
        if place in self.wrong:
            raise _InDoubtError
        if isinstance(value, list):
            return tuple(self._tables(annotation, chosen_by, one, (*place, number)) for number, one in enumerate(value))
        if get_origin(annotation) is dict:
            return {key: self._tables(get_args(annotation)[1], chosen_by, one, (*place, key)) for key, one in value.items()}
        kind = kinds_in(annotation, chosen_by)[value[chosen_by]] if chosen_by else models_in(annotation)[0]
        return self._table(kind, value, place)
