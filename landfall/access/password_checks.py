"""Whose password is checked next: argon2 takes tens of milliseconds of a core, and a flood of wrong ones is to cost nobody else."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import argon2

from streams.model.errors import Misuse
from streams.model.identifiers import composed

WAITING_MAX = 8
"""Maximum number of passwords of one login that wait to be checked for one address."""
REST_SHARE, REST_SHARE_MIN = 4.0, 1.0
"""Pause after a wrong password, as multiples of the time of its own check.

A flood takes a fifth of a core at most. It takes half of one while passwords wait from addresses that have shown no wrong one.
"""
PASSWORD_CHARS_MIN, PASSWORD_CHARS_MAX = 12, 200
CHARACTERS_MIN = 4
"""Minimum number of different characters in a password: it excludes runs of one key, and two keys in turn."""
_COMMON = """
    000000000000 012345678910 0123456789ab 098765432100 111111111111 112233445566 123456789012 1234567890123 12345678901234
    1234567890qwerty 123456789101112 123456789123 123456789abc 123qweasdzxc 1q2w3e4r5t6y 1q2w3e4r5t6y7u 1qaz2wsx3edc
    1qaz2wsx3edc4rfv abcd12345678 abcdefghijkl abcdefghijklm admin1234567 admin123456789 adminadminadmin administrator
    administrator1 asdfghjkl123 asdfghjklqwerty changeme1234 changemechangeme changemenow123 correcthorsebatterystaple
    football1234 iloveyou1234 iloveyou12345 iloveyouforever landfall1234 landfalllandfall letmein12345 letmeinletmein liverpool123
    manchester123 mypassword12 mypassword123 p@ssw0rd1234 p@ssword1234 passw0rd1234 password1234 password12345 password123456
    password1234567 password12345678 password123456789 password2024 password2025 password2026 passwordpassword qazwsxedcrfv
    qwerty123456 qwerty1234567 qwerty123456789 qwertyqwerty qwertyuiop12 qwertyuiop123 qwertyuiop1234 qwertyuiop[] qwertyuiopasdf
    rootrootroot secretsecret superman1234 temporary123 trustno1trustno1 unbelievable welcome12345 welcome123456 welcomewelcome
    yourpassword zxcvbnm12345 zxcvbnmasdfghjkl
"""
COMMON = frozenset(_COMMON.split())
"""Common passwords of PASSWORD_CHARS_MIN characters or more, in small letters; from published lists of leaked ones."""
ADDRESSES_MAX = 65_536
"""Maximum number of addresses whose count of wrong passwords is known: those that showed one last."""


class Crowded(Exception):
    """Refusal of a password, because too many wait for this login from this address."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    hash: str
    password: bytes
    answer: asyncio.Future[bool]


def verifies(argon2_hash: str, password: bytes) -> bool:
    """Return whether `password` is the one that was hashed."""
    try:
        return argon2.PasswordHasher().verify(argon2_hash, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def password_bytes(password: str) -> bytes:
    """Return the bytes of a password that are checked: the same however a keyboard writes its accents.

    Of a password longer than PASSWORD_CHARS_MAX, it returns no more than shows that it is wrong.
    """
    return composed(password)[: PASSWORD_CHARS_MAX + 1].encode(errors="replace")


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, as a file keeps it. Raises Misuse for one that is too short, too long, or easily guessed."""
    password = composed(password)
    if len(password) < PASSWORD_CHARS_MIN:
        sentence = f"a password has at least {PASSWORD_CHARS_MIN} characters, and this one {len(password)}"
        raise Misuse(sentence, hint="take a longer one", code="password_short")
    if len(password) > PASSWORD_CHARS_MAX:
        raise Misuse(f"a password has at most {PASSWORD_CHARS_MAX} characters", hint="take a shorter one", code="password_long")
    if password.casefold() in COMMON or len(set(password)) < CHARACTERS_MIN:
        raise Misuse("this password is a common one", hint="take one that nobody guesses: several words, say", code="password_common")
    return argon2.PasswordHasher().hash(password)


class PasswordChecks:
    """Checks of passwords, one at a time in a thread of its own. `close` it at the end. It belongs to one event loop.

    First come the addresses that have shown the fewest wrong passwords since their last right one; among equals, logins take turns. Among
    a login's addresses that have shown none, the one that waits longest and the one that came last take turns. So a crowd of new
    addresses holds up for ever neither those who were there before it nor those who join it.
    """

    def __init__(self, verify: Callable[[str, bytes], bool] = verifies) -> None:
        self._verify = verify
        self._lines: dict[tuple[str, str], deque[_Asked]] = {}
        """Waiting passwords by address and login; the line whose turn was longest ago is first."""
        self._wrong: OrderedDict[str, int] = OrderedDict()
        self._turns: Counter[str] = Counter()
        """Number of the last check of each login."""
        self._checked = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="password")
        self._working: asyncio.Task[None] | None = None
        self._came = asyncio.Event()

    async def right(self, address: str, username: str, argon2_hash: str, password: bytes) -> bool:
        """Return whether the password is right. Passes over a caller that is cancelled while waiting. Raises Crowded."""
        line = self._lines.setdefault((address, username), deque())
        if len(line) >= WAITING_MAX:
            raise Crowded
        asked = _Asked(argon2_hash, password, asyncio.get_running_loop().create_future())
        line.append(asked)
        self._came.set()
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work())
        try:
            return await asked.answer
        finally:
            if asked in line:
                line.remove(asked)
            if not line and self._lines.get((address, username)) is line:
                del self._lines[address, username]

    def close(self) -> None:
        """Stop checking passwords."""
        if self._working is not None:
            self._working.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._lines:
            address, asked = self._next()
            began_s = loop.time()
            right = await loop.run_in_executor(self._thread, self._verify, asked.hash, asked.password)
            if not asked.answer.done():
                asked.answer.set_result(right)
            if right:
                self._wrong.pop(address, None)
            else:
                self._note_wrong(address)
                await self._rest(loop.time() - began_s)

    def _next(self) -> tuple[str, _Asked]:
        """Return the next password to check, with its address; move its line to the end."""
        standing = {one: (self._wrong.get(one[0], 0), self._turns[one[1]]) for one in self._lines}
        first = min(standing.values())
        equals = [one for one, its in standing.items() if its == first]
        address, username = equals[-1 if self._checked % 2 and not first[0] else 0]
        line = self._lines.pop((address, username))
        asked = line.popleft()
        if line:
            self._lines[address, username] = line
        self._checked += 1
        self._turns[username] = self._checked
        return address, asked

    def _note_wrong(self, address: str) -> None:
        self._wrong[address] = self._wrong.pop(address, 0) + 1
        if len(self._wrong) > ADDRESSES_MAX:
            self._wrong.popitem(last=False)

    async def _rest(self, took_s: float) -> None:
        await asyncio.sleep(REST_SHARE_MIN * took_s)
        with suppress(TimeoutError):
            async with asyncio.timeout((REST_SHARE - REST_SHARE_MIN) * took_s):
                while all(address in self._wrong for address, _ in self._lines):
                    self._came.clear()
                    await self._came.wait()
