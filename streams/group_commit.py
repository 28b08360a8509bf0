"""Group commit: whatever waits while one commit is on its way to the disk goes into the next, together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from streams.log import Append, Appended, Log
from streams.model.errors import Misuse

WAITING_ROWS_MAX = 200_000
"""Maximum number of rows that wait or are on their way; further callers wait until there is room."""
COMMIT_ROWS_MAX = 65_536
"""Number of rows after which a commit takes no further callers."""


@dataclass(frozen=True, slots=True)
class _Caller:
    appends: Sequence[Append]
    rows: int
    answer: asyncio.Future[list[Appended]]


class GroupCommitter:
    """Appends for many callers of one event loop, with as few commits as their number allows. Used from that loop alone.

    A caller's appends stay together and in order, callers are served in the order they came. One caller's mistake is that caller's alone.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: deque[_Caller] = deque()
        self._rows = 0
        self._room = asyncio.Event()
        self._room.set()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-commit")
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Return the answers of `Log.append` for `appends`, once they are durable: all of them or none. Raises what `Log.append` raises.

        Waits while WAITING_ROWS_MAX rows are ahead. A cancelled caller does not know whether its rows were appended.
        """
        while not self._room.is_set():
            await self._room.wait()
        if self._closed:
            raise Misuse("the group committer is closed", code="committer_closed")
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name="group-commit")
        caller = _Caller(appends, sum(append.records.num_rows for append in appends), asyncio.get_running_loop().create_future())
        self._waiting.append(caller)
        self._count(caller.rows)
        self._arrived.set()
        return await caller.answer

    @property
    def waiting_rows(self) -> int:
        """Rows that wait or are on their way to the disk."""
        return self._rows

    async def close(self) -> None:
        """Commit everything that waits. Later appends raise Misuse. Does not close the log."""
        self._closed = True
        self._arrived.set()
        self._room.set()
        if self._worker is not None:
            await self._worker
        self._thread.shutdown()

    async def _work(self) -> None:
        while self._waiting or not self._closed:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            callers = self._take()
            await self._commit(callers)
            self._count(-sum(caller.rows for caller in callers))

    def _take(self) -> list[_Caller]:
        callers: list[_Caller] = []
        rows = 0
        while self._waiting and rows < COMMIT_ROWS_MAX:
            caller = self._waiting.popleft()
            rows += caller.rows
            callers.append(caller)
        return callers

    async def _commit(self, callers: Sequence[_Caller]) -> None:
        """Commit once for all callers; when the log refuses some records, commit once for each caller, so that only their caller sees it.

        A failure that the log does not name is raised to all callers: they can not know what became of their rows. Later appends go on.
        """
        appends = [append for caller in callers for append in caller.appends]
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._log.append, appends)
        await asyncio.wait([done])
        problem = done.exception()
        if problem is None:
            answers = iter(done.result())
            for caller in callers:
                answer = [next(answers) for _ in caller.appends]
                if not caller.answer.done():
                    caller.answer.set_result(answer)
        elif isinstance(problem, Misuse) and len(callers) > 1:
            for caller in callers:
                await self._commit([caller])
        else:
            for caller in callers:
                if not caller.answer.done():
                    caller.answer.set_exception(problem)

    def _count(self, rows: int) -> None:
        self._rows += rows
        if self._rows < WAITING_ROWS_MAX or self._closed:
            self._room.set()
        else:
            self._room.clear()
