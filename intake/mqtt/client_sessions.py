"""Sessions of the endpoint's clients, with their subscriptions, across connections and the node's restarts.

A publisher that comes back and learns that its session is present goes on with what was not acknowledged. If the session is not present,
MQTT 5 makes it forget these messages. So sessions outlive a restart: in a file, written soon after they change. A crash may lose the
changes of the last second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from intake.mqtt.subscriptions import Subscription
from landfall.system.replaced_files import replace_file

SESSION_S_MAX = 7 * 86_400
"""Maximum time for which a session is kept after its client has left, seconds; 3.1.1 has no limit of its own."""
SESSIONS_MAX, LOGIN_SESSIONS_MAX = 65_536, 4_096
"""Maximum number of sessions, of all and of one login. Beyond it, the oldest absent client of that login, or of the largest, is
forgotten."""
Key = tuple[str | None, str]
"""Name of a login (None: without one) and a client identifier."""


class _Kept(msgspec.Struct, array_like=True):
    username: str | None
    client_id: str
    expiry_s: int
    left_at_ms: int
    subscription: Subscription | None


class Sessions:
    """Sessions of one endpoint. Without a `file` they end with the process.

    `now_ms`: wall time. `doubted`: whether that may be far from the truth: meanwhile no session expires."""

    def __init__(self, file: Path | None, now_ms: Callable[[], int], doubted: Callable[[], bool] = lambda: False) -> None:
        self._file, self._now_ms, self._doubted = file, now_ms, doubted
        self._kept: dict[str | None, dict[str, _Kept]] = {}
        """Sessions by login and client identifier, the last to leave at the end."""
        self._count = 0
        self._connected: set[Key] = set()
        self.changed = False
        for one in self._read():
            one.left_at_ms = one.left_at_ms or now_ms()
            self._kept.setdefault(one.username, {})[one.client_id] = one
            self._count += 1

    def begin(self, key: Key, *, clean: bool, expiry_s: int) -> tuple[bool, Subscription | None]:
        """Begin the session of a client that has connected; return whether its session was there and goes on, and its subscription.

        With `clean` it starts again; with `expiry_s` 0 it ends with the connection."""
        before = self._forget(key)
        goes_on = before is not None and not clean and not self._is_over(before)
        subscription = before.subscription if before is not None and goes_on else None
        self._connected.add(key)
        self._keep(key, expiry_s, 0, subscription)
        self.changed = self.changed or before is not None
        return goes_on, subscription

    def subscribed(self, key: Key, expiry_s: int, subscription: Subscription | None) -> None:
        """Set the subscription of a connected client."""
        self._keep(key, expiry_s, 0, subscription)

    def leave(self, key: Key, expiry_s: int, subscription: Subscription | None) -> None:
        """Record that the client's connection has ended; its session is kept for `expiry_s` more."""
        self._connected.discard(key)
        before = self._forget(key)
        self.changed = self.changed or before is not None
        self._keep(key, expiry_s, self._now_ms(), subscription)

    def write(self) -> None:
        """Write the sessions to the file, durably; a power cut leaves the new content or the old. Raises OSError; then try again."""
        self.changed = False
        if self._file is None:
            return
        try:
            every = [one for of_login in self._kept.copy().values() for one in of_login.copy().values()]
            replace_file(self._file, msgspec.msgpack.encode([one for one in every if not self._is_over(one)]))
        except OSError:
            self.changed = True
            raise

    def _keep(self, key: Key, expiry_s: int, left_at_ms: int, subscription: Subscription | None) -> None:
        if not expiry_s:
            return
        username, client_id = key
        self._forget(key)
        hers = self._kept.setdefault(username, {})
        hers[client_id] = _Kept(*key, expiry_s, left_at_ms, subscription)
        self._count += 1
        self.changed = True
        if self._count > SESSIONS_MAX:
            username, hers = max(self._kept.items(), key=lambda one: len(one[1]))
        if self._count > SESSIONS_MAX or (username is not None and len(hers) > LOGIN_SESSIONS_MAX):
            gone = next((one for one in hers if (username, one) not in self._connected), None)
            self._forget((username, next(iter(hers)) if gone is None else gone))

    def _forget(self, key: Key) -> _Kept | None:
        hers = self._kept.get(key[0], {})
        one = hers.pop(key[1], None)
        if one is not None:
            self._count -= 1
            if not hers:
                del self._kept[key[0]]
        return one

    def _is_over(self, one: _Kept) -> bool:
        expired = bool(one.left_at_ms) and abs(self._now_ms() - one.left_at_ms) > one.expiry_s * 1_000  # later: the clock was ahead
        return expired and not self._doubted()

    def _read(self) -> list[_Kept]:
        """Return the sessions in the file; none when it is absent or can not be read: a missing session costs at most a message sent
        again."""
        try:
            return [] if self._file is None else msgspec.msgpack.decode(self._file.read_bytes(), type=list[_Kept])
        except (FileNotFoundError, msgspec.MsgspecError):
            return []
