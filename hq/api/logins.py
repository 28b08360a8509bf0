"""Logins: passwords are checked in a small pool of their own, and guesses at one account from one address are slowed."""

from __future__ import annotations

import ipaddress
import math
from collections import Counter, OrderedDict
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

from hq.api.accounts import Account, Accounts
from hq.api.error_answers import ApiError
from landfall.access.password_checks import Crowded, PasswordChecks, password_bytes
from streams.model.identifiers import composed

WAITING_MAX, WAITING_OF_ADDRESS_MAX = 256, 16
"""Maximum number of logins whose passwords wait to be checked: of all, and of one address."""
FAILURES_FREE = 5
"""Failed logins for one account from one address before the next ones are slowed."""
SLOWED_S_MAX = 60.0
"""Maximum wait before a login, seconds. After FAILURES_FREE failures the next login waits 2 s, then 4 s, doubling up to this."""
FORGOTTEN_S = 3_600.0
"""Failures count no more so long after the last one, seconds."""
PAIRS_MAX = 65_536
"""Pairs of account and address whose failures are kept: those that failed last."""
PREFIX_BITS = 64
"""IPv6 addresses count as one when they share so many bits: a household has that many to choose from."""


class AccountLogins:
    """Checks usernames and passwords. Belongs to one event loop; `close` it at the end."""

    def __init__(self, accounts: Accounts, monotonic_s: Callable[[], float], checks: PasswordChecks | None = None) -> None:
        self._accounts, self._monotonic_s = accounts, monotonic_s
        self._checks = checks or PasswordChecks()
        self._waiting: Counter[str] = Counter()
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        """Failures by username and address: how often in a row, and when last."""

    def close(self) -> None:
        """Stop checking passwords."""
        self._checks.close()

    @property
    def waiting(self) -> int:
        """Number of passwords that wait to be checked."""
        return self._waiting.total()

    async def check(self, address: str, username: str, password: str) -> tuple[Account, str]:
        """Return the account with this username and password, shown from `address`, and the password's hash. An unknown username costs
        what a known one costs.

        Raises ApiError: 401 for a wrong one; 429 for a pair that is slowed, and when too many logins wait.
        """
        network, username = _network(address), composed(username)
        self._check_pace(username, network)
        account, argon2_hash = await run_in_threadpool(self._accounts.login, username)
        if self.waiting >= WAITING_MAX or self._waiting[network] >= WAITING_OF_ADDRESS_MAX:
            raise _too_many()
        self._waiting[network] += 1
        try:
            right = await self._checks.right(network, username, argon2_hash, password_bytes(password))
        except Crowded:
            raise _too_many() from None
        finally:
            self._waiting[network] -= 1
            self._waiting += Counter()  # forgets those at zero
        if account is None or not right:
            self._note_failure(username, network)
            raise ApiError(401, "login_wrong", "Wrong username or password.", "Check both; capitals count.")
        self._failures.pop((username, network), None)
        return account, argon2_hash

    def _check_pace(self, username: str, network: str) -> None:
        failures, last_s = self._recent(username, network)
        if failures < FAILURES_FREE:
            return
        left_s = last_s + min(2.0 ** (failures - FAILURES_FREE + 1), SLOWED_S_MAX) - self._monotonic_s()
        if left_s > 0:
            wait_s = math.ceil(left_s)
            hint = f"Try again in {wait_s} s."
            raise ApiError(429, "login_slowed", "Too many wrong passwords for this account.", hint, {"Retry-After": str(wait_s)})

    def _recent(self, username: str, network: str) -> tuple[int, float]:
        failures, last_s = self._failures.get((username, network), (0, 0.0))
        return (failures, last_s) if self._monotonic_s() - last_s < FORGOTTEN_S else (0, 0.0)

    def _note_failure(self, username: str, network: str) -> None:
        failures, _ = self._recent(username, network)
        self._failures[username, network] = min(failures + 1, 32), self._monotonic_s()
        self._failures.move_to_end((username, network))
        if len(self._failures) > PAIRS_MAX:
            self._failures.popitem(last=False)


def _too_many() -> ApiError:
    return ApiError(429, "logins_too_many", "Too many logins wait to be checked.", "Try again soon.", {"Retry-After": "5"})


def _network(address: str) -> str:
    """Return the address; for IPv6 its network; unchanged if it is no address."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((known, PREFIX_BITS), strict=False)) if known.version == 6 else address
