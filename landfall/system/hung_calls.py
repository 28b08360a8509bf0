"""Blocking work that may hang, each piece in a thread of its own: nothing else waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

Result = TypeVar("Result")


async def apart(name: str, work: Callable[[], Result]) -> Result:
    """Return or raise what `work` does, called in a new thread of that name, which does not keep the process from ending.

    Cancelling stops the waiting, not the work. The caller bounds how many are under way.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()
    threading.Thread(target=_call, args=(work, done), name=name, daemon=True).start()
    return await asyncio.wrap_future(done)


def _call(work: Callable[[], Result], done: Future[Result]) -> None:
    with _Passed(done):
        done.set_result(work())


class _Passed:
    """Context that passes an exception of its block to the waiting caller."""

    def __init__(self, done: Future[Any]) -> None:
        self._done = done

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> bool:
        if problem is not None:
            self._done.set_exception(problem)
        return True
