"""Goal: who breaks the rules again and again is turned away for longer each time: it fills no disk with what is told of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from landfall.node.peers import peer_penalties
from landfall.node.peers.peer_penalties import Barred
from streams.replication import sync_messages as m
from streams.replication.effects import BROKE_RULES
from tests.node.test_hostile import broken, lying, nodes, told
from tests.support.fleet import address, readings, until


def test_each_time_for_twice_as_long_until_it_has_behaved_for_a_while() -> None:
    now_s = 100.0
    door = Barred(lambda: now_s, lambda *_, **__: None)
    waits = []
    for _ in range(9):
        door.broke("tokyo")
        began_s = now_s
        refusal = door.refusal("tokyo")
        assert refusal
        assert refusal.code == "peer_barred"
        assert door.refusal("sydney") is None
        while door.refusal("tokyo"):
            now_s += 0.5
        waits.append(now_s - began_s)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    now_s += peer_penalties.FORGIVEN_S
    door.broke("tokyo")
    now_s += 1
    assert door.refusal("tokyo") is None


def test_what_is_said_of_a_peer_again_and_again_is_counted_and_told_ever_more_seldom() -> None:
    """Goal: one forged block in each of its sessions fills no disk, and no count of them is lost."""
    now_s, told = 100.0, list[dict[str, Any]]()
    door = Barred(lambda: now_s, lambda reason, outcome, **details: told.append({"at_s": now_s, **details}))
    for _ in range(7_200):
        door.heard("tokyo", "a block from a peer does not verify", "not taken", {"first": 1})
        now_s += 1
    assert len(told) == peer_penalties.REPORTED_AT_ONCE + 6
    later = [one["at_s"] for one in told[peer_penalties.REPORTED_AT_ONCE - 1 :]]
    assert [round(after - before) for before, after in itertools.pairwise(later)] == [60, 120, 240, 480, 960, 1920]
    assert [one["not_told"] for one in told[peer_penalties.REPORTED_AT_ONCE :]] == [59, 119, 239, 479, 959, 1919]
    door.heard("sydney", "a block from a peer does not verify", "not taken", {})
    door.heard("tokyo", "a peer holds up records", "taken from another peer", {})
    assert len(told) == peer_penalties.REPORTED_AT_ONCE + 8, "of another, or another reason, it is told at once"
    now_s += peer_penalties.SELDOM_S + 1
    door.heard("tokyo", "a block from a peer does not verify", "not taken", {})
    assert told[-1]["not_told"] > 0, "and what was left untold is in the next word"


async def test_who_broke_the_rules_is_told_to_come_later_and_named_once_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_penalties, "FIRST_S", 600.0)
    monkeypatch.setattr(peer_penalties, "MOST_S", 600.0)
    async with nodes(tmp_path, "ship-a", "hq") as (ship, hq):
        async with lying(hq) as liar:
            await liar.say(m.Fragment(7, b"x"))
            await until(lambda: broken(hq, "tokyo") == ["message_unexpected"])
        await until(lambda: "tokyo" not in hq.links.status())
        headers = {"X-Landfall-Node": "tokyo", "Authorization": "Bearer token-of-tokyo"}
        async with aiohttp.ClientSession(headers=headers) as http:
            for _ in range(20):
                async with http.get(f"{hq.url}/sync") as answer:
                    assert (answer.status, (await answer.json())["code"]) == (403, "peer_barred")
        hq.link([address("hq", "tokyo", "http://127.0.0.1:9")])
        assert hq.metrics.body(0, 0)["counts"]["links_refused"] == 20
        ship.link([address("ship-a", "hq", hq.url)])
        await ship.append([readings(0, 5)])
        await until(lambda: hq.log.position("containers") == ship.log.position("containers"))
        assert len([one for one in told(hq) if one["reason"] == BROKE_RULES]) == 1
        assert "link.tokyo.dial_failed" not in hq.metrics.body(0, 0)["counts"], "nor is it dialled"
