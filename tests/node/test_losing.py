"""Goal: what nobody has any more is given up by its origin, or by headquarters for a dead one, and by nobody else; and every node hears."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.cli import lose_commands
from landfall.node.lost_offsets import PeerClaims, losing
from landfall.node.node import Node
from streams.model.errors import Misuse, NotAllowed
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from tests.landfall.commands import run
from tests.proof.kit import all_blocks
from tests.streams.logkit import append_rows, open_log, rows
from tests.support.fleet import address, readings, started, until

STREAM = "containers"
Printed = pytest.CaptureFixture[str]


def told(node: Node, monkeypatch: pytest.MonkeyPatch, printed: Printed, *words: object) -> tuple[int, str, str]:
    """`landfall log lose` at the running `node`; to be called from a thread."""
    return called_at(node, monkeypatch, printed, "lose", STREAM, *words)


def called_at(node: Node, monkeypatch: pytest.MonkeyPatch, printed: Printed, *words: object) -> tuple[int, str, str]:
    """`landfall log …` with the settings of the running `node`; to be called from a thread."""
    host, port = node.url.removeprefix("http://").split(":")
    settings = node.settings.model_copy(update={"host": host, "port": int(port)})
    monkeypatch.setattr(lose_commands, "node_settings", lambda config: settings)
    return run(printed, "log", *words, "--config", "its.toml")


def gone(node: Node, origin: Origin) -> RangeSet:
    one = node.log.ledger(STREAM).get(origin)
    return one.gone.get("lost", RangeSet()) if one else RangeSet()


def with_a_hole(folder: Path, *nodes: Node) -> Origin:
    """These hold 0-4 and 8-12 of a ship that is sunk; offsets 4-8 nobody has."""
    ship = open_log(folder / "sunk", node="ship-a")
    for count in (4, 4, 4):
        append_rows(ship, rows(count))
    blocks = [block for block in all_blocks(ship, STREAM, ship.origin) if block.first != 4]
    for node in nodes:
        node.log.admit(blocks)
    ship.close()
    return ship.origin


async def test_headquarters_loses_a_dead_ships_and_the_ports_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    try:
        origin = with_a_hole(tmp_path, hq, tokyo)
        tokyo.link([address("tokyo", "hq", hq.url)])
        await until(lambda: "tokyo" in hq.links.settled((STREAM, origin)))

        async def lose(node: Node, *words: object) -> tuple[int, str, str]:
            return await asyncio.to_thread(told, node, monkeypatch, capsys, *words)

        for words, refused in (
            ((origin, "7-12", "--yes"), "held_here"),
            ((origin, "8-4", "--yes"), "offsets_invalid"),
            (("ship-b@1", "4-8", "--yes"), "origin_unknown"),
            (("nobody", "4-8", "--yes"), "origin_invalid"),
        ):
            code, _, complaint = await lose(hq, *words)
            assert code == 2, words
            assert f"[{refused}]" in complaint, complaint
        code, _, complaint = await lose(tokyo, origin, "4-8", "--yes")
        assert (code, "[origin_elsewhere]" in complaint) == (2, True), complaint
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        code, out, _ = await lose(hq, origin, "4-8")
        assert code == 1, "asked, and nobody said yes"
        assert "ducks, ship-a" in out
        assert not gone(hq, origin)
        assert not gone(tokyo, origin)

        code, out, complaint = await lose(hq, origin, "4-8", "--yes")
        assert (code, out.splitlines()[-1]) == (0, f"{STREAM}:{origin} 4-8: lost"), complaint
        assert gone(hq, origin) == RangeSet([(4, 8)])
        await until(lambda: gone(tokyo, origin) == RangeSet([(4, 8)]))
        code, _, complaint = await lose(hq, origin, "4-8", "--yes")
        assert (code, "[nothing_wanted]" in complaint) == (2, True), complaint
        await hq.stop()
        code, out, _ = run(capsys, "log", "gaps", STREAM, "--folder", hq.settings.folder, "--format", "json")
        assert code == 0
        assert '"lost"' in out
    finally:
        await asyncio.gather(hq.stop(), tokyo.stop())


async def test_a_ship_loses_her_own_and_headquarters_hears_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    """Of an earlier generation of hers: what a peer brings of it is taken, what nobody has is given up."""
    ship, hq = await started("ship-a", tmp_path), await started("hq", tmp_path)
    try:
        origin = with_a_hole(tmp_path, ship)
        ship.link([address("ship-a", "hq", hq.url)])
        await until(lambda: origin in hq.log.ledger(STREAM) and hq.log.ledger(STREAM)[origin].held.count() == 8)
        assert hq.log.ledger(STREAM)[origin].wanted(RangeSet([(0, 12)])) == RangeSet([(4, 8)])
        code, _, complaint = await asyncio.to_thread(told, hq, monkeypatch, capsys, origin, "4-8", "--yes")
        assert (code, "[origin_in_session]" in complaint) == (2, True), complaint
        code, _, complaint = await asyncio.to_thread(told, ship, monkeypatch, capsys, origin, f"4-{10**17}", "--yes")
        assert (code, "[offsets_not_given]" in complaint) == (2, True), complaint
        code, _, complaint = await asyncio.to_thread(told, ship, monkeypatch, capsys, origin, "4-8", "--yes")
        assert code == 0, complaint
        await until(lambda: gone(hq, origin) == RangeSet([(4, 8)]))
        assert hq.log.position(STREAM).to_json()[str(origin)] == 12, "nobody waits for them"
    finally:
        await asyncio.gather(ship.stop(), hq.stop())


async def test_what_a_peer_in_session_has_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    """Told as the peer told it, before it has come: here it may not be fetched, for its block is damaged there."""
    hq = await started("hq", tmp_path)
    try:
        origin = with_a_hole(tmp_path, hq)
        monkeypatch.setattr(hq.links, "settled", lambda key: {"tokyo": RangeSet([(0, 6)])})
        code, _, complaint = await asyncio.to_thread(told, hq, monkeypatch, capsys, origin, "4-8", "--yes")
        assert (code, "[held_by_peer]" in complaint and "'tokyo'" in complaint and "4-6" in complaint) == (2, True), complaint
        assert not gone(hq, origin)
    finally:
        await hq.stop()


async def test_what_its_living_origin_dropped_is_declared_once_nobody_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    """Headquarters' disk is lost: a port has dropped all below its floor, and nobody has it any more. Who is away is named first."""
    tokyo, hq = await started("tokyo", tmp_path), await started("hq", tmp_path)
    try:
        await tokyo.append([readings(0, 20)])
        origin = tokyo.log.origin
        tokyo.log.trim(STREAM, origin, 12)
        tokyo.link([address("tokyo", "hq", hq.url)])
        await until(lambda: origin in hq.log.ledger(STREAM) and hq.log.ledger(STREAM)[origin].held.count() == 8)
        assert hq.log.position(STREAM)[origin] == 0, "everybody who reads in order waits"

        async def missing(*words: object) -> tuple[int, str, str]:
            return await asyncio.to_thread(called_at, hq, monkeypatch, capsys, "missing", *words)

        code, out, _ = await missing()
        assert (code, f"{STREAM}:{origin} 0-12" in out, "ducks, ship-a, singapore, sydney" in out) == (1, True, True), out
        code, out, _ = await missing("--declare", "--without", "ducks")
        assert (code, ": ship-a, singapore, sydney" in out) == (1, True)
        code, _, complaint = await asyncio.to_thread(told, hq, monkeypatch, capsys, origin, "0-12", "--yes")
        assert (code, "[peers_away]" in complaint) == (2, True), complaint
        code, _, complaint = await asyncio.to_thread(told, hq, monkeypatch, capsys, origin, "0-14", "--yes")
        assert (code, "[held_here]" in complaint) == (2, True), complaint
        away = [word for node in ("ducks", "ship-a", "singapore", "sydney") for word in ("--without", node)]
        code, out, complaint = await missing("--declare", *away)
        assert (code, "declared gone, expired" in out) == (0, True), out + complaint
        assert hq.log.ledger(STREAM)[origin].gone["expired"] == RangeSet([(0, 12)])
        assert hq.log.position(STREAM)[origin] == 20
        assert (await missing())[:2] == (0, "")
    finally:
        await asyncio.gather(tokyo.stop(), hq.stop())


