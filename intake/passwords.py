"""Whose password is checked next: argon2 takes tens of milliseconds of a core, and a flood of wrong ones is to cost nobody else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import argon2

WAITING_MAX = 8
"""Passwords of one login that wait to be checked for one address."""
REST_SHARE = 4.0
"""After a wrong password so many times its own check is rested: a flood takes a fifth of a core at most."""


class Crowded(Exception):
    """More passwords wait for this login, from this address, than are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    hash: str
    password: bytes
    answer: asyncio.Future[bool]


def verifies(argon2_hash: str, password: bytes) -> bool:
    """Whether `password` is the one that was hashed."""
    try:
        return argon2.PasswordHasher().verify(argon2_hash, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


class PasswordChecks:
    """Checks passwords, one at a time in a thread of its own. Addresses take turns, and of each address the logins.

    Belongs to one event loop. `close` it at the end.
    """

    def __init__(self, verify: Callable[[str, bytes], bool] = verifies) -> None:
        self._verify = verify
        self._lines: dict[str, dict[str, deque[_Asked]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="password")
        self._working: asyncio.Task[None] | None = None

    async def right(self, address: str, username: str, argon2_hash: str, password: bytes) -> bool:
        """Whether it is the password. Who is cancelled while waiting is passed over. Raises Crowded."""
        line = self._lines.setdefault(address, {}).setdefault(username, deque())
        if len(line) >= WAITING_MAX:
            raise Crowded
        asked = _Asked(argon2_hash, password, asyncio.get_running_loop().create_future())
        line.append(asked)
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work())
        try:
            return await asked.answer
        finally:
            if asked in line:
                line.remove(asked)

    def close(self) -> None:
        """No more."""
        if self._working is not None:
            self._working.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while (asked := self._next()) is not None:
            began_s = loop.time()
            right = await loop.run_in_executor(self._thread, self._verify, asked.hash, asked.password)
            if not asked.answer.done():
                asked.answer.set_result(right)
            if not right:
                await asyncio.sleep(REST_SHARE * (loop.time() - began_s))

    def _next(self) -> _Asked | None:
        """The first who still waits, of the address and the login whose turn it is; both go to the end."""
        while self._lines:
            address = next(iter(self._lines))
            logins = self._lines.pop(address)
            username = next(iter(logins))
            line = logins.pop(username)
            asked = line.popleft() if line else None
            if line:
                logins[username] = line
            if logins:
                self._lines[address] = logins
            if asked is not None and not asked.answer.done():
                return asked
        return None
