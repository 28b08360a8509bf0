"""Appends of several callers in one transaction: whoever comes first waits a moment for the others, unless it is urgent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streams.log import Append, Appended
from streams.model.errors import LandfallError, Misuse, Unclear

URGENT = ("alerts",)
"""Streams that nobody is waited for with."""


@dataclass(slots=True)
class _Caller:
    appends: Sequence[Append]
    answers: list[Appended] | None = None
    problem: LandfallError | None = None
    done: bool = False


class Gathering:
    """Brings callers' appends to `append` together. Safe from any thread. One caller's mistake is that caller's alone."""

    def __init__(self, append: Callable[[Sequence[Append]], list[Appended]], gather_ms: int) -> None:
        self._append = append
        self._gather_s = gather_ms / 1000
        self._waiting: list[_Caller] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._urgent = threading.Event()

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """What `append` answers for `appends`: durable then, all of them or none. Raises what it raises."""
        caller = _Caller(appends)
        with self._lock:
            self._waiting.append(caller)
        if any(append.stream in URGENT for append in appends):
            self._urgent.set()
        with self._turn:
            if not caller.done:
                self._urgent.wait(self._gather_s)
                self._commit(self._taken())
        if caller.problem is not None:
            raise caller.problem
        if caller.answers is None:
            raise Unclear("the thread that appended this together with its own records failed", hint="its own error says why")
        return caller.answers

    def _taken(self) -> list[_Caller]:
        with self._lock:
            callers, self._waiting = self._waiting, []
            self._urgent.clear()
        return callers

    def _commit(self, callers: Sequence[_Caller]) -> None:
        try:
            answers = iter(self._append([append for caller in callers for append in caller.appends]))
            for caller in callers:
                caller.answers = [next(answers) for _ in caller.appends]
        except Misuse as problem:
            if len(callers) > 1:
                for caller in callers:
                    self._commit([caller])
            else:
                callers[0].problem = problem
        except LandfallError as problem:
            for caller in callers:
                caller.problem = problem
        finally:
            for caller in callers:
                caller.done = True
