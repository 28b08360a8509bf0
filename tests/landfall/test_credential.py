"""Goal: who may do what at a node is given, listed and taken back by command."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from intake.topic_routes import READINGS
from landfall.access.credentials import CredentialFile, Credentials
from landfall.access.principals import CREW
from landfall.demo.fleet_settings import AT_HQ, Fleet, write_settings
from tests.landfall.commands import run


def test_a_program_gets_a_token_once_and_loses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = ("--folder", str(tmp_path))
    code, token, told = run(capsys, "credential", "add", "user:warehouse", "--consume", "events", "--consume", "customers/*", *node)
    assert (code, told.startswith("user:warehouse may consume events, customers/*. ")) == (0, True)
    known = Credentials(tmp_path)
    known.look()
    assert (principal := known.of_token(token.strip()))
    assert principal.allowed == {"consume": ("events", "customers/*")}
    listed = run(capsys, "credential", "list", *node)[1]
    assert re.search(r"user:warehouse +token +consume events, customers/\*", listed)
    assert token.strip() not in listed
    assert run(capsys, "credential", "withdraw", "user:warehouse", *node)[0] == 0
    assert CredentialFile(tmp_path).read() == ()
    known.close()


def test_one_of_the_crew_gets_a_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node, password = ("--folder", str(tmp_path)), tmp_path / "password"
    password.write_text("the sea is cold\n")
    words = ("credential", "add", "user:anna", "--crew", "Anna Lind, master", "--password-file", str(password), *node)
    assert run(capsys, *words)[:2] == (0, "user:anna may log in at the console, as Anna Lind, master\n")
    [anna] = CredentialFile(tmp_path).read()
    assert (anna.title, anna.allow) == ("Anna Lind, master", CREW)
    password.write_text("short\n")
    code, _, told = run(capsys, *words)
    assert (code, "at least 12 characters" in told) == (2, True)
    assert CredentialFile(tmp_path).read() == (anna,)


def test_a_gateway_gets_a_token_for_mqtt_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = ("--folder", str(tmp_path))
    code, token, _ = run(capsys, "credential", "add", "gateway:gate-2", "--produce", "landfall/containers/+/reading", *node)
    assert code == 0
    assert run(capsys, "credential", "add", "gateway:bay-1", *node)[0] == 0
    assert run(capsys, "credential", "add", "gateway:bridge", "--ship", "9321483", *node)[0] == 0
    known = Credentials(tmp_path)
    known.look()
    assert known.is_gateways("gate-2", token.strip().encode())
    assert not known.is_gateways("bay-1", token.strip().encode())
    assert known.of_token(token.strip()) is None, "the node's own door"
    own = tuple(f"landfall/ships/9321483/{kind}" for kind in ("location", "environment", "noon"))
    allowed = [principal.allowed for name in ("gate-2", "bay-1", "bridge") if (principal := known.gateway(name))]
    assert allowed == [{"produce": (READINGS,)}, {"produce": (READINGS,)}, {"produce": (READINGS, *own)}]
    known.close()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "gateway:bay-1", "--consume", "containers"), "a gateway publishes over MQTT and does nothing else"),
        (("add", "gateway:bay-1", "--produce", "landfall/#/reading"), "is no MQTT topic filter"),
        (("add", "gateway:bay-1", "--ship", "9321484"), "'9321484' is no IMO number"),
        (("add", "gateway:bay-1", "--ship", "9321483", "--produce", "landfall/#"), "--produce names all"),
        (("add", "user:anna", "--ship", "9321483", "--consume", "events"), "--ship is for a gateway"),
        (("add", "warehouse", "--consume", "events"), "'warehouse' names no principal"),
        (("add", "user:a b", "--consume", "events"), "'user:a b' names no principal"),
        (("add", "user:anna"), "user:anna would be allowed nothing"),
        (("add", "user:anna", "--crew", "Anna", "--consume", "events"), "the crew may do what the console does"),
        (("withdraw", "user:anna"), "no credential of user:anna"),
    ],
)
def test_a_slip_is_told_and_changes_nothing(words: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "credential", *words, "--folder", str(tmp_path))
    assert (code, told in error) == (2, True), error
    assert not CredentialFile(tmp_path).path.exists()


def test_each_process_of_the_fleet_may_do_what_it_has_to_and_no_more(tmp_path: Path) -> None:
    """Written again nothing changes, so that a node that runs keeps those it knows."""
    fleet = Fleet(tmp_path)
    files = write_settings(fleet)
    hq = CredentialFile(tmp_path / "hq")
    before = hq.path.read_bytes()
    nodes = {f"node:{name}": {"replicate": ("*",)} for name in ("tokyo", "singapore", "sydney", "albatross", "cormorant")}
    assert {one.principal: one.allow for one in hq.read()} == nodes | {f"user:{name}": {"produce": may} for name, may in AT_HQ.items()}
    assert not {"door", "token"} & tomllib.loads(files["dashboards"].read_text()).keys(), "the pages need nothing of the node"
    write_settings(fleet)
    assert hq.path.read_bytes() == before
    for ship in ("albatross", "cormorant"):
        others = [one.principal for one in CredentialFile(tmp_path / ship).read() if not one.principal.startswith("node:")]
        assert others == ["gateway:gateways", "user:master"]
