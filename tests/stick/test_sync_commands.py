"""Goal: what a ship has reaches a running port on a stick, by the commands a person types, as it would over a link: nothing more, once."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from landfall.cli.main import main
from landfall.node.node import Node
from landfall.offline.bundle_frames import SignedMessage, read_frames
from landfall.offline.bundle_messages import Carried
from landfall.offline.bundle_plan import position_file, read_position_file
from landfall.system.private_files import write_private
from streams.integrity.signing_keys import SigningKey, key_text
from streams.log import Append
from streams.model.block import Block
from streams.model.errors import Misuse
from streams.model.records import Record, to_batch
from tests.support.fleet import ROLES, address, readings, settings, until
from tests.support.ports import free_port
from tests.support.refusals import coded, codes_of, refusal


class Place:
    """A node's settings as its operator has them, in a file; the node itself when it is up."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.config = name, folder / name, folder / f"{name}.toml"
        self._settings = settings(name, folder, free_port())
        role, identity = ROLES[name]
        known = [
            {"node": other, "role": ROLES[other][0], "identity": ROLES[other][1]}
            for other in ROLES
            if other != name and (role != "customer" or other == "hq")
        ]
        node = {"node": name, "role": role, "identity": identity, "folder": str(self.folder), "port": self._settings.port}
        write_private(self.config, tomli_w.dumps({"node": {**node, "known": known}}).encode())

    @asynccontextmanager
    async def up(self) -> AsyncIterator[Node]:
        node = Node(self._settings)
        await node.start()
        try:
            yield node
        finally:
            await node.stop()

    def give(self, key: str) -> None:
        """Its operator writes down whose key `NODE=ed25519:…` is."""
        node, _, text = key.partition("=")
        told = tomllib.loads(self.config.read_text())
        for known in told["node"]["known"]:
            known |= {"keys": [text]} if known["node"] == node else {}
        write_private(self.config, tomli_w.dumps(told).encode())

    def key(self) -> str:
        """`NODE=ed25519:…`, as a person was told it."""
        return f"{self.name}={key_text(SigningKey.from_pem((self.folder / 'key').read_bytes()).public)}"


