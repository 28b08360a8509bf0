"""Identity of a client, and the MQTT topics to which it may publish."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from intake.message_types import Outcome, Publish
from intake.mqtt.packet_properties import check_topic_name
from intake.mqtt.subscriptions import TOPIC
from intake.topic_routes import REMEMBERED_BYTES_MAX
from landfall.access.credentials import Credentials
from landfall.access.mqtt_filters import topic_pattern
from landfall.access.principals import GATEWAY, Principal, may
from landfall.access.wrong_secrets import WrongSecrets

_log = logging.getLogger("intake.endpoint")

PERMITS_MAX = 65_536


@dataclass(slots=True)
class GatewayLogin:
    """A client that was let in: its name in logs (None: without a login) and its principal."""

    username: str | None
    principal: Principal
    _permits: dict[bytes, bool] = field(default_factory=dict)

    def may_publish(self, topic: bytes) -> bool:
        """Return whether this gateway may publish to `topic`; no client may publish to the topic of the node's requests.

        The result is cached for at most PERMITS_MAX topics, none of them long; a full cache is cleared.

        Raises Violation when MQTT allows no such topic name."""
        permit = self._permits.get(topic)
        if permit is None:
            check_topic_name(topic)
            permit = topic != TOPIC and may(self.principal, "produce", topic.decode())
            if len(topic) <= REMEMBERED_BYTES_MAX:
                if len(self._permits) >= PERMITS_MAX:
                    self._permits.clear()
                self._permits[topic] = permit
        return permit

    def checked(self, publish: Publish) -> Publish:
        """Return `publish`, refused if this gateway may not publish it. Raises Violation for what MQTT allows no client."""
        if not self.may_publish(publish.topic):
            publish.refused, publish.reason = Outcome.FOREIGN, f"gateway {self.username} may not publish to this topic"
        return publish


def account_of(username: str | None, address: str) -> str:
    """Return the account of a client's messages: its login's; without one, that of its address."""
    return f"at {address}" if username is None else f"login {username}"


class GatewayLogins:
    """Check of gateways' logins: user name and password are the name and the token of a credential `gateway:NAME` of the node."""

    def __init__(self, anonymous_publish: tuple[str, ...], credentials: Credentials, wrong: WrongSecrets) -> None:
        """`anonymous_publish`: the MQTT topic filters of clients without a login. `wrong`: receives every wrong secret."""
        self._anonymous = GatewayLogin(None, Principal(GATEWAY, {"produce": anonymous_publish})) if anonymous_publish else None
        self._credentials, self._wrong = credentials, wrong
        self._gateways: dict[str, GatewayLogin] = {}

    def named(self, username: str | None) -> GatewayLogin:
        """Return the gateway of this login as it is now; one that may publish nothing where there is none any more."""
        gateway = self._anonymous if username is None else self._known(username)
        return gateway or GatewayLogin(username, Principal(f"{GATEWAY}{username or ''}", {}))

    async def gateway(self, address: str, username: str | None, password: bytes | None) -> GatewayLogin | None:
        """Return the gateway of these credentials, shown from `address`; None when they are wrong, or none were given and a login is
        needed.

        The answer to a wrong one is slower each time. Raises Crowded when too many wait for such an answer."""
        if username is None:
            return self._anonymous
        if password is not None and self._credentials.is_gateways(username, password):
            return self._known(username)
        await self._wrong.shown(username, address)
        return None

    def holds(self, gateway: GatewayLogin) -> bool:
        """Return whether this gateway's credential is still there, and allows what it did."""
        return gateway.username is None or self._credentials.gateway(gateway.username) == gateway.principal

    def _known(self, username: str) -> GatewayLogin | None:
        principal = self._credentials.gateway(username)
        if principal is None:
            return None
        known = self._gateways.get(username)
        if known is None or known.principal != principal:
            known = self._gateways[username] = GatewayLogin(username, principal)
            _warn_of_invalid(principal)
        return known


def _warn_of_invalid(principal: Principal) -> None:
    for one in principal.allowed.get("produce", ()):
        try:
            topic_pattern(one)
        except ValueError as problem:
            _log.warning("%s may publish nothing by one of its filters: %s", principal.name, problem)
