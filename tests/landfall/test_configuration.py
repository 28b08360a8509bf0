"""Goal: a wrong configuration tells everything that is wrong with it at once, and never shows a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from landfall.configuration import load
from streams.errors import Misuse


class Door(BaseModel):
    """A nested table."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    port: int
    token: str = "none"


class Kiosk(BaseModel):
    """Settings of some process."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    speed: float = 1.0
    door: Door


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "kiosk.toml"
    file.write_text('name = "a"\n[door]\nport = 1\n')
    settings = load(
        Kiosk, file, {"LANDFALL_SPEED": "4.5", "LANDFALL_DOOR__PORT": "8080", "LANDFALL_NAME": "not toml", "LANDFALL_OTHER": "1"}
    )
    assert settings == Kiosk(name="not toml", speed=4.5, door=Door(port=8080))


def test_all_problems_are_told_together_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "kiosk.toml"
    file.write_text('speed = "fast"\ncolour = "red"\n[door]\nport = "x"\ntoken = 987654321\n')
    with pytest.raises(Misuse) as told:
        load(Kiosk, file, {})
    text = str(told.value)
    assert all(part in text for part in ("5 problem(s)", "name", "speed", "'fast'", "colour", "door.port", "door.token"))
    assert "987654321" not in text


@pytest.mark.parametrize(("content", "part"), [(b"a = = 1", "not TOML"), (b"\xff", "not TOML")])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes, part: str) -> None:
    file = tmp_path / "kiosk.toml"
    file.write_bytes(content)
    with pytest.raises(Misuse, match=part):
        load(Kiosk, file, {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="can not be read"):
        load(Kiosk, tmp_path / "none.toml", {})


def test_a_variable_that_asks_for_a_table_inside_a_value_is_named() -> None:
    with pytest.raises(Misuse, match="LANDFALL_NAME__X"):
        load(Kiosk, None, {"LANDFALL_NAME": "a", "LANDFALL_NAME__X": "1"})
