"""Goal: a node's file of credentials keeps no secrets, loses no entry, and is refused when others may read it."""

from __future__ import annotations

import ast
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from landfall.access.credentials import CredentialFile, Credentials, operator_token
from landfall.access.password_checks import hash_password
from landfall.access.principals import CREW, VERBS, Principal, may
from streams.model.errors import Corrupt, Misuse, RetryLater
from tests.support.credentials import PASSWORD, allow_crew
from tests.support.refusals import refusal


def test_a_verb_is_allowed_on_the_streams_it_names_and_on_what_is_derived_from_them() -> None:
    projector = Principal("user:projector", {"produce": ("metrics",), "consume": ("containers", "customers/*")})
    assert may(projector, "produce", "metrics")
    assert may(projector, "consume", "customers/duckworks")
    assert may(projector, "consume", "containers.heads")
    for verb, stream in (("produce", "containers"), ("consume", "metrics"), ("consume", "container"), ("admin", "metrics")):
        assert not may(projector, verb, stream), (verb, stream)  # type: ignore[arg-type]


def test_a_verb_with_a_stream_of_any_name_is_allowed_where_it_names_one() -> None:
    reader = Principal("user:reader", {"consume": ("containers",), "produce": ()})
    assert may(reader, "consume", None)
    assert not may(reader, "produce", None)
    assert not may(reader, "replicate", None)


def test_no_other_function_decides() -> None:
    """What a principal is allowed is read in `landfall/access` alone; elsewhere where it is told, or of something else."""
    told = {Path("landfall/node/peers/session_manager.py"), Path("intake/mqtt/client_logins.py"), Path("intake/mqtt/packet_properties.py")}
    found = set[Path]()
    for package in ("streams", "landfall", "intake", "edge", "shore", "hq", "sim", "dashboards"):
        for file in Path(package).rglob("*.py"):
            tree = ast.parse(file.read_text())
            if any(isinstance(node, ast.Attribute) and node.attr == "allowed" for node in ast.walk(tree)):
                found.add(file)
    assert {file for file in found if file.parent != Path("landfall/access")} == told


def test_the_file_is_for_its_owner_alone_and_holds_no_secret(tmp_path: Path) -> None:
    file = CredentialFile(tmp_path)
    token = file.give_token("user:api", {"produce": ("registry",)})
    allow_crew(tmp_path, "anna", "Anna Lind, master")
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 43, "256 bits"
    kept = file.path.read_text()
    assert token not in kept
    assert PASSWORD not in kept
    assert [one.principal for one in file.read()] == ["user:anna", "user:api"]
    file.path.chmod(0o640)
    with refusal(Misuse, "file_open", file.path):
        file.read()


def test_a_token_is_known_until_it_is_withdrawn_or_another_takes_its_place(tmp_path: Path) -> None:
    file, credentials = CredentialFile(tmp_path), Credentials(tmp_path)
    first = file.give_token("user:api", {"produce": ("registry",)})
    assert credentials.of_token(first) is None, "not looked yet"
    assert credentials.look()
    assert not credentials.look(), "nothing has changed"
    assert (known := credentials.of_token(first))
    assert (known.name, known.allowed) == ("user:api", {"produce": ("registry",)})
    second = file.give_token("user:api", {"produce": ("registry",)})
    credentials.look()
    assert credentials.of_token(first) is None
    assert credentials.of_token(second)
    assert not credentials.holds(known), "its token is another now"
    file.withdraw("user:api")
    credentials.look()
    assert credentials.of_token(second) is None
    with refusal(Misuse, "credential_unknown", "user:api"):
        file.withdraw("user:api")
    credentials.close()


async def test_a_person_is_known_by_the_password_of_now(tmp_path: Path) -> None:
    file, credentials = CredentialFile(tmp_path), Credentials(tmp_path)
    allow_crew(tmp_path, "anna", "Anna Lind, master")
    credentials.look()
    anna: Principal | None = None
    for _ in range(2):
        anna = await credentials.of_person("10.0.0.7", "anna", PASSWORD)
        assert anna is not None
        assert (anna.name, anna.title, anna.is_person) == ("user:anna", "Anna Lind, master", True)
    assert anna is not None
    assert await credentials.of_person("10.0.0.7", "anna", "another password") is None
    assert await credentials.of_person("10.0.0.7", "nobody", PASSWORD) is None
    file.give_password("user:anna", anna.allowed, anna.title, hash_password("a new password"))
    credentials.look()
    assert await credentials.of_person("10.0.0.7", "anna", PASSWORD) is None
    again = await credentials.of_person("10.0.0.7", "anna", "a new password")
    assert again is not None
    assert (again.name, again.title) == (anna.name, anna.title)
    assert not credentials.holds(anna), "her password is another now"
    credentials.close()


async def test_a_password_is_taken_with_its_accents_beside_their_letters(tmp_path: Path) -> None:
    """As a Mac may send what it was typed."""
    file, credentials = CredentialFile(tmp_path), Credentials(tmp_path)
    file.give_password("user:zoe", CREW, "Zoë Née, mate", hash_password("le café crème"))
    credentials.look()
    for _ in range(2):
        assert await credentials.of_person("10.0.0.7", "zoe", "le cafe\u0301 cre\u0300me")
    assert await credentials.of_person("10.0.0.7", "zoe", "le cafe creme") is None
    credentials.close()


