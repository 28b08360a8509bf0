"""Goal: a process that can not listen where its settings say ends with a sentence that says what to write, whichever process it is."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from landfall.demo.fleet import places
from streams.errors import Misuse
from streams.listening import listening
from streams.node.node import Node
from tests.landfall.commands import called, process_here
from tests.node.fleet import settings, started

NODE = 'node = "{name}"\nrole = "{role}"\nidentity = "{identity}"\nfolder = "{folder}/node"\n'
SHIP = "[node]\n" + NODE.format(name="albatross", role="ship", identity="9321483", folder="{folder}")
PORT = "[node]\n" + NODE.format(name="tokyo", role="port", identity="JPTYO", folder="{folder}")
HQ = 'log = "{folder}/log"\ndoor = "http://127.0.0.1:9"\ntoken = "door"\ndatabase_url = "sqlite:///{folder}/serving.db"\n'
INTAKES = "".join(f'[[intakes]]\nat = "{at}"\n' for at in places().values())
SETTINGS = {
    "ship": SHIP + 'host = "{host}"\nport = {port}\n',
    "port": PORT + '[intake.endpoint]\nhost = "{host}"\nport = {port}\nanonymous_publish = ["landfall/#"]\n',
    "projector": HQ + 'host = "{host}"\nhealth_port = {port}\n',
    "api": HQ + 'accounts = "{folder}/accounts.db"\nhost = "{host}"\nport = {port}\n',
    "dashboards": 'host = "{host}"\nport = {port}\n',
    "sim run": 'data = "{folder}/sim"\nboxes = 40\nclock_host = "{host}"\nclock_port = {port}\n' + INTAKES,
}
WHAT = {
    "ship": "the door of 'albatross'",
    "port": "the MQTT endpoint",
    "projector": "/healthz",
    "api": "the API",
    "dashboards": "the pages",
    "sim run": "the fleet's clock",
}
"""Which part of each process listens where the test says."""


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    """A port of this machine on which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def ended(folder: Path, name: str, host: str, port: int) -> tuple[int, str]:
    """How `landfall <name>` ends, told to listen there, and what it says at last."""
    config = folder / "settings.toml"
    config.write_text(SETTINGS[name].format(folder=folder, host=host, port=port))
    with process_here():
        done = called(*name.split(), "-c", config)
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", SETTINGS)
def test_a_port_in_use_is_told_by_every_process(name: str, taken: int, tmp_path: Path) -> None:
    code, told = ended(tmp_path, name, "127.0.0.1", taken)
    assert f"landfall: {WHAT[name]} can not listen on 127.0.0.1:{taken}: something listens there already" in told
    assert "→ stop it, or write another port" in told
    assert (code, "Traceback" in told) == (2, False)


async def test_a_node_that_can_not_listen_closes_its_log_and_the_next_start_finds_no_damage(taken: int, tmp_path: Path) -> None:
    node = Node(settings("hq", tmp_path, taken))
    with pytest.raises(Misuse, match="something listens there already"):
        await node.start()
    again = await started("hq", tmp_path)
    assert "exceptions" not in again.metrics.body(0, 0)["counts"]
    await again.stop()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_host_that_is_none_is_told_by_every_process(name: str, tmp_path: Path) -> None:
    code, told = ended(tmp_path, name, "300.1.1.1", 18_999)
    assert f"landfall: {WHAT[name]} can not listen on 300.1.1.1:18999: no machine is known by that name" in told
    assert '→ write an address of this machine as its host, like "127.0.0.1"' in told
    assert (code, "Traceback" in told) == (2, False)


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (OSError(errno.EADDRNOTAVAIL, "x"), "no address of this machine; write an address of this machine as its host"),
        (OSError("could not bind on any address"), "no address of this machine; write an address"),
        (OSError(errno.EACCES, "x"), "this user may not; write a port from 1024 on"),
        (OSError(errno.EAFNOSUPPORT, "no such family"), "no such family; write an address of this machine"),
        (UnicodeError("label too long"), "no machine is known by that name; write an address of this machine"),
    ],
)
def test_each_reason_has_its_words(problem: Exception, why: str) -> None:
    with pytest.raises(Misuse) as told, listening("the door", "host", 1):
        raise problem
    assert why in f"{told.value.args[0]}; {told.value.hint}"


def test_an_address_of_another_machine_is_told() -> None:
    """The real thing: 192.0.2.1 is for documentation, and nobody's (RFC 5737)."""
    with pytest.raises(Misuse, match="no address of this machine"), socket.socket() as door, listening("the door", "192.0.2.1", 0):
        door.bind(("192.0.2.1", 0))
