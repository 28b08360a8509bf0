"""Who a client is, and which MQTT topics it may publish to."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from dataclasses import dataclass, field

from intake.arrivals import Outcome, Publish
from intake.properties import check_topic_name
from intake.routes import REMEMBERED_BYTES_MAX, topic_pattern
from intake.settings import EndpointSettings, GatewayLogin
from intake.subscriptions import TOPIC
from streams.passwords import PasswordChecks

PERMITS_MAX = 65_536


@dataclass(slots=True)
class Gateway:
    """A client that was let in: its name in logs (None: without a login) and what it may publish to."""

    username: str | None
    patterns: tuple[re.Pattern[bytes], ...]
    _permits: dict[bytes, bool] = field(default_factory=dict)

    def may_publish(self, topic: bytes) -> bool:
        """Whether this gateway may publish to `topic`; where the node asks devices, nobody may.

        Remembered for at most PERMITS_MAX topics, none of them long, then worked out again.

        Raises Violation when MQTT allows no such topic name.
        """
        permit = self._permits.get(topic)
        if permit is None:
            check_topic_name(topic)
            permit = topic != TOPIC and any(pattern.fullmatch(topic) for pattern in self.patterns)
            if len(topic) <= REMEMBERED_BYTES_MAX:
                if len(self._permits) >= PERMITS_MAX:
                    self._permits.clear()
                self._permits[topic] = permit
        return permit

    def checked(self, publish: Publish) -> Publish:
        """`publish`, refused if this gateway may not. Raises Violation for what MQTT allows nobody."""
        if not self.may_publish(publish.topic):
            publish.refused, publish.reason = Outcome.FOREIGN, f"gateway {self.username} may not publish to this topic"
        return publish


def account_of(username: str | None, address: str) -> str:
    """On whose account a client's messages are: its login's; without one, that of where it comes from."""
    return f"at {address}" if username is None else f"login {username}"


class Logins:
    """Checks gateways' logins. A password that was right once is known by a keyed digest, so that a storm of reconnects costs no argon2."""

    def __init__(self, settings: EndpointSettings) -> None:
        self._logins = {login.username: login for login in settings.logins}
        self._gateways = {name: Gateway(name, _patterns(login.publish)) for name, login in self._logins.items()}
        self._anonymous = Gateway(None, _patterns(settings.anonymous_publish)) if settings.anonymous_publish else None
        self._key = os.urandom(32)
        self._known: dict[str, bytes] = {}
        self._checks = PasswordChecks()

    def close(self) -> None:
        """Nobody is let in any more."""
        self._checks.close()

    def named(self, username: str | None) -> Gateway:
        """The gateway of this login as it is today; one that may publish nothing where there is none any more."""
        gateway = self._anonymous if username is None else self._gateways.get(username)
        return gateway or Gateway(username, ())

    async def gateway(self, address: str, username: str | None, password: bytes | None) -> Gateway | None:
        """The gateway of these credentials, shown from `address`; None when they are wrong, or none were given and none are not enough.

        Raises Crowded when too many passwords wait for this login there.
        """
        if username is None:
            return self._anonymous
        login = self._logins.get(username)
        if login is None or password is None:
            return None
        digest = hmac.digest(self._key, password, hashlib.sha256)
        if hmac.compare_digest(self._known.get(username, b""), digest) or await self._right(address, login, password):
            self._known[username] = digest
            return self._gateways[username]
        return None

    async def _right(self, address: str, login: GatewayLogin, password: bytes) -> bool:
        if login.password is not None:
            return hmac.compare_digest(login.password.get_secret_value().encode(), password)
        return await self._checks.right(address, login.username, login.password_argon2 or "", password)


def _patterns(filters: tuple[str, ...]) -> tuple[re.Pattern[bytes], ...]:
    return tuple(topic_pattern(one) for one in filters)