def test_what_does_not_read_leaves_those_of_before(tmp_path: Path) -> None:
    file, credentials = CredentialFile(tmp_path), Credentials(tmp_path)
    token = file.give_token("user:api", {"produce": ("registry",)})
    credentials.look()
    good = json.loads(file.path.read_bytes())
    [entry] = good["credentials"]
    for wrong in (
        b"",
        b"{",
        json.dumps({**good, "version": 2}).encode(),
        json.dumps({**good, "credentials": [entry, entry]}).encode(),
        json.dumps({**good, "credentials": [{**entry, "principal": "user:a b"}]}).encode(),
        json.dumps({**good, "credentials": [{**entry, "allow": {"everything": ["*"]}}]}).encode(),
        json.dumps({**good, "credentials": [{**entry, "token_sha256": None}]}).encode(),
        json.dumps({**good, "credentials": [{**entry, "password_argon2": "x"}]}).encode(),
    ):
        file.path.write_bytes(wrong)
        with pytest.raises((Corrupt, Misuse)):
            credentials.look()
        assert credentials.of_token(token), wrong
    credentials.close()


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    names = [f"user:program-{number}" for number in range(32)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: CredentialFile(tmp_path).give_token(name, {"consume": ("events",)}), names))
    assert [one.principal for one in CredentialFile(tmp_path).read()] == sorted(names)


def test_each_start_of_a_node_makes_a_new_token_for_its_own_user(tmp_path: Path) -> None:
    with refusal(RetryLater, "node_not_running"):
        operator_token(tmp_path)
    credentials, tokens = Credentials(tmp_path), set()
    for _ in range(2):
        credentials.take_up("tokyo")
        tokens.add(token := operator_token(tmp_path))
        operator = credentials.of_token(token)
        assert operator is not None
        assert operator.name == "node:tokyo"
        assert all(may(operator, verb, "registry") for verb in VERBS)
    assert len(tokens) == 2
    assert credentials.of_token(min(tokens - {operator_token(tmp_path)})) is None
    assert (tmp_path / "operator.token").stat().st_mode & 0o777 == 0o600
    credentials.close()


@pytest.mark.parametrize(
    ("password", "code"),
    [
        ("short", "password_short"),
        ("eleven char", "password_short"),
        ("x y z " * 34, "password_long"),
        ("Password1234", "password_common"),
        ("QWERTYUIOP123", "password_common"),
        ("abababababababab", "password_common"),
    ],
)
def test_a_password_is_long_enough_and_no_common_one(password: str, code: str) -> None:
    with pytest.raises(Misuse) as refused:
        hash_password(password)
    assert refused.value.code == code


def test_of_two_copies_the_newer_entry_counts_at_both_nodes(tmp_path: Path) -> None:
    """What was withdrawn at one comes back from no other; what single nodes show is not copied."""
    files = [CredentialFile(tmp_path / name) for name in ("bridge", "engine")]
    nodes = [Credentials(tmp_path / name) for name in ("bridge", "engine")]

    def copied() -> None:
        for _ in range(2):
            for one, other in (nodes, reversed(nodes)):
                one.look()
                other.merge(one.shared)
        for node in nodes:
            node.look()

    bridge, engine = files
    token = bridge.give_token("user:warehouse", {"consume": ("events",)})
    engine.give_token("gateway:bay-1", {"produce": ("landfall/#",)})
    bridge.give_token("node:engine", {"replicate": ("*",)})
    copied()
    assert [one.principal for one in engine.read()] == ["gateway:bay-1", "user:warehouse"]
    assert [one.principal for one in bridge.read()] == ["gateway:bay-1", "node:engine", "user:warehouse"]
    assert all(node.of_token(token) for node in nodes)
    engine.withdraw("user:warehouse")
    copied()
    assert not any(node.of_token(token) for node in nodes)
    given = bridge.give_token("user:warehouse", {"consume": ("events",)})
    copied()
    assert all(node.of_token(given) for node in nodes)
    each = [file.give_token("user:warehouse", {"consume": ("alerts",)}) for file in files]
    copied()
    assert [[node.of_token(one) is not None for one in each] for node in nodes] in ([[True, False]] * 2, [[False, True]] * 2)
    bridge.give_token("user:warehouse", {"consume": ("alerts",)})
    engine.withdraw("user:warehouse")
    copied()
    assert [file.read() for file in files] == [bridge.read(), tuple(one for one in bridge.read() if one.principal != "node:engine")]
    assert "user:warehouse" not in {one.principal for one in bridge.read()}, "of two changes at once to be withdrawn counts"
    assert nodes[0].merge([b"{", b'{"principal": "nobody", "allow": {}}', b'{"principal": "user:x", "allow": {}, "later": 1}']) == []
    for node in nodes:
        node.close()


def test_two_principals_never_have_one_token(tmp_path: Path) -> None:
    """Nobody could say which of them it is: refused by command and by hand, and left out where another node brings it."""
    file, other = CredentialFile(tmp_path / "one"), CredentialFile(tmp_path / "other")
    token = file.give_token("user:api", {"produce": ("registry",)})
    with refusal(Misuse, "token_shared", "user:api", "user:fanout"):
        file.give_token("user:fanout", {"consume": ("*",)}, token)
    assert [one.principal for one in file.read()] == ["user:api"]
    other.give_token("user:fanout", {"consume": ("*",)}, token)
    other.give_token("user:projector", {"consume": ("*",)})
    assert file.merge(other.read_all()) == ["user:projector"]
    assert [one.principal for one in file.read()] == ["user:api", "user:projector"]
    file.withdraw("user:api")
    assert file.merge(other.read_all()) == ["user:fanout"]
    kept = json.loads(other.path.read_text())
    kept["credentials"].append(kept["credentials"][0] | {"principal": "user:twin"})
    other.path.write_text(json.dumps(kept))
    with refusal(Corrupt, "credentials_corrupt", "user:fanout", "user:twin"):
        other.read()
