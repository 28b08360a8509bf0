"""Goal: a wrong configuration tells everything that is wrong with it at once, where it stands and what to do, and never shows a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import Field, SecretStr
from pydantic.fields import FieldInfo

from hq.api.settings import ApiSettings
from hq.serving.address import serving_url
from hq.serving.projector import ProjectorSettings
from landfall.process_table import PROCESSES, settings_kinds
from landfall.runtime.settings_loader import load
from landfall.runtime.settings_types import examples_of, models_in
from landfall.system.private_files import write_private
from landfall.system.settings_table import SettingsProblem, SettingsTable, between
from streams.model.errors import Misuse
from tests.support.refusals import refusal


class Door(SettingsTable):
    """A nested table."""

    port: int = Field(ge=1, le=65_535)
    token: SecretStr = SecretStr("none")


class Kiosk(SettingsTable):
    """Settings of some process."""

    name: str
    speed: float = 1.0
    door: Door
    more: tuple[Door, ...] = ()


class Stall(SettingsTable):
    """Settings of another one."""

    awning: str = ""

    @between
    def _never(self) -> Iterator[SettingsProblem]:
        yield SettingsProblem((), "a stall has no such awning", "take it down")


def problems(file: Path | None, variables: Mapping[str, str] | None = None, kind: type[SettingsTable] = Kiosk) -> list[str]:
    """What is told, a line each."""
    with pytest.raises(Misuse) as told:
        load(kind, file, variables or {}, lambda: (Kiosk, Stall))
    return [line.strip() for line in str(told.value).splitlines()]


def written(folder: Path, text: str) -> Path:
    file = folder / "kiosk.toml"
    write_private(file, text.encode())
    return file


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    """A variable of another process is left to it."""
    file = written(tmp_path, 'name = "a"\n[door]\nport = 1\n')
    variables = {"LANDFALL_SPEED": "4.5", "LANDFALL_DOOR__PORT": "8080", "LANDFALL_NAME": "not toml", "LANDFALL_AWNING": "red", "PATH": "/"}
    settings = load(Kiosk, file, variables, lambda: (Kiosk, Stall))
    assert settings == Kiosk(name="not toml", speed=4.5, door=Door(port=8080))


def test_a_file_with_a_secret_is_its_owners_alone(tmp_path: Path) -> None:
    """As keys are; one without a secret may be read by anybody, and one whose secret comes from a variable."""
    plain = 'name = "a"\n[door]\nport = 1\n'
    for text in (plain + 'token = "geheim"\n', plain + '[[more]]\nport = 2\ntoken = "geheim"\n'):
        file = written(tmp_path, text)
        load(Kiosk, file, {}, lambda: (Kiosk, Stall))
        for mode in (0o640, 0o604, 0o660):
            file.chmod(mode)
            _, problem, _ = problems(file)
            assert re.match(rf"{file}: (door|more\[0\])\.token .*\(mode {mode:04o}\)", problem)
            assert f"chmod 600 {file}" in problem
            assert "geheim" not in problem
    file = written(tmp_path, plain)
    file.chmod(0o644)
    assert load(Kiosk, file, {"LANDFALL_DOOR__TOKEN": "geheim"}, lambda: (Kiosk, Stall)).door.token.get_secret_value() == "geheim"


def test_each_problem_has_its_place_and_what_to_do(tmp_path: Path) -> None:
    """Of file and environment together, each in a line of its own."""
    file = written(tmp_path, 'speed = "fast"\ncolour = "red"\nspede = 1\n[door]\nprot = 5\n[[more]]\nport = 0\n')
    head, *lines, _ = problems(file, {"LANDFALL_NAEM": "x", "LANDFALL_DOOR__PORT": "many", "LANDFALL_DOOR__PROT": "1"})
    assert head.startswith("8 ")
    assert sorted(line.replace(str(tmp_path), "…") for line in lines) == [
        "LANDFALL_DOOR__PORT is 'many' and should be a valid integer; write a whole number without quotes, like 8080",
        "LANDFALL_DOOR__PROT: there is no such setting; did you mean LANDFALL_DOOR__PORT?",
        "LANDFALL_NAEM: there is no such setting; did you mean LANDFALL_NAME?",
        "…/kiosk.toml: colour: there is no such setting; take it out",
        "…/kiosk.toml: more[0].port is 0 and should be greater than or equal to 1; write a number within that bound",
        "…/kiosk.toml: name is missing; write it (str) or set LANDFALL_NAME",
        "…/kiosk.toml: spede: there is no such setting; did you mean speed?",
        "…/kiosk.toml: speed is 'fast' and should be a valid number; write a number without quotes, like 2.5",
    ]


def test_no_secret_is_shown(tmp_path: Path) -> None:
    """Neither the value of a secret that is wrong, nor a table that holds one, nor a line that does not read."""
    for text in ('name = "a"\n[door]\nport = 1\ntoken = 987654321\n', 'name = "a"\ndoor = "987654321"\n', "token = 987654321 = 1\n"):
        told = " ".join(problems(written(tmp_path, text)))
        assert "token" in told or "door" in told
        assert "987654321" not in told


def test_every_line_that_is_no_toml_is_told_and_the_rest_is_checked(tmp_path: Path) -> None:
    """What stood on such a line is not called missing as well."""
    file = written(tmp_path, 'name = = "a"\nspeed = "fast"\ndoor.port 5\n')
    told = problems(file)
    assert told[0].startswith("3 ")
    assert told[1].startswith(f"{file}, line 1 ('name') ")
    assert told[2].startswith(f"{file}, line 3 ('door.port 5') ")
    assert told[3].startswith(f"{file}: speed is 'fast'")


@pytest.mark.parametrize("content", [b"\xff", None])
def test_a_file_that_can_not_be_read_is_named_beside_what_else_is_wrong(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "kiosk.toml"
    if content is not None:
        file.write_bytes(content)
    told = problems(file, {"LANDFALL_NAEM": "x"})
    assert told[0].startswith("2 ")
    assert f"{file} " in told[1]
    assert "LANDFALL_NAEM" in told[2]


def test_a_variable_that_asks_for_a_table_inside_a_value_is_named(tmp_path: Path) -> None:
    told = " ".join(problems(None, {"LANDFALL_NAME": "a", "LANDFALL_NAME__X": "1", "LANDFALL_SPEED": "fast"}))
    assert "LANDFALL_NAME__X asks for a table" in told
    assert "LANDFALL_SPEED is 'fast'" in told
    assert "door is missing" in told


def test_what_a_process_says_of_its_settings_as_a_whole_is_told(tmp_path: Path) -> None:
    assert "the settings: a stall has no such awning; take it down" in problems(None, kind=Stall)


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_tells_what_it_misses(name: str) -> None:
    """With nothing set but a misspelt variable of its own kind, each names that variable; no type of a setting is without words."""
    kind = dict(zip(PROCESSES, settings_kinds(), strict=True))[name]
    with refusal(Misuse, "settings_invalid", "LANDFALL_HEALTH_PROT"):
        load(kind, None, {"LANDFALL_HEALTH_PROT": "1"}, settings_kinds)


class Crate(SettingsTable):
    """One kind of box."""

    kind: Literal["crate"]
    slats: int = Field(ge=1)


class Barrel(SettingsTable):
    """Another."""

    kind: Literal["barrel"]
    staves: int = Field(ge=1)


class Cellar(SettingsTable):
    """Settings with a table that is one of several kinds."""

    name: str = ""
    box: Annotated[Crate | Barrel, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            "kind = 'barrel'\nstavs = 4",
            [
                "box.staves is missing; write it (int) or set LANDFALL_BOX__STAVES",
                "box.stavs: there is no such setting; did you mean staves?",
            ],
        ),
        ("kind = 'barrel'\nslats = 4\nstaves = 0", ["box.staves is 0 and should be greater", "box.slats: there is no such setting"]),
        ("kind = 'paper'", ["box.kind is 'paper'; write one of 'crate', 'barrel'"]),
        ("slats = 4", ["box.kind is missing; write one of 'crate', 'barrel'"]),
    ],
)
def test_a_table_of_several_kinds_is_told_of_as_it_is_written(tmp_path: Path, table: str, told: list[str]) -> None:
    """Its kind stands in no setting's name, and only settings of its kind are meant."""
    found = problems(written(tmp_path, f"[box]\n{table}\n"), kind=Cellar)[1:]
    assert len(found) == len(told) + 1
    for line, wanted in zip(found, told, strict=False):
        assert wanted in line
    assert "barrel." not in "".join(found)


