"""What every table of settings is: frozen, without unknown keys, and reporting at once all that does not fit together in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

MISFIT = "misfit"
"""Type of pydantic's error for settings that do not fit together."""
UNFIT = "unfit"
"""Type of pydantic's error for one value that is wrong, where `unfit` gives what to do."""
_SAID = "{what}; {hint}"
_MARK = "_checks_between_settings"
_SAME_HOST = {"localhost": "127.0.0.1"}
_EVERY_HOST = {"0.0.0.0", "::"}
Check = TypeVar("Check", bound=Callable[[Any], Iterator["SettingsProblem"]])
Place = tuple[str | int, ...]
DoorUrl = Annotated[str, Field(pattern=r"^https?://[^/]+$", examples=["http://127.0.0.1:8770"])]
"""URL of a node's door. A setting with a pattern has `examples` of what fits it: the message about a wrong value shows them."""
ClockAddress = Annotated[str, Field(pattern=r"^(wall|https?://.+)$", examples=["wall", "http://127.0.0.1:8790/clock"])]
"""Clock that a process follows: "wall", or the URL of one that serves the fleet's time as JSON."""
Host = Annotated[str, Field(pattern=r"^[^\s/]+$", examples=["127.0.0.1", "localhost"])]
"""Name or address of a machine: the one to connect to, or the one to listen at."""


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """Settings that do not fit together: where to fix it (keys and indices, from the table that reports it), what is wrong, what to do."""

    where: Place
    what: str
    hint: str


def between(check: Check) -> Check:
    """Make a method of a SettingsTable a check, which yields a SettingsProblem for each thing that does not fit together.

    Each kind of problem is a check of its own. In a table that is wrong elsewhere a check may use only right settings; it ends where it
    uses another (AttributeError). Of tables in a list it takes those that `is_sound`.
    """
    setattr(check, _MARK, True)
    return check


def unfit(what: str, hint: str) -> ValueError:
    """Return an error for the validator of one setting to raise: what is wrong, and what to do."""
    return PydanticCustomError(UNFIT, _SAID, {"what": what, "hint": hint})


def given(hint: str) -> BeforeValidator:
    """Return a validator for the type of a setting that may not be left blank: an empty text is reported with `hint`."""

    def checked(value: Any) -> Any:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(text, str) and not text.strip():
            raise unfit("it is empty", hint)
        return value

    return BeforeValidator(checked)


GivenPath = Annotated[Path, given('write a path, like "/var/lib/landfall"')]
"""Path of a file or a folder. An empty text would be the working folder."""
Token = Annotated[SecretStr, given("write the token that `landfall credential add` gives at that node")]
"""Token that a process shows at a node's door: its own, of a credential of that node."""


SharedToken = Annotated[SecretStr, Field(min_length=32)]
"""Random text that two processes have in their settings, by which one knows the other."""


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            ip_network(text)
        except ValueError:
            raise unfit(f"{text!r} is no address and no network", 'write them like "10.1.2.3" or "10.1.0.0/16"') from None
    return texts


TrustedProxies = Annotated[tuple[str, ...], AfterValidator(_networks)]
"""IP addresses and networks of proxies whose claim about the origin of a request is believed."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address where a process listens: the setting with the port (`where`), host and port. Port 0 is any free one."""

    where: Place
    host: str
    port: int

    def bars(self, other: ListenAddress) -> bool:
        """Return whether the two addresses exclude each other."""
        one, two = (_SAME_HOST.get(door.host, door.host) for door in (self, other))
        return self.port == other.port != 0 and (one == two or bool(_EVERY_HOST & {one, two}))


def barred(doors: Iterable[ListenAddress]) -> Iterator[SettingsProblem]:
    """Yield a problem for each of the doors whose port an earlier one has."""
    before: list[ListenAddress] = []
    for door in doors:
        if first := next((one for one in before if one.bars(door)), None):
            taken = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first.where).removeprefix(".")
            yield SettingsProblem(door.where, f"{taken} is port {door.port} already", "write another port")
        before.append(door)


def repeated(tables: Iterable[SettingsTable], name: str) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each setting `name`, of tables in a list, that an earlier table has too. Wrong values do not count."""
    seen = set[Any]()
    for number, table in enumerate(tables):
        if table.is_sound(name):
            value = getattr(table, name)
            if value in seen:
                yield number, value
            seen.add(value)


class SettingsTable(BaseModel):
    """A table of settings. Making one raises pydantic's ValidationError: with all values that are wrong, else with all that do not fit
    together. `landfall.runtime.settings_loader` reports both together. No input stands in the error's text, since it may be a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def is_sound(self, *names: str) -> bool:
        """Return whether these settings of the table are right: always, except while the problems of a configuration are being found."""
        return all(hasattr(self, name) for name in names)

    def problems(self) -> Iterator[SettingsProblem]:
        """Yield what does not fit together in this table, as far as its values are right."""
        for kind in reversed(type(self).__mro__):
            for check in vars(kind).values():
                if isinstance(check, FunctionType) and hasattr(check, _MARK):
                    try:
                        yield from check(self)
                    except AttributeError as missing:
                        if not (isinstance(missing.obj, SettingsTable) and missing.name in type(missing.obj).model_fields):
                            raise

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        lines: list[InitErrorDetails] = [
            {"type": PydanticCustomError(MISFIT, _SAID, {"what": one.what, "hint": one.hint}), "loc": one.where, "input": None}
            for one in self.problems()
        ]
        if lines:
            raise ValidationError.from_exception_data(type(self).__name__, lines, hide_input=True)
        return self


class WithCertificate(SettingsTable):
    """`tls_certificate`, `tls_key`: PEM files; with both the door speaks TLS alone. None: it speaks none."""

    tls_certificate: GivenPath | None = None
    tls_key: GivenPath | None = None

    @between
    def _has_certificate_and_key(self) -> Iterator[SettingsProblem]:
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing, there = ("tls_certificate", "tls_key") if self.tls_certificate is None else ("tls_key", "tls_certificate")
            yield SettingsProblem((missing,), f"it goes together with {there}, and is missing", f"write it, or take {there} out")
