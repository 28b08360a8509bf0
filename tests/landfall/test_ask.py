"""Goal: operations ask a real ship at sea from the command line, are told the price first, and have the records before she is in port."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from edge.services.backlog_reporter import BacklogReporter
from edge.services.query_responder import QueryResponder
from landfall.node.node import Node
from landfall.node.settings import LinkSettings
from shore.port import PortNode
from shore.settings import PortSettings
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import api_beside, api_of, log_in, login_words, make_projector, project, settings_for, still_clock
from tests.hq_serving.fleet import ship
from tests.landfall.commands import run
from tests.support.fleet import address, settings

IMO, BOX = "9321483", "MSKU1234565"
NO_NODE = "9074729"
MINUTE_MS = 60_000


@contextmanager
def at_sea(folder: Path, since_ms: int, link: LinkSettings) -> Iterator[Node]:
    """Headquarters and a ship over the satellite, each with its part of asking, in a thread of their own; headquarters' node."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[Node, Node]:
        hq = PortNode(PortSettings(node=settings("hq", folder))).node
        vessel = Node(settings("ship-a", folder).model_copy(update={"links": {"satellite": link}}))
        vessel.add_background("answers", QueryResponder(vessel, BacklogReporter(vessel, every_s=3_600)).run)
        for node in (hq, vessel):
            await node.start()
        rows = [Record(BOX, "TRK", since_ms + at * MINUTE_MS, {"return_c": at / 8}) for at in range(30)]
        await vessel.append([Append("containers", to_batch([Record("MSKU7654321", "TRK", since_ms), *rows]))])
        vessel.link([address("ship-a", "hq", hq.url, "satellite")])
        return hq, vessel

    hq, vessel = asyncio.run_coroutine_threadsafe(start(), loop).result(90)
    try:
        yield hq
    finally:
        for node in (vessel, hq):
            asyncio.run_coroutine_threadsafe(node.stop(), loop).result(90)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def words(client: httpx.Client, folder: Path) -> tuple[str, ...]:
    return login_words(client, "mira", folder)


def held(hq: Node) -> list[Any]:
    return [row["return_c"] for row in hq.log.history(BOX, streams=["containers"]).rows.to_pylist()]


def test_the_price_is_told_the_records_come_and_what_was_asked_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    since_ms = WallClock().now_ms() // MINUTE_MS * MINUTE_MS - 60 * MINUTE_MS
    since, until = (iso(since_ms + minutes * MINUTE_MS) for minutes in (10, 1_000))
    with ExitStack() as stack:
        link = LinkSettings(budget_bytes_per_day=500_000, alerts_reserve_bytes=50_000, price_per_mb=8.0)
        hq = stack.enter_context(at_sea(tmp_path, since_ms, link))
        told_to = settings_for(tmp_path / "hq" / "log", tmp_path, hq.url).model_copy(update={"token": SecretStr("door-of-hq")})
        client = stack.enter_context(api_of(told_to, still_clock(WallClock().now_ms())))
        entry = {"type": "ship", "id": IMO, "value": ship(IMO, "Albatross")}
        assert client.post("/api/registry", json={"entries": [entry]}, headers=log_in(client, "mira")).status_code == 200
        at = words(client, tmp_path)
        code, told, _ = run(capsys, "ask", IMO, BOX, "--since", since, "--until", until, "--price", *at)
        assert (code, ": priced: cost 0.0" in told, ": 20 records, " in told) == (0, True, True), told
        assert not held(hq)
        code, told, _ = run(capsys, "ask", IMO, BOX, "--since", since, "--json", *at)
        one = json.loads(told)
        assert (code, one["state"], one["arrived"], one["answer"]["records"]) == (0, "answered", True, 20), told
        assert held(hq) == [minutes / 8 for minutes in range(10, 30)]

        code, told, _ = run(capsys, "ask", "--list", *at)
        rows = [line.split() for line in told.splitlines()[1:]]
        listed = [json.loads(line) for line in run(capsys, "ask", "--list", "--json", *at)[1].splitlines()]
        cost = {one["state"]: f"{one['answer']['cost']:.4f}" for one in listed}  # the price may be a byte off
        wanted = [(IMO, BOX, "Mira", state, cost[state]) for state in ("answered", "priced")]
        assert sorted((row[1], row[2], *row[9:12]) for row in rows) == wanted
        assert sorted(one["spend"] for one in listed) == ["budget", "nothing"]

        slip = BOX[:-1] + str((int(BOX[-1]) + 1) % 10)
        code, _, problem = run(capsys, "ask", IMO, slip, "--since", since, *at)
        assert f"{BOX[:-1]} is {BOX[-1]}, not {slip[-1]}" in problem
        assert run(capsys, "ask", "9000000", BOX, "--since", since, *at)[0] == 2
        code, _, problem = run(capsys, "ask", IMO, *at)
        assert (code, "[arguments_missing]" in problem) == (2, True)


