"""Goal: a process that can not listen where its settings say ends with a sentence that says what to write, whichever process it is."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from landfall.demo.fleet_settings import places
from landfall.node.http.connection_guard import Doorkeeper
from landfall.node.node import Node
from landfall.runtime.health_server import serve_health
from landfall.system.http_headers import DATA_HEADERS
from landfall.system.listen_address import ExhaustionFilter, address, listening, url_here
from landfall.system.private_files import write_private
from streams.model.errors import Misuse
from tests.landfall.commands import called, process_here
from tests.support.fleet import settings, started, until
from tests.support.refusals import refusal

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
    write_private(config, SETTINGS[name].format(folder=folder, host=host, port=port).encode())
    with process_here():
        done = called(*name.split(), "-c", config)
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", SETTINGS)
def test_a_port_in_use_is_told_by_every_process(name: str, taken: int, tmp_path: Path) -> None:
    code, told = ended(tmp_path, name, "127.0.0.1", taken)
    assert f"[address_taken] landfall: {WHAT[name]} can not listen on 127.0.0.1:{taken}: " in told
    assert (code, "Traceback" in told) == (2, False)


async def test_a_node_that_can_not_listen_closes_its_log_and_the_next_start_finds_no_damage(taken: int, tmp_path: Path) -> None:
    node = Node(settings("hq", tmp_path, taken))
    with refusal(Misuse, "address_taken"):
        await node.start()
    again = await started("hq", tmp_path)
    assert "exceptions" not in again.metrics.body(0, 0)["counts"]
    await again.stop()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_host_that_is_none_is_told_by_every_process(name: str, tmp_path: Path) -> None:
    code, told = ended(tmp_path, name, "300.1.1.1", 18_999)
    assert f"[host_unknown] landfall: {WHAT[name]} can not listen on 300.1.1.1:18999: " in told
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
    with refusal(Misuse, "address_not_here"), socket.socket() as door, listening("the door", "192.0.2.1", 0):
        door.bind(("192.0.2.1", 0))


def test_ipv6_addresses_stand_in_brackets() -> None:
    """And a door at every address is found by this machine's own."""
    assert [address(host, 80) for host in ("::1", "127.0.0.1", "tokyo")] == ["[::1]:80", "127.0.0.1:80", "tokyo:80"]
    assert url_here("::", 80) == "http://[::1]:80"
    assert url_here("0.0.0.0", 80) == "http://127.0.0.1:80"
    with refusal(Misuse, "address_taken", "on [::1]:80:"), listening("the door", "::1", 80):
        raise OSError(errno.EADDRINUSE, "x")


@pytest.mark.parametrize("host", ["::1", "::"])
async def test_a_node_at_ipv6_is_asked_by_its_commands(tmp_path: Path, host: str) -> None:
    node = Node(settings("tokyo", tmp_path).model_copy(update={"host": host}))
    await node.start()
    port = int(node.url.rpartition(":")[2])
    assert node.url == f"http://[{host}]:{port}"
    config = tmp_path / "port.toml"
    config.write_text(
        PORT.format(folder=tmp_path) + f'host = "{host}"\nport = {port}\n' + '[intake.endpoint]\nanonymous_publish = ["landfall/#"]\n'
    )
    lost = ("log", "lose", "containers", "tokyo@1", "0-1", "-c", config, "--yes")
    try:
        done = await asyncio.to_thread(called, *lost)
    finally:
        await node.stop()
    assert (done.returncode, "can not be reached" in done.stderr, "does not answer" in done.stderr) == (2, False, False), done.stderr


def test_a_health_door_may_be_at_ipv6() -> None:
    with serve_health("::1", 0, lambda: (True, {})) as port, urlopen(f"http://[::1]:{port}/healthz") as answer:
        assert answer.status == 200
        assert DATA_HEADERS.items() <= dict(answer.headers).items()


async def test_out_of_file_descriptors_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A real listener of asyncio, and no file descriptor left; it accepts again once there are some."""
    now_s, accepted = 0.0, asyncio.Event()

    def let_in(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        accepted.set()

    def said() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == "asyncio"]

    filtering = ExhaustionFilter(lambda: now_s)
    logger = logging.getLogger("asyncio")
    [gate] = await Doorkeeper(asyncio.get_running_loop().time).gates("127.0.0.1", 0)
    server = await asyncio.start_server(let_in, sock=gate)
    knocking = [socket.socket() for _ in range(3)]
    logger.addFilter(filtering)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fill: list[int] = []
    gc.collect()  # what other tests left would give descriptors back meanwhile
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(name) for name in os.listdir("/proc/self/fd")) + 16, hard))
    with suppress(OSError):
        while True:
            fill.append(os.dup(0))
    try:
        for one in knocking:
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(server.sockets[0].getsockname())
        async with asyncio.timeout(60):
            await until(lambda: bool(said()))
            assert len(said()) == 1, "asyncio tries a hundred times before it pauses"
            assert not filtering.due()
            now_s = 61.0
            assert filtering.due()
            for record in said():
                assert (record.levelname, record.exc_info) == ("ERROR", None)
                assert os.strerror(errno.EMFILE) in record.getMessage()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await accepted.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        logger.removeFilter(filtering)
        for descriptor in fill:
            os.close(descriptor)
        for one in knocking:
            one.close()
        server.close()
        await server.wait_closed()