def test_a_variable_in_a_table_of_several_kinds_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, "[box]\nkind = 'barrel'\n")
    assert "LANDFALL_BOX__STAVES is 0 and" in problems(file, {"LANDFALL_BOX__STAVES": "0"}, Cellar)[1]
    assert "LANDFALL_BOX__KIND is 'paper'" in problems(file, {"LANDFALL_BOX__KIND": "paper"}, Cellar)[1]


def patterns_in(annotation: Any) -> Iterator[tuple[str, list[str]]]:
    """Every pattern that settings of this type have, and its examples."""
    for model in models_in(annotation):
        for field in model.model_fields.values():
            yield from patterns_of(field)
            yield from patterns_in(field.annotation)
    for part in get_args(annotation):
        yield from (found for one in get_args(part)[1:] if isinstance(one, FieldInfo) for found in patterns_of(one))
        yield from patterns_in(part)


def patterns_of(field: FieldInfo) -> Iterator[tuple[str, list[str]]]:
    for constraint in field.metadata:
        if (pattern := getattr(constraint, "pattern", None)) is not None:
            yield pattern, [str(example) for example in field.examples or ()]


@pytest.mark.parametrize("name", PROCESSES)
def test_every_pattern_has_an_example_that_fits_it(name: str) -> None:
    """Nobody is told a regular expression."""
    kind = dict(zip(PROCESSES, settings_kinds(), strict=True))[name]
    patterns = list(patterns_in(kind))
    assert patterns
    for pattern, examples in patterns:
        assert examples, pattern
        assert all(re.search(pattern, example) for example in examples), (pattern, examples)
        assert examples_of(kind, pattern), pattern


