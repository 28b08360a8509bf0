"""Goal: a key that a person gives counts for the node it is of, and for no other; one that would count for nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.integrity.signing_keys import SigningKey, key_text
from streams.model.records import Record, to_batch
from tests.landfall.commands import run
from tests.proof.kit import KEY, STRANGER, SigningNode, all_blocks
from tests.streams.logkit import open_log, rows

OTHER = SigningKey.from_seed(b"o" * 32)
MINE, STRANGE, OTHERS = (key_text(key.public) for key in (KEY, STRANGER, OTHER))


@pytest.fixture
def ship(tmp_path: Path) -> Path:
    """A ship's copy: its own records alone, signed with KEY."""
    node = SigningNode(tmp_path / "ship")
    node.append(rows(20))
    node.sign()
    node.log.close()
    return tmp_path / "ship"


@pytest.fixture
def port(tmp_path: Path, ship: Path) -> Path:
    """A port's copy of the ship's and another's records; its registry says that the other's are of a key which did not sign them."""
    one, other = open_log(ship), SigningNode(tmp_path / "other", "ship-b", OTHER)
    other.append(rows(20))
    other.sign()
    port = SigningNode(tmp_path / "port", "port-c", SigningKey.from_seed(b"p" * 32))
    pinned = Record("node/ship-b", body={"value": {"keys": [STRANGE]}, "version": 1})
    port.append(to_batch([pinned]), "registry")
    for log in (one, other.log):
        for stream in ("containers", "containers.heads"):
            port.log.admit(all_blocks(log, stream, log.origin))
    for log in (one, other.log, port.log):
        log.close()
    return tmp_path / "port"


def test_a_key_alone_is_held_against_what_the_one_node_signed(ship: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "log", "verify", "-f", ship, "--key", MINE)
    assert (code, "by the key that was given" in out) == (0, True)
    code, out, _ = run(capsys, "log", "verify", "-f", ship, "--key", STRANGE)
    assert (code, "NOT BELIEVED" in out) == (1, True)


def test_a_key_that_would_count_for_nothing_is_refused(ship: Path, port: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").write_text("# no key yet\n")
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    for folder, key, told in (
        (ship, tmp_path / "no-such-file", "is no public key, nor a file"),
        (ship, "long" * 2_000, "is no public key, nor a file"),
        (ship, tmp_path / "empty", "no public key is in"),
        (ship, tmp_path / "picture", "key_file_no_text"),
        (ship, f"ship-z={MINE}", "key_of_another"),
        (port, MINE, "key_without_node"),
    ):
        code, out, err = run(capsys, "log", "verify", "-f", folder, "--stream", "containers", "--key", key)
        assert (code, out, told in err) == (2, "", True), err
    for key in ("long" * 2_000, tmp_path / "picture"):
        code, _, err = run(capsys, "proof", "check", tmp_path / "empty", "--key", key)
        assert (code, "] landfall: " in err) == (2, True), err


def test_a_key_given_for_one_node_leaves_the_registry_s_for_the_others(port: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("log", "verify", "-f", port, "--stream", "containers")
    code, out, _ = run(capsys, *ask, "--key", f"ship-a={MINE}")
    assert code == 1
    assert out.count("NOT BELIEVED: ") == 1
    assert f"ship-b, which by the registry of this copy are {STRANGE}" in out
    code, out, _ = run(capsys, *ask, "--key", f"ship-a={MINE}", "--key", f"ship-b={OTHERS}")
    assert (code, out.count("by the key that was given")) == (0, 2), "a given key goes before the registry's of its node"
