"""Goal: many callers share one commit, each gets its own answer or its own error, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from landfall.storage.file_log import FileLogOptions
from landfall.storage.index_writer import IndexWriter
from streams import group_commit
from streams.group_commit import GroupCommitter
from streams.log import Append, Appended
from streams.model.errors import Misuse, RetryLater
from streams.model.records import Record, to_batch
from tests.streams.logkit import FullDisk, numbers, open_log, rows


class SlowLog:
    """A real log whose commits wait until they are let through; counts them."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.commits: list[int] = []
        self.go = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        asyncio.run_coroutine_threadsafe(self.go.wait(), self.loop).result(30)
        self.commits.append(len(appends))
        answers: list[Appended] = self.log.append(appends)
        return answers


async def test_callers_that_wait_share_a_commit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    slow: Any = SlowLog(log)
    committer = GroupCommitter(slow)
    calls = [asyncio.create_task(committer.append([Append("containers", rows(3, start=3 * call))])) for call in range(50)]
    await asyncio.sleep(0)
    slow.go.set()
    answers = await asyncio.gather(*calls)
    assert len(slow.commits) <= 2
    assert [(answer.first, answer.count) for [answer] in answers] == [(3 * call, 3) for call in range(50)]
    assert numbers(log) == list(range(150))
    assert len(list(log.blocks("containers", log.origin, 0, 150))) <= 2  # one block a commit, not one a caller
    await committer.close()
    log.close()


async def test_answers_go_back_to_whom_they_belong(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    committer = GroupCommitter(log)
    await committer.append([Append("alerts", rows(1), "spark", 1)])
    answers = await asyncio.gather(
        committer.append([Append("containers", rows(2)), Append("ships", rows(1))]),
        committer.append([]),
        committer.append([Append("alerts", rows(1), "spark", 1)]),
        committer.append([Append("containers", rows(4, start=2))]),
    )
    assert [[(a.stream, a.first, a.count, a.repeated) for a in answer] for answer in answers] == [
        [("containers", 0, 2, False), ("ships", 0, 1, False)],
        [],
        [("alerts", 0, 0, True)],
        [("containers", 2, 4, False)],
    ]
    await committer.close()
    log.close()


async def test_one_callers_mistake_is_its_own(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    committer = GroupCommitter(log)
    outcomes = await asyncio.gather(
        committer.append([Append("containers", rows(2))]),
        committer.append([Append("Not A Stream", rows(2))]),
        committer.append([Append("containers", rows(2, start=2)), Append("containers", rows(1).drop_columns(["body"]))]),
        committer.append([Append("containers", rows(2, start=2))]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [list, Misuse, Misuse, list]
    assert numbers(log) == [0, 1, 2, 3]
    await committer.close()
    log.close()


@pytest.mark.parametrize(("producer", "sequence"), [("\ud800", 1), ("", 1), ("p" * 201, 1), ("spark", 1 << 63), ("spark", -(1 << 63) - 1)])
async def test_a_producer_no_log_can_keep_is_its_own_mistake(tmp_path: Path, producer: str, sequence: int) -> None:
    log = open_log(tmp_path)
    committer = GroupCommitter(log)
    outcomes = await asyncio.gather(
        committer.append([Append("containers", rows(2))]),
        committer.append([Append("containers", rows(2), producer, sequence)]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [list, Misuse]
    assert (await committer.append([Append("containers", rows(1, start=2), "spark", (1 << 63) - 1)]))[0].first == 2
    assert numbers(log) == [0, 1, 2]
    await committer.close()
    log.close()


async def test_a_failure_nobody_foresaw_is_told_and_stops_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    committer = GroupCommitter(log)
    with monkeypatch.context() as failing:
        failing.setattr(IndexWriter, "apply", lambda index, changes: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(30):
                await committer.append([Append("containers", rows(2))])
    async with asyncio.timeout(30):
        [answer] = await committer.append([Append("containers", rows(2))])
    assert answer.first == 0, "nothing of the other is there"
    assert numbers(log) == [0, 1]
    await committer.close()
    log.close()


async def test_a_full_disk_is_told_to_all_who_waited(tmp_path: Path) -> None:
    full = FullDisk()
    log = open_log(tmp_path, options=FileLogOptions(disk=full))
    committer = GroupCommitter(log)
    full.writes_left = 0
    outcomes = await asyncio.gather(*(committer.append([Append("containers", rows(1))]) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RetryLater] * 3
    full.writes_left = None
    assert (await committer.append([Append("containers", rows(1))]))[0].first == 0
    await committer.close()
    log.close()


async def test_callers_wait_when_too_much_is_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "WAITING_ROWS_MAX", 10)
    log = open_log(tmp_path)
    slow: Any = SlowLog(log)
    committer = GroupCommitter(slow)
    calls = [asyncio.create_task(committer.append([Append("containers", rows(5, start=5 * call))])) for call in range(20)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert committer.waiting_rows <= 15
    slow.go.set()
    await asyncio.gather(*calls)
    assert sorted(numbers(log)) == list(range(100))
    assert committer.waiting_rows == 0
    await committer.close()
    log.close()


async def test_closing_commits_what_waits(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    committer = GroupCommitter(log)
    calls = [asyncio.create_task(committer.append([Append("containers", rows(1, start=call))])) for call in range(5)]
    await asyncio.sleep(0)
    await committer.close()
    await asyncio.gather(*calls)
    assert numbers(log) == list(range(5))
    with pytest.raises(Misuse):
        await committer.append([Append("containers", rows(1))])
    log.close()


async def test_a_caller_that_gives_up_harms_nobody(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    slow: Any = SlowLog(log)
    committer = GroupCommitter(slow)
    calls = [asyncio.create_task(committer.append([Append("containers", rows(1, start=call))])) for call in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    slow.go.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list, asyncio.CancelledError, list]
    await committer.close()
    log.close()


async def test_columns_that_disagree_are_still_one_commit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    committer = GroupCommitter(log)
    await asyncio.gather(
        *(committer.append([Append("containers", to_batch([Record("box", signals={"x": value})]))]) for value in (1, 2.5, "three", True))
    )
    values = [row.record.signals["x"] for batch in log.run("containers", log.origin, 0, 4) for row in batch.rows()]
    assert values == [1, 2.5, "three", True]
    await committer.close()
    log.close()