class Gate(SettingsTable):
    """Settings with forms, one of them deep inside, and a secret of a length."""

    number: str = Field(default="1", pattern=r"^\d+$", examples=["7", "12"])
    names: dict[Annotated[str, Field(pattern="^[a-z]+$", examples=["tokyo"])], int] = Field(default={})
    password: SecretStr = Field(default=SecretStr("x" * 32), min_length=32)
    token: SecretStr | None = Field(default=None, min_length=32)


def test_a_form_is_told_by_examples_and_a_secret_by_how_to_make_one(tmp_path: Path) -> None:
    file = written(tmp_path, 'number = "one"\npassword = "duck!"\ntoken = "goose"\n[names]\nTOKYO = 1\n')
    longer = "has 5 characters and should have at least 32; write a longer one, like what "
    longer += "`python3 -c 'import secrets; print(secrets.token_hex(32))'` prints"
    assert [line.removeprefix(f"{file}: ") for line in problems(file, kind=Gate)[1:-1]] == [
        'number is \'one\' and should be of another form; write one like "7" or "12"',
        'names.TOKYO.[key] should be of another form; write one like "tokyo"',
        f"password {longer}",
        f"token {longer}",
    ]


@pytest.mark.parametrize("kind", [ApiSettings, ProjectorSettings])
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("sqlite:rubbish", "it is no address of a database; write sqlite:////path/to/serving.db or postgresql://user@host/landfall"),
        ("postgresql://host:ducks/landfall", "it is no address of a database; write sqlite:"),
        ("mysql://host/landfall", "no serving database can be kept in 'mysql'; write sqlite:"),
        ("postgresql+asyncpg://host/landfall", "no serving database can be kept in 'postgresql+asyncpg'; write sqlite:"),
        ("sqlite://", "it names no file, and several processes open the serving database; write sqlite:////path/to/serving.db"),
        ("sqlite:///:memory:", "it names no file, and "),
        ("sqlite://path/serving.db", "it names no file, and "),
        ("postgresql:///landfall", "it names no server and database there; write postgresql://user@host/landfall"),
        ("postgresql://ann:secret@host", "it names no server and database there; write postgresql://user@host/landfall"),
    ],
)
def test_an_address_of_no_serving_database_is_told_beside_all_else(
    tmp_path: Path, kind: type[SettingsTable], address: str, told: str
) -> None:
    lines = problems(written(tmp_path, f'database_url = "{address}"\nclock = "sundial"\n'), kind=kind)
    assert any(f"database_url: {told}" in line for line in lines), lines
    assert any("clock is 'sundial' " in line for line in lines)
    assert "secret" not in "".join(line for line in lines if "database_url" in line)


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:////srv/serving.db",
        "sqlite+pysqlite:///serving.db",
        "postgresql://ann@host/landfall",
        "postgresql+psycopg:///landfall?host=/run",
    ],
)
def test_an_address_of_a_serving_database_is_taken(address: str) -> None:
    assert serving_url(address).drivername in ("sqlite", "postgresql+psycopg")
    assert ProjectorSettings.model_validate({"log": "log", "database_url": address}).database_url == address
