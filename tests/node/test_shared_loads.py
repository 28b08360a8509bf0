"""Goal: what several sessions ask for at once is read once, and each has its answer, whatever becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from landfall.node.block_loader import AGAIN_S
from landfall.node.block_store import Store
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.model.block import Block
from streams.model.errors import Corrupt, LandfallError, RetryLater
from streams.model.metrics import Metrics
from streams.replication import Load, Unread
from tests.streams.logkit import append_rows, open_log, rows
from tests.support.fleet import until


class SlowLog:
    """A log whose blocks come once `free` is set; counts how often they are asked for."""

    def __init__(self, log: FileLog) -> None:
        self._log, self.free, self.asked = log, Event(), 0
        self.problem: LandfallError | None = None

    def blocks(self, *what: Any) -> Iterator[Block]:
        self.asked += 1
        self.free.wait(60)
        if self.problem:
            raise self.problem
        return self._log.blocks(*what)


def stood(folder: Path) -> tuple[FileLog, SlowLog, Store]:
    log = open_log(folder)
    append_rows(log, rows(10))
    slow = SlowLog(log)
    return log, slow, Store(slow, BlockCodec(), Metrics("test"), lambda *_, **__: None)  # type: ignore[arg-type]


def load(log: FileLog, number: int, end: int = 10) -> Load:
    return Load(number, "containers", log.origin, 0, end)


async def test_the_same_is_read_once_for_all_who_ask_while_it_is_read(tmp_path: Path) -> None:
    log, slow, store = stood(tmp_path)
    asking = [asyncio.create_task(store.load(load(log, number))) for number in range(5)]
    other = asyncio.create_task(store.load(load(log, 5, end=4)))
    await asyncio.sleep(0)
    asking[0].cancel()
    slow.free.set()
    answers = await asyncio.gather(*asking[1:])
    assert {(answer.first, answer.end) for answer in answers if answer} == {(0, 10)}
    assert (await other) is not None
    assert slow.asked == 2
    assert asking[0].cancelled()
    await store.load(load(log, 6))
    assert slow.asked == 3, "what is read later is read anew: the log may have changed"
    log.close()


async def test_what_can_not_be_read_now_is_left_alone_by_all_who_asked_and_the_next_succeeds(tmp_path: Path) -> None:
    log, slow, store = stood(tmp_path)
    slow.problem = RetryLater("not now")
    slow.free.set()
    answers = await asyncio.gather(*(store.load(load(log, number)) for number in range(3)))
    assert answers == [Unread(0, 10, AGAIN_S)] * 3
    slow.problem = None
    assert await store.load(load(log, 3)) is not None
    log.close()


async def test_what_is_tried_again_in_the_background_ends_it_not_whatever_the_log_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("landfall.node.block_loader.LOOK_EVERY_S", 0.01)
    log, slow, store = stood(tmp_path)
    slow.free.set()
    monkeypatch.setattr("streams.replication.unreadable_blocks.FIRST_S", 0.0)
    store.withheld.failed(("containers", log.origin), 0, 10, "a bad sector")
    slow.problem = Corrupt("the index is damaged")
    trying = asyncio.create_task(store.loader.keep_trying())
    await until(lambda: slow.asked >= 3)
    slow.problem = None
    await until(lambda: store.withheld.records() == 0)
    assert not trying.done()
    trying.cancel()
    log.close()
