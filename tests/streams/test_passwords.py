"""Goal: passwords are checked one at a time, and who shows wrong ones waits behind all others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from landfall.access import password_checks
from landfall.access.password_checks import WAITING_MAX, Crowded, PasswordChecks
from tests.intake.stand import DEADLINE_S, eventually


class Slow:
    """A password check that blocks until `go` is released. `asked`: the passwords it was given, in order."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.go = threading.Semaphore(0)

    def __call__(self, argon2_hash: str, password: bytes) -> bool:
        self.asked.append(password)
        assert self.go.acquire(timeout=DEADLINE_S)
        return password == b"right"


def has_asked(slow: Slow, count: int) -> bool:
    return len(slow.asked) == count


@contextmanager
def checking() -> Iterator[tuple[Slow, PasswordChecks]]:
    slow = Slow()
    checks = PasswordChecks(slow)
    try:
        yield slow, checks
    finally:
        for _ in range(100):
            slow.go.release()
        checks.close()


async def test_addresses_take_turns_and_of_each_the_logins() -> None:
    with checking() as (slow, checks):
        asked = [("a", "gw-1", b"1"), ("a", "gw-1", b"2"), ("a", "gw-2", b"3"), ("b", "gw-1", b"right"), ("a", "gw-1", b"4")]
        waiting = [asyncio.create_task(checks.right(address, name, "", password)) for address, name, password in asked]
        for _ in asked:
            slow.go.release()
        assert await asyncio.gather(*waiting) == [False, False, False, True, False]
        assert slow.asked == [b"1", b"right", b"3", b"2", b"4"]


async def test_no_more_wait_than_are_kept_and_who_goes_makes_room() -> None:
    with checking() as (slow, checks):
        first = asyncio.create_task(checks.right("a", "gw-1", "", b"0"))
        await eventually(lambda: slow.asked == [b"0"])
        waiting = [asyncio.create_task(checks.right("a", "gw-1", "", b"%d" % n)) for n in range(1, WAITING_MAX + 1)]
        await asyncio.sleep(0)
        with pytest.raises(Crowded):
            await checks.right("a", "gw-1", "", b"one too many")
        for gone in waiting[:-1]:
            gone.cancel()
        await asyncio.wait(waiting[:-1])
        last = asyncio.create_task(checks.right("a", "gw-1", "", b"right"))
        for _ in range(3):
            slow.go.release()
        assert [await one for one in (first, waiting[-1], last)] == [False, False, True]
        assert slow.asked == [b"0", b"%d" % WAITING_MAX, b"right"], "who has gone is not checked"


MANY = 50


async def test_of_many_addresses_those_wait_that_have_shown_a_wrong_password() -> None:
    """However many flood, all of one login or of each: who has shown none yet is next."""
    with checking() as (slow, checks):
        wrong = [
            asyncio.create_task(checks.right(f"hostile {n}", f"gw-{n % 5}", "", b"%d of %d" % (time, n)))
            for time in range(2)
            for n in range(MANY)
        ]
        for _ in range(MANY):
            slow.go.release()
        await eventually(lambda: len(slow.asked) == MANY + 1)
        honest = asyncio.create_task(checks.right("honest", "gw-1", "", b"right"))
        await asyncio.sleep(0)
        for _ in range(2):
            slow.go.release()
        assert await honest
        assert slow.asked[MANY + 1] == b"right", "one was being checked already"
        for _ in wrong:
            slow.go.release()
        assert not any(await asyncio.gather(*wrong))


async def test_a_crowd_of_new_addresses_holds_up_neither_who_was_there_before_nor_who_comes_into_it() -> None:
    with checking() as (slow, checks):
        waiting = [asyncio.create_task(checks.right(f"crowd-{at}", "gw", "", b"%d" % at)) for at in range(50)]
        await eventually(lambda: len(slow.asked) == 1)
        waiting.append(asyncio.create_task(checks.right("comes into it", "gw", "", b"right")))
        await eventually(lambda: len(checks._lines) == 50)
        for at in range(2, 6):
            slow.go.release()
            await eventually(partial(has_asked, slow, at))
            waiting.append(asyncio.create_task(checks.right(f"later-{at}", "gw", "", b"later")))
            await eventually(lambda: len(checks._lines) == 50)
        assert slow.asked == [b"0", b"right", b"1", b"later", b"2"]
        for one in waiting:
            one.cancel()


async def test_of_many_addresses_that_have_shown_none_the_logins_take_turns() -> None:
    with checking() as (slow, checks):
        wrong = [asyncio.create_task(checks.right(f"hostile {n}", "gw-1", "", b"wrong")) for n in range(MANY)]
        await eventually(lambda: slow.asked == [b"wrong"])
        honest = asyncio.create_task(checks.right("honest", "gw-2", "", b"right"))
        await asyncio.sleep(0)
        for _ in range(2):
            slow.go.release()
        assert await honest
        assert slow.asked[:2] == [b"wrong", b"right"]
        for _ in wrong:
            slow.go.release()
        assert not any(await asyncio.gather(*wrong))


async def test_a_rest_ends_early_for_who_has_shown_no_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "REST_SHARE", 1e9)
    with checking() as (slow, checks):
        for _ in range(2):
            slow.go.release()
        assert not await checks.right("hostile", "gw-1", "", b"wrong")
        again = asyncio.create_task(checks.right("hostile", "gw-1", "", b"wrong again"))
        await asyncio.sleep(0)
        assert await checks.right("honest", "gw-1", "", b"right")
        assert slow.asked[:2] == [b"wrong", b"right"]
        again.cancel()


async def test_a_right_password_makes_good_for_wrong_ones() -> None:
    with checking() as (slow, checks):
        for _ in range(2):
            slow.go.release()
        assert not await checks.right("typed wrongly", "gw-1", "", b"wrong")
        assert await checks.right("typed wrongly", "gw-1", "", b"right")
        assert not checks._wrong