@contextmanager
def terminal(says: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody sits at a terminal and types this."""
    keyboard, screen = pty.openpty()
    os.write(keyboard, says.encode())
    with os.fdopen(screen, "r") as typed, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", typed)
        yield
    os.close(keyboard)


def test_what_no_budget_covers_comes_when_its_price_is_agreed_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal after yes, else with --at-most; nobody pays for what he was not told."""
    since_ms = WallClock().now_ms() // MINUTE_MS * MINUTE_MS - 60 * MINUTE_MS
    since, until = (iso(since_ms + minutes * MINUTE_MS) for minutes in (0, 1_000))
    with ExitStack() as stack:
        hq = stack.enter_context(at_sea(tmp_path, since_ms, LinkSettings(price_per_mb=8.0)))
        told_to = settings_for(tmp_path / "hq" / "log", tmp_path, hq.url).model_copy(update={"token": SecretStr("door-of-hq")})
        client = stack.enter_context(api_of(told_to, still_clock(WallClock().now_ms())))
        entry = {"type": "ship", "id": IMO, "value": ship(IMO, "Albatross")}
        assert client.post("/api/registry", json={"entries": [entry]}, headers=log_in(client, "mira")).status_code == 200
        asked = ("ask", IMO, BOX, "--since", since, "--until", until, *words(client, tmp_path))
        priced = ": priced: cost 0.0"
        code, told, _ = run(capsys, *asked)
        assert (code, priced in told, "(--at-most)" in told) == (1, True, True), told
        code, told, _ = run(capsys, *asked, "--at-most", "0.0001")
        assert (code, " 0.0001 " in told) == (1, True), told
        with terminal("n\n", monkeypatch):
            code, told, _ = run(capsys, *asked)
        assert (code, told.count(priced), ", for at most 0.0" in told, held(hq)) == (1, 1, True, []), told
        with terminal("y\n", monkeypatch):
            code, told, _ = run(capsys, *asked)
        assert (code, told.count(priced), told.count(": answered: cost 0.0")) == (0, 1, 1), told
        assert len(held(hq)) == 30


async def test_who_does_not_answer_is_told_of_with_her_last_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One ship is out of reach; of the other, which has no node, nothing was ever heard."""
    at_ms = WallClock().now_ms() // 1000 * 1000
    hq = Node(settings("hq", tmp_path))
    await hq.start()
    try:
        told_to = settings_for(tmp_path / "hq" / "log", tmp_path, hq.url).model_copy(update={"token": SecretStr("door-of-hq")})
        async with api_beside(told_to, still_clock(at_ms)) as client:
            entries = [{"type": "ship", "id": imo, "value": ship(imo, "Albatross")} for imo in (IMO, NO_NODE)]
            headers = await asyncio.to_thread(log_in, client, "mira")
            answer = await asyncio.to_thread(client.post, "/api/registry", json={"entries": entries}, headers=headers)
            assert answer.status_code == 200
            fix = Record(f"{IMO}.location", "GPS", at_ms, {"latitude_deg": 33.0, "longitude_deg": 145.0})
            await hq.append([Append("ships", to_batch([fix]))])
            await asyncio.to_thread(project, make_projector(tmp_path / "hq" / "log", told_to.database_url))
            asked = ("--since", "2026-05-01T00:00", "--until", "2026-05-01T01:00", "--wait", "0", *words(client, tmp_path))
            for imo, told in (
                (IMO, f"; headquarters' last position of the ship is of {iso(at_ms).replace('T', ' ')[:19]}Z ("),
                (NO_NODE, "; headquarters has no position of the ship: does it have a node? ("),
            ):
                code, said, _ = await asyncio.to_thread(run, capsys, "ask", imo, BOX, *asked)
                assert (code, f"{told}`landfall ask --list` " in said) == (1, True), said
    finally:
        await hq.stop()


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