async def test_what_a_peer_declared_gone_it_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    """A second port never had them and considers them gone: that keeps nobody from declaring them, while its claim is not believed yet."""
    tokyo, hq, sydney = await started("tokyo", tmp_path), await started("hq", tmp_path), await started("sydney", tmp_path)
    key = STREAM, tokyo.log.origin
    try:
        await tokyo.append([readings(0, 20)])
        tokyo.log.trim(*key, 12)
        sydney.log.declare_gone(*key, 0, 12, "expired")
        tokyo.link([address("tokyo", "hq", hq.url)])
        sydney.link([address("sydney", "hq", hq.url)])
        await until(lambda: key[1] in hq.log.ledger(STREAM) and hq.log.ledger(STREAM)[key[1]].held.count() == 8)
        await until(lambda: "sydney" in hq.links.sessions())
        await until(lambda: list(hq.links.sessions()["sydney"].sender.track(key).gone) == [(0, 12)])
        away = [word for node in ("ducks", "ship-a", "singapore") for word in ("--without", node)]
        code, out, complaint = await asyncio.to_thread(called_at, hq, monkeypatch, capsys, "missing", "--declare", *away)
        assert code == 0, out + complaint
        assert hq.log.ledger(STREAM)[key[1]].gone["expired"] == RangeSet([(0, 12)])
    finally:
        await asyncio.gather(tokyo.stop(), hq.stop(), sydney.stop())


async def test_what_a_peer_still_holds_is_not_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    hq = await started("hq", tmp_path)
    try:
        origin = with_a_hole(tmp_path, hq)
        said = PeerClaims({"ship-a": RangeSet([(0, 12)]), "tokyo": RangeSet([(0, 12)])}, {"ship-a": 8, "tokyo": 2}, ("ship-a", "tokyo"))
        found = losing(hq.log, hq.settings.me(), (STREAM, origin), RangeSet([(4, 8)]), said)
        with pytest.raises(Misuse) as refused:
            found.check()
        assert (refused.value.code, found.peers) == ("held_by_peer", {"tokyo": RangeSet([(4, 8)])})
        with pytest.raises(NotAllowed) as forbidden:
            losing(hq.log, hq.settings.me(), (STREAM, origin), RangeSet([(4, 8)]), replace(said, floors={"ship-a": 6}))
        assert forbidden.value.code == "origin_in_session"
        monkeypatch.setattr(hq.links, "settled", lambda key: {})
        assert (await asyncio.to_thread(called_at, hq, monkeypatch, capsys, "missing"))[0] == 0
    finally:
        await hq.stop()
