"""Goal: a device whose clock stands still, or that has none, is not taken for one that brings everything again; who does so is."""

from __future__ import annotations

import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import intake.stopped
from cargo.identity import says_again
from hq.wide import reading_identities
from intake.packets import packet
from intake.stopped import SAME_AGAIN_S, LastSaid
from streams.words import Position
from tests.intake.stand import AT, TOPIC, Stand, eventually, stand
from tests.intake.test_endpoint import CONNECT_311, ask

GATEWAY, OTHER = "GW-1", "GW-2"


def said(*, at: int | None = AT, gateway: str = GATEWAY, **fields: float) -> bytes:
    return json.dumps({"device": "TRK-1", "gateway": gateway} | ({} if at is None else {"at": at}) | fields).encode()


async def bring(one: Stand, payloads: list[bytes], head: int = 0x32) -> None:
    """One message after another, each acknowledged."""
    topic = struct.pack(">H", len(TOPIC)) + TOPIC.encode()
    sent = b"".join(packet(head, topic + struct.pack(">H", n + 1) + payload) for n, payload in enumerate(payloads))
    answered = await ask(one.endpoint.port, CONNECT_311 + sent, 4 + 4 * len(payloads))
    assert len(answered) == 4 + 4 * len(payloads)


def kept(one: Stand) -> list[float]:
    return [float(str(row.record.signals["return_c"])) for row in one.rows("containers")]


def flagged(one: Stand) -> list[bool]:
    return [row.record.body is not None and "clock_stopped" in row.record.body.get("flags", ()) for row in one.rows("containers")]


@pytest.mark.parametrize("at", [AT, None], ids=["always the same time", "no time"])
async def test_what_a_device_goes_on_saying_is_all_kept(tmp_path: Path, at: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes between them are played by a shorter patience."""
    monkeypatch.setattr(intake.stopped, "SAME_AGAIN_S", 0.0)
    values = [4.0, 4.1, 4.0, 4.0, 4.0, 4.2, 4.1]
    async with stand(tmp_path) as one:
        for value in values:
            await bring(one, [said(at=at, return_c=value)])
        assert kept(one) == values
        assert flagged(one) == [False, False, True, True, True, False, True]
        assert one.counts()["stopped_clocks"] == 4


@pytest.mark.parametrize("at", [AT, None], ids=["always the same time", "no time"])
async def test_what_comes_again_at_once_is_brought_again(tmp_path: Path, at: int | None) -> None:
    async with stand(tmp_path) as one:
        for _ in range(3):
            await bring(one, [said(at=at, return_c=value) for value in (4.0, 4.1)])
        assert kept(one) == [4.0, 4.1], "two readings, each brought three times"
        assert one.counts()["intake_repeated"] == 4


async def brought_again(one: Stand) -> None:
    await bring(one, [said(return_c=4.0), said(return_c=4.1)], head=0x3A)


async def through_another_gateway(one: Stand) -> None:
    await bring(one, [said(return_c=4.0, gateway=OTHER), said(return_c=4.1, gateway=OTHER)])


async def after_later_ones(one: Stand) -> None:
    await bring(one, [said(at=AT + 1_000, return_c=4.0)])
    await bring(one, [said(return_c=4.0), said(return_c=4.1)])


@pytest.mark.parametrize("repeat", [brought_again, through_another_gateway, after_later_ones])
async def test_repeats_of_two_readings_of_one_time_are_repeats(
    tmp_path: Path, repeat: Callable[[Stand], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some devices tell a temperature and a position as two messages: brought again, heard by another gateway, or late, each is known."""
    monkeypatch.setattr(intake.stopped, "SAME_AGAIN_S", 0.0)
    async with stand(tmp_path) as one:
        await bring(one, [said(return_c=4.0), said(return_c=4.1)])
        await repeat(one)
        assert kept(one)[:2] == [4.0, 4.1]
        assert len(kept(one)) == 2 + (repeat is after_later_ones)
        assert not any(flagged(one))
        assert one.counts()["intake_repeated"] == 2


async def test_a_restart_knows_who_said_what_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path) as one:
        await bring(one, [said(return_c=4.0), said(return_c=4.1)])
    async with stand(tmp_path) as one:
        await bring(one, [said(return_c=4.1)])
        assert kept(one) == [4.0, 4.1], "brought again after the restart"
        monkeypatch.setattr(intake.stopped, "SAME_AGAIN_S", 0.0)
        await bring(one, [said(return_c=4.1)])
        assert kept(one) == [4.0, 4.1, 4.1]


async def test_headquarters_takes_none_of_them_for_a_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake.stopped, "SAME_AGAIN_S", 0.0)
    async with stand(tmp_path) as one:
        for value in (4.0, 4.1, 4.0, 4.1):
            await bring(one, [said(return_c=value)])
        await eventually(lambda: len(kept(one)) == 4)
        found = [identity for batch in one.log.read("containers", Position()) for identity in reading_identities(batch)]
        assert found[2:] == [None, None]
        assert len(set(found[:2])) == 2


def test_memory_is_bounded() -> None:
    last = LastSaid(100)
    for n in range(5_000):
        last.note((n,), (AT,), (b"%d" % n,), (None,), 0.0)
        for content in range(20):
            last.note((0,), (AT,), (b"c%d" % content,), (None,), float(n))
    assert len(last._recent) + len(last._older) <= 200
    assert max(len(one) for _, one in (*last._recent.values(), *last._older.values())) <= intake.stopped.CONTENTS_MAX
    assert last.stands_still(4_999, AT, b"4999", None, SAME_AGAIN_S)


@pytest.mark.parametrize(
    ("body", "again"), [('{"flags":["clock_stopped"]}', True), ('{"note":"clock_stopped"}', False), ("no JSON clock_stopped", False)]
)
def test_the_flag_alone_says_so(body: str, again: bool) -> None:
    assert says_again(body) is again
