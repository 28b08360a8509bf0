"""Goal: a device whose clock stands still, or that has none, is not taken for one that brings everything again; who does so is."""

from __future__ import annotations

import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cargo.vocabulary.reading_identity import says_again
from hq.spark_rows import reading_identities
from intake.mqtt.packets import packet
from intake.settings import PipelineSettings
from intake.stuck_clocks import CONTENTS_MAX, LastSaid
from streams.model.clock import WallClock
from streams.model.identifiers import Position
from streams.model.records import LATE_MS_MAX, StoredRecord
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


class Later(WallClock):
    """A clock that begins at AT, moved on by a test."""

    ahead_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._began_s = super().monotonic_s()

    def now_ms(self) -> int:
        return AT + round((self.monotonic_s() - self._began_s) * 1_000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


async def after(one: Stand, clock: Later, every_s: float, *messages: bytes) -> None:
    """Each message `every_s` after what came before it."""
    for payload in messages:
        clock.ahead_s += every_s
        await bring(one, [payload])


LONG_AGO = AT - LATE_MS_MAX - 1
TIMES = pytest.mark.parametrize("at", [AT, LONG_AGO, None], ids=["always the same time", "a time that can not be true", "no time"])
QUARTER_S, STORM_S = 900.0, 60.0


@TIMES
@pytest.mark.parametrize("every_s", [QUARTER_S, STORM_S])
async def test_what_a_device_goes_on_saying_is_kept(tmp_path: Path, at: int | None, every_s: float) -> None:
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await after(one, clock, every_s, *[said(at=at, return_c=4.0)] * 10)
        doubtful = int(at == AT)
        assert len(kept(one)) == 10 - doubtful, "the second alone could be one brought again, if its time could be true"
        assert flagged(one) == [False, *[True] * (9 - doubtful)]
        assert one.counts()["stopped_clocks"] == 9 - doubtful
        assert one.counts().get("intake_repeated", 0) == doubtful


async def test_a_clock_that_goes_wrong_by_years_and_goes_on_has_not_stopped(tmp_path: Path) -> None:
    """What it says can not be true, and still tells its readings apart: one brought anew, minutes later, is a repeat."""
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await after(one, clock, QUARTER_S, *(said(at=LONG_AGO - n, return_c=4.0) for n in (2, 1, 1)))
        assert len(kept(one)) == 2
        assert one.counts()["intake_repeated"] == 1


@pytest.mark.parametrize("at", [AT, LONG_AGO])
async def test_what_the_window_has_forgotten_no_history_takes_for_a_repeat(tmp_path: Path, at: int) -> None:
    """A device that speaks seldom: the window holds less than what came since."""
    clock = Later()
    async with stand(tmp_path, pipeline_settings=PipelineSettings(repeats_readings_max=16), clock=clock) as one:
        for n in range(5):
            await after(one, clock, 6 * 3_600, said(at=at, return_c=4.0))
            others = (json.dumps({"device": "TRK-2", "at": AT + (40 * n + m) * 1_000, "return_c": 5.0}).encode() for m in range(40))
            await bring(one, list(others))
        told = [row.record.body is not None and "clock_stopped" in row.record.body.get("flags", ()) for row in of(one, "TRK-1")]
        assert told == [False, at == LONG_AGO, True, True, True]


def of(one: Stand, device: str) -> list[StoredRecord]:
    return [row for row in one.rows("containers") if row.record.device == device]


@TIMES
@pytest.mark.parametrize("different", [2, CONTENTS_MAX + 2])
async def test_whatever_it_says_in_turn_is_kept(tmp_path: Path, at: int | None, different: int) -> None:
    """Also of more contents than are remembered: then any could be one that is said again."""
    clock = Later()
    values = [4.0 + n % different / 10 for n in range(3 * different)]
    async with stand(tmp_path, clock=clock) as one:
        await after(one, clock, QUARTER_S, *(said(at=at, return_c=value) for value in values))
        assert kept(one) == values
        assert flagged(one) == [n >= (different if at is None else min(different, CONTENTS_MAX)) for n in range(len(values))]


async def test_a_clock_that_falls_back_to_one_time_is_one_that_stands_still(tmp_path: Path) -> None:
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await after(one, clock, QUARTER_S, said(at=AT + 1_000, return_c=4.0), *[said(return_c=4.0)] * 6)
        assert len(kept(one)) == 1 + 5


@TIMES
async def test_what_two_gateways_hear_of_it_is_one_reading(tmp_path: Path, at: int | None) -> None:
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        for _ in range(5):
            clock.ahead_s += QUARTER_S
            for gateway, ago_s in ((GATEWAY, 0), (OTHER, 5)):
                await after(one, clock, ago_s, said(at=at, gateway=gateway, return_c=4.0))
        assert len(kept(one)) == 5 - (at == AT)


@TIMES
async def test_what_comes_again_at_once_is_brought_again(tmp_path: Path, at: int | None) -> None:
    async with stand(tmp_path) as one:
        for _ in range(5):
            await bring(one, [said(at=at, return_c=value) for value in (4.0, 4.1)])
        assert kept(one) == [4.0, 4.1], "two readings, each brought five times"
        assert one.counts()["intake_repeated"] == 8


async def brought_anew(one: Stand, clock: Later) -> None:
    """By a gateway that begins again with its newest: not marked by MQTT as sent again."""
    clock.ahead_s += 180
    await bring(one, [said(return_c=4.0), said(return_c=4.1)])


async def sent_again(one: Stand, clock: Later) -> None:
    for _ in range(3):
        clock.ahead_s += QUARTER_S
        await bring(one, [said(return_c=4.0), said(return_c=4.1)], head=0x3A)


async def through_another_gateway(one: Stand, clock: Later) -> None:
    """Which heard them better, and is late."""
    clock.ahead_s += QUARTER_S
    await bring(one, [said(return_c=4.0, gateway=OTHER, rssi_dbm=-70), said(return_c=4.1, gateway=OTHER, rssi_dbm=-70)])


async def after_later_ones(one: Stand, clock: Later) -> None:
    await after(one, clock, QUARTER_S, said(at=AT + 1_000, return_c=4.0))
    clock.ahead_s += QUARTER_S
    await bring(one, [said(return_c=4.0), said(return_c=4.1)])


@pytest.mark.parametrize("repeat", [brought_anew, sent_again, through_another_gateway, after_later_ones])
async def test_repeats_of_two_readings_of_one_time_are_repeats(tmp_path: Path, repeat: Callable[[Stand, Later], Awaitable[None]]) -> None:
    """Some devices tell a temperature and a position as two messages: brought again, heard by another gateway, or late, each is known."""
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await bring(one, [said(return_c=4.0, rssi_dbm=-81), said(return_c=4.1, rssi_dbm=-81)])
        await repeat(one, clock)
        assert kept(one)[:2] == [4.0, 4.1]
        assert len(kept(one)) == 2 + (repeat is after_later_ones)
        assert not any(flagged(one))
        assert one.counts()["intake_repeated"] == (6 if repeat is sent_again else 2)


async def test_a_restart_knows_who_said_what_last_and_when(tmp_path: Path) -> None:
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await after(one, clock, QUARTER_S, said(return_c=4.0), said(return_c=4.1))
    async with stand(tmp_path, clock=clock) as one:
        await bring(one, [said(return_c=4.1)])
        assert kept(one) == [4.0, 4.1], "brought again after the restart"
        await after(one, clock, QUARTER_S, said(return_c=4.1))
        assert kept(one) == [4.0, 4.1, 4.1]


async def test_headquarters_takes_none_of_them_for_a_repeat(tmp_path: Path) -> None:
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await after(one, clock, QUARTER_S, *(said(return_c=value) for value in (4.0, 4.1, 4.0, 4.1)))
        await eventually(lambda: len(kept(one)) == 4)
        found = [identity for batch in one.log.read("containers", Position()) for identity in reading_identities(batch)]
        assert found[2:] == [None, None]
        assert len(set(found[:2])) == 2


async def test_headquarters_knows_what_two_gateways_heard_apart_for_one(tmp_path: Path) -> None:
    """Each by a node of its own, so that none of the nodes could."""
    found = []
    for gateway, rssi_dbm in ((GATEWAY, -70), (OTHER, -81)):
        async with stand(tmp_path / gateway) as one:
            await bring(one, [said(gateway=gateway, rssi_dbm=rssi_dbm, return_c=4.0)])
            found += [identity for batch in one.log.read("containers", Position()) for identity in reading_identities(batch)]
    assert len(found) == 2
    assert found[0] == found[1] is not None


def test_memory_is_bounded() -> None:
    last = LastSaid(100)
    for n in range(5_000):
        last.note((n,), (AT,), (b"%d" % n,), (0.0,))
        last.note((-n,), (AT,), (b"known",), (0.0,))
        for content in range(20):
            last.note((0,), (AT,), (b"c%d" % content,), (float(n),))
    assert len(last._recent) + len(last._older) <= 200
    voices = [one for one in (*last._recent.values(), *last._older.values()) if len(one) == 5]
    assert voices
    assert max(len(one[3]) for one in voices) <= CONTENTS_MAX


@pytest.mark.parametrize(
    ("body", "again"), [('{"flags":["clock_stopped"]}', True), ('{"note":"clock_stopped"}', False), ("no JSON clock_stopped", False)]
)
def test_the_flag_alone_says_so(body: str, again: bool) -> None:
    assert says_again(body) is again