async def sync(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """`landfall sync …`: its exit code and what it says, after the code in brackets of an error that ended it."""

    def run() -> SystemExit:
        try:
            main(("sync", *words))
        except SystemExit as ended:
            return ended
        return SystemExit(0)

    ended = await asyncio.to_thread(run)
    printed = capsys.readouterr()
    return int(ended.code or 0), coded(ended, " ".join((printed.out + printed.err).split()))


def carried(stick: str, stream: str) -> set[int]:
    """The offsets of `stream` that anybody can find in the file."""
    with Path(stick).open("rb") as file:
        messages = [frame.message for frame in read_frames(file, None) if isinstance(frame, SignedMessage)]
    blocks = [Block.from_bytes(message.block) for message in messages if isinstance(message, Carried)]
    return {offset for block in blocks if block.stream == stream for offset in range(block.first, block.end)}


def alert(number: int) -> Append:
    return Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": str(number)})]))


async def test_a_ship_s_log_reaches_two_ports_on_sticks_in_any_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second stick carries only what Tokyo lacks; Singapore gets both, the later one first, and one of them twice."""
    ship, tokyo, singapore = (Place(name, tmp_path) for name in ("ship-a", "tokyo", "singapore"))
    one, two, has = (str(tmp_path / name) for name in ("one.stick", "two.stick", "tokyo.position"))
    async with ship.up() as aboard, tokyo.up() as node, singapore.up() as other:
        await aboard.append([readings(0, 3_000), alert(1)])
        code, told = await sync(capsys, "export", one, "--to", "tokyo", "-c", str(ship.config))
        assert (code, "signed with ed25519:" in told) == (0, True)
        code, told = await sync(capsys, "import", one, "-c", str(tokyo.config))
        assert code == 1
        assert ship.key().partition("=")[2] in told
        assert not node.log.position("containers")
        code, told = await sync(capsys, "import", one, "-c", str(tokyo.config), "--key", ship.key())
        assert code == 0, told
        assert node.log.position("containers") == aboard.log.position("containers")
        code, told = await sync(capsys, "import", one, "-c", str(tokyo.config))  # its key is known now: it signed what is here
        assert (code, " 0 records" in told) == (0, True), told

        assert (await sync(capsys, "position", has, "-c", str(tokyo.config)))[0] == 0
        await aboard.append([readings(3_000, 500), alert(2)])
        code, told = await sync(capsys, "export", two, "--to", "tokyo", "--position", has, "-c", str(ship.config))
        assert code == 0, told
        assert len(carried(two, "containers")) == 500
        for stick in (two, one, two):
            code, told = await sync(capsys, "import", stick, "-c", str(singapore.config), "--key", ship.key())
            assert code == 0, told
        assert (await sync(capsys, "import", two, "-c", str(tokyo.config)))[0] == 0
        for port in (node, other):
            for stream in ("containers", "alerts", "alerts.heads"):
                assert port.log.ledger(stream)[aboard.log.origin].held == aboard.log.ledger(stream)[aboard.log.origin].held
            assert port.log.history("MSKU1234565").rows.num_rows == 3_502
    with pytest.raises(SystemExit) as ended:  # and the signatures hold
        main(("log", "verify", "--folder", str(tokyo.folder), "--stream", "alerts", "--key", ship.key()))
    assert not ended.value.code
    assert "broken" not in capsys.readouterr().out


async def test_who_was_met_in_a_session_or_stands_in_the_settings_with_its_key_needs_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokyo met the ship, and has nothing that she signed; Singapore's settings have her key."""
    ship, tokyo, singapore = (Place(name, tmp_path) for name in ("ship-a", "tokyo", "singapore"))
    stick = str(tmp_path / "one.stick")
    async with ship.up() as aboard, tokyo.up() as node, singapore.up() as other:
        aboard.link([address("ship-a", "tokyo", node.url)])
        await until(lambda: bool(node.links.status()) and (tokyo.folder / "known.keys").exists())
        aboard.link([])
        await until(lambda: not node.links.status())
        await aboard.append([readings(0, 100)])
        assert (await sync(capsys, "export", stick, "--to", "tokyo", "-c", str(ship.config)))[0] == 0
        code, told = await sync(capsys, "import", stick, "-c", str(tokyo.config))
        assert (code, node.log.position("containers")) == (0, aboard.log.position("containers")), told
        assert (await sync(capsys, "import", stick, "-c", str(singapore.config)))[0] == 1
        singapore.give(ship.key())
        code, told = await sync(capsys, "import", stick, "-c", str(singapore.config))
        assert (code, other.log.position("containers")) == (0, aboard.log.position("containers")), told


async def test_a_stick_for_a_customer_carries_its_stream_and_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hq, stick, has = Place("hq", tmp_path), tmp_path / "ducks.stick", tmp_path / "ducks.position"
    async with hq.up() as node:
        rows = to_batch([Record("MSKU1234565", body={"n": 1})])
        await node.append([readings(0, 100), Append("customers/duckworks", rows), Append("customers/others", rows), alert(1)])
        assert (await sync(capsys, "export", str(stick), "--to", "ducks", "-c", str(hq.config)))[0] == 0
        assert {stream for stream in node.log.streams() if carried(str(stick), stream)} == {"customers/duckworks"}
        has.write_bytes(position_file(node.log, "ducks"))
        code, told = await sync(capsys, "export", str(stick), "--to", "ducks", "--position", str(has), "-c", str(hq.config))
        assert (code, "[nothing_for_receiver]" in told) == (2, True), told


async def test_a_customer_takes_a_stick_by_its_own_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sealed for it, with what it lacks by its own word; it brings nothing itself."""
    hq, ducks = Place("hq", tmp_path), Place("ducks", tmp_path)
    stick, has = str(tmp_path / "stick"), str(tmp_path / "ducks.position")
    rows = to_batch([Record("MSKU1234565", body={"n": 1})])
    async with hq.up() as node, ducks.up() as site:
        await node.append([readings(0, 100), Append("customers/duckworks", rows)])
        seal = (await sync(capsys, "key", "-c", str(ducks.config)))[1].split()[-1]
        assert (await sync(capsys, "position", has, "-c", str(ducks.config)))[0] == 0
        words = ("--to", "ducks", "--position", has, "--seal", seal, "-c", str(hq.config))
        assert (await sync(capsys, "export", stick, *words))[0] == 0
        code, told = await sync(capsys, "import", stick, "-c", str(ducks.config), "--key", hq.key())
        assert (code, " 1 record " in told) == (0, True), told
        assert site.log.position("customers/duckworks") == node.log.position("customers/duckworks")
        code, told = await sync(capsys, "export", stick, "--to", "hq", "-c", str(ducks.config))
        assert (code, "[nothing_for_receiver]" in told) == (2, True), told


@pytest.mark.parametrize(
    ("settled", "code"),
    [
        ({"containers": {"ship-a@1": [[-3, 5]]}}, "offsets_invalid"),
        ({"containers": {"ship-a@1": [[5, 3]]}}, "offsets_invalid"),
        ({"containers": {"ship-a@1": [[0, 1 << 63]]}}, "offsets_invalid"),
        ({"containers": {"ship-a": [[0, 5]]}}, "origin_invalid"),
        ({"containers": {f"{'x' * 5_000}@1": [[0, 5]]}}, "node_name_invalid"),
        ({"no such!": {"ship-a@1": [[0, 5]]}}, "stream_invalid"),
        ({"s" * 5_000: {"ship-a@1": [[0, 5]]}}, "stream_invalid"),
    ],
)
def test_a_position_file_of_what_can_not_be_is_refused(settled: dict[str, Any], code: str) -> None:
    data = json.dumps({"landfall": "position 1", "node": "tokyo", "settled": settled}).encode()
    with refusal(Misuse, "position_unreadable") as refused:
        read_position_file(data, "tokyo")
    assert refused.value.__cause__ is not None
    assert codes_of(refused.value.__cause__) == [code]
    assert len(str(refused.value)) < 500


async def test_a_sealed_stick_opens_at_its_receiver_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ship, tokyo, singapore = (Place(name, tmp_path) for name in ("ship-a", "tokyo", "singapore"))
    stick = str(tmp_path / "stick")
    async with ship.up() as aboard, tokyo.up() as node, singapore.up() as other:
        await aboard.append([readings(0, 1_000)])
        code, told = await sync(capsys, "key", "-c", str(tokyo.config))
        seal = told.split()[-1]
        assert (code, seal[:7]) == (0, "x25519:")
        assert (await sync(capsys, "key", "-c", str(tokyo.config)))[1].split()[-1] == seal
        assert (tokyo.folder / "opening-key").stat().st_mode & 0o777 == 0o600
        assert (await sync(capsys, "export", stick, "--to", "tokyo", "--seal", seal, "-c", str(ship.config)))[0] == 0
        assert carried(stick, "containers") == set()
        code, told = await sync(capsys, "import", stick, "-c", str(singapore.config), "--key", ship.key())
        assert (code, "this node has no key to open anything" in told) == (1, True), told
        assert not other.log.position("containers")
        assert (await sync(capsys, "import", stick, "-c", str(tokyo.config), "--key", ship.key()))[0] == 0
        assert node.log.position("containers") == aboard.log.position("containers")


async def test_a_ship_whose_disk_was_put_back_gets_her_own_records_on_a_stick(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """She can not know that she is an old copy until she sees her own future: then she opens a new generation."""
    ship, tokyo = Place("ship-a", tmp_path), Place("tokyo", tmp_path)
    out, back = str(tmp_path / "out.stick"), str(tmp_path / "back.stick")
    async with ship.up() as aboard:
        await aboard.append([readings(0, 100)])
        origin = aboard.log.origin
    shutil.copytree(ship.folder, tmp_path / "snapshot")
    async with ship.up() as aboard, tokyo.up():
        await aboard.append([readings(100, 200)])
        whole = aboard.log.history("MSKU1234565").rows
        assert (await sync(capsys, "export", out, "--to", "tokyo", "-c", str(ship.config)))[0] == 0
        assert (await sync(capsys, "import", out, "-c", str(tokyo.config), "--key", ship.key()))[0] == 0
        assert (await sync(capsys, "export", back, "--to", "ship-a", "-c", str(tokyo.config)))[0] == 0
    shutil.rmtree(ship.folder)
    shutil.copytree(tmp_path / "snapshot", ship.folder)
    async with ship.up() as aboard:
        assert aboard.log.origin == origin
        code, told = await sync(capsys, "import", back, "-c", str(ship.config), "--key", tokyo.key())
        assert code == 0, told
        assert aboard.log.origin != origin
        assert aboard.log.history("MSKU1234565").rows.equals(whole)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("export", "{}/x", "--to", "kobe"), "'kobe' is not known at 'ship-a'"),
        (("export", "{}/x", "--to", "tokyo", "--position", "{}/none"), "can not be read"),
        (("export", "{}/x", "--to", "tokyo", "--position", "{}/ship-a.toml"), "this is no Position file"),
        (("export", "{}/x", "--to", "tokyo", "--seal", "ed25519:AA"), "is no key to seal for"),
        (("export", "{}/no/such/folder/x", "--to", "tokyo"), f"can not be written: {os.strerror(errno.ENOENT)}"),
        (("export", "{}/ship-a/log/segments/0000000001.segment", "--to", "tokyo"), "is in the folder of the log"),
        (("position", "{}/no/such/folder/x"), f"can not be written: {os.strerror(errno.ENOENT)}"),
        (("position", "{}/ship-a/log/index.sqlite"), "is in the folder of the log"),
        (("import", "{}/none"), "none can not be read"),
    ],
)
async def test_a_slip_is_told_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str) -> None:
    ship = Place("ship-a", tmp_path)
    async with ship.up() as node:
        await node.append([readings(0, 10)])
        code, said = await sync(capsys, *(word.format(tmp_path) for word in words), "-c", str(ship.config))
    assert code == 2
    assert told in said


async def test_a_node_that_does_not_run_takes_nothing_and_nothing_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ship, tokyo = Place("ship-a", tmp_path), Place("tokyo", tmp_path)
    stick = str(tmp_path / "stick")
    async with ship.up() as node, tokyo.up():
        await node.append([readings(0, 10)])
    assert (await sync(capsys, "export", stick, "--to", "tokyo", "-c", str(ship.config)))[0] == 0
    code, told = await sync(capsys, "import", stick, "-c", str(tokyo.config), "--key", ship.key())
    assert (code, "[node_unreachable]" in told) == (2, True)
    async with tokyo.up() as port:
        assert (await sync(capsys, "import", stick, "-c", str(tokyo.config), "--key", ship.key()))[0] == 0
        assert port.log.history("MSKU1234565").rows.num_rows == 10
