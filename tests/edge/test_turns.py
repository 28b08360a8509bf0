"""Goal: of two nodes of one ship one keeps the dear link, and the other takes it over when that one is gone or has no way ashore."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import SecretStr

from edge.links.link_choice import LinkChoice
from edge.links.satellite_election import STALE_S, Companion, spent
from edge.settings import Headquarters
from landfall.node.node import Node
from landfall.node.settings import LinkSettings, PeerAddress
from streams.config.roles import LinkClass
from streams.log import Append
from streams.model.records import BODY, Record, to_batch
from tests.node.test_budgets import up
from tests.node.test_companions import alert, has, settings, started
from tests.streams.logkit import open_log
from tests.support.fleet import address, readings, until
from tests.support.proxy import Proxy

Links = Mapping[LinkClass, LinkSettings]
NOW_MS = 1_777_593_600_000
BUDGET, RESERVE = 3_000_000, 600_000
CARRIED = ("alerts", "containers")
SATELLITE = LinkSettings(streams=CARRIED, rate_bit_s=4_000_000, budget_bytes_per_day=BUDGET, alerts_reserve_bytes=RESERVE)
FRUGAL: Links = {"satellite": SATELLITE}
NO_LINKS: Links = {}


@asynccontextmanager
async def at_sea(name: str, folder: Path, hq_url: str, peers: Sequence[PeerAddress] = (), links: Links = NO_LINKS) -> AsyncIterator[Node]:
    """A node of the ship that may dial headquarters over the satellite, and finds another without a way after half a second.

    `peers`: whom it always dials, over the ship's own network.
    """
    more = {"metrics_every_s": 0.1, "peers": tuple(peers), "links": links}
    node = Node(settings(name, folder).model_copy(update=more), process="ship")
    shore = Headquarters(node="hq", url=hq_url, token=SecretStr(f"token-of-{name}"))
    node.add_background("links of the ship", LinkChoice(node, [], shore, takeover_s=0.5).run)
    async with up(node):
        yield node


@pytest.fixture
async def hq(tmp_path: Path) -> AsyncIterator[Node]:
    node = await started("hq", tmp_path)
    yield node
    await node.stop()


@asynccontextmanager
async def pair(folder: Path, hq: Node, bridge_dials: str, links: Links = NO_LINKS) -> AsyncIterator[tuple[Node, Node]]:
    """Both nodes of the ship in session; `bridge` finds headquarters at `bridge_dials`. Until they know each other both may dial it."""
    async with (
        at_sea("bridge", folder, bridge_dials, links=links) as bridge,
        at_sea("engine", folder, hq.url, [address("engine", "bridge", bridge.url)], links) as engine,
    ):
        await until(lambda: "bridge" in engine.links.status())
        yield bridge, engine


async def test_one_of_them_dials_and_brings_what_the_other_wrote(tmp_path: Path, hq: Node) -> None:
    async with pair(tmp_path, hq, hq.url) as (bridge, engine):
        await until(lambda: has(bridge, "metrics") > 1 and set(hq.links.status()) == {"bridge"})
        await engine.append([alert(1)])
        await bridge.append([alert(2)])
        await until(lambda: has(hq, "alerts") == 2 and set(hq.links.status()) == {"bridge"})


async def test_killed_the_other_takes_its_place_with_all_that_it_had(tmp_path: Path, hq: Node) -> None:
    async with pair(tmp_path, hq, hq.url) as (bridge, engine):
        await bridge.append([alert(1)])
        await until(lambda: has(engine, "alerts") == 1)
        await bridge.stop()
        await until(lambda: set(hq.links.status()) == {"engine"})
        await engine.append([alert(2)])
        await until(lambda: has(hq, "alerts") == 2)


async def test_without_a_way_ashore_the_other_dials_until_it_has_one_again(tmp_path: Path, hq: Node) -> None:
    way = Proxy(int(hq.url.rpartition(":")[2]))
    url = await way.start()
    async with pair(tmp_path, hq, url) as (bridge, _):
        await way.down()
        await until(lambda: "engine" in hq.links.status())
        await bridge.append([alert(1)])
        await until(lambda: has(hq, "alerts") == 1)
        way.up()
        bridge.links.hurry()
        await until(lambda: set(hq.links.status()) == {"bridge"}, 120.0)
        await bridge.append([alert(2)])
        await until(lambda: has(hq, "alerts") == 2)
    await way.stop()


def budget(node: Node) -> dict[str, Any]:
    return node.links.budgets()["satellite"]


async def test_the_day_s_budget_is_the_ship_s_whichever_node_spends_it(tmp_path: Path) -> None:
    """The one spends its part and what the other gives it, and is killed: what is left of the day is for alerts."""
    ashore = settings("hq", tmp_path).model_copy(update={"links": {"satellite": LinkSettings(streams=CARRIED)}})
    async with up(Node(ashore)) as hq, pair(tmp_path, hq, hq.url, FRUGAL) as (bridge, engine):
        await until(lambda: set(hq.links.status()) == {"bridge"})
        await bridge.append([readings(0, 300_000)])
        await until(lambda: budget(bridge)["state"] == budget(engine)["state"] == "alerts", 90.0)
        assert budget(engine)["given_bytes"]["bridge"] > 0
        assert budget(bridge)["spent_here_bytes"] > (BUDGET - RESERVE) / 3, "more than its part: a third of the ship's nodes is known too"
        assert budget(bridge)["spent_here_bytes"] + budget(engine)["spent_here_bytes"] <= BUDGET - RESERVE
        before = budget(engine)["spent_bytes"] - budget(engine)["spent_here_bytes"]
        await bridge.stop()
        await engine.append([alert(1), readings(300_000, 10)])
        await until(lambda: has(hq, "alerts") == 1)
        assert before < budget(engine)["spent_bytes"] <= BUDGET
        assert has(hq, "containers") < 300_000


async def test_a_node_says_what_it_spends_of_from_its_first_word_on(tmp_path: Path) -> None:
    """Else the other takes it for one that has no such link, and its part for its own."""
    node = Node(settings("bridge", tmp_path).model_copy(update={"links": FRUGAL}), process="ship")
    await node.start()
    try:
        assert "budget.satellite.day" in node.metrics.body(0, 0)["gauges"]
    finally:
        await node.stop()


def test_a_companion_is_believed_by_when_its_words_came_whatever_the_clocks_say(tmp_path: Path) -> None:
    """Nor does a word of a time in which its clock was years ahead count for ever."""
    log, companion = open_log(tmp_path, "bridge"), Companion()

    def said(wall_at_ms: int, is_open: bool) -> None:
        body = {"wall_at_ms": wall_at_ms, "gauges": {"link.hq.satellite.open": is_open}}
        log.append([Append("metrics", to_batch([Record("bridge.ship", body=body)]))])

    said(10 * NOW_MS, True)
    assert companion.linked(log, "bridge", 0.0) == companion.linked(log, "bridge", STALE_S) == {"hq"}
    assert companion.linked(log, "bridge", STALE_S + 1.0) == set()
    said(10 * NOW_MS + 1, True)
    log.open_generation("the clock was ahead, and is right again")
    said(NOW_MS, False)
    assert Companion().linked(log, "bridge", 100.0) == companion.linked(log, "bridge", 100.0) == set()
    said(NOW_MS - 120_000, True)
    assert companion.linked(log, "bridge", 110.0) == companion.linked(log, "bridge", 110.0 + STALE_S) == {"hq"}, "its clock is slow"
    assert companion.linked(log, "bridge", 111.0 + STALE_S) == set()
    log.close()


ODD: tuple[str, ...] = (
    "",
    "[]",
    '{"wall_at_ms":"now","gauges":{}}',
    '{"wall_at_ms":1,"gauges":[]}',
    '{"wall_at_ms":1,"gauges":{"budget.satellite.day":1e300,"budget.satellite.spent_here_bytes":1}}',
    '{"wall_at_ms":1,"gauges":{"budget.satellite.day":0,"budget.satellite.spent_here_bytes":1}}',
    '{"wall_at_ms":1,"gauges":{"budget.satellite.day":739000}}',
    '{"gauges":' + "[" * 20_000 + "]" * 20_000 + "}",
)


@pytest.mark.parametrize("body", ODD)
def test_what_is_no_node_s_word_says_nothing(tmp_path: Path, body: str) -> None:
    """Any program beside the node may write into `metrics`, and a port may bring it."""
    log = open_log(tmp_path, "bridge")
    rows = to_batch([Record("bridge.ship", body={"a": 1})])
    at = rows.schema.get_field_index(BODY)
    log.append([Append("metrics", rows.set_column(at, rows.schema.field(at), pa.array([body])))])
    companion = Companion()
    assert companion.linked(log, "bridge", 0.0) == set()
    log.append([Append("metrics", rows.set_column(at, rows.schema.field(at), pa.array([body])))])
    assert companion.linked(log, "bridge", 1.0) == set()
    assert [words for words in spent(log, "bridge") if words] == []
    log.close()
