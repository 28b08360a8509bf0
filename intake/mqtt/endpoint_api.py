"""What a connection asks of the endpoint that let it come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from intake.message_types import MessageSender, Publish
from intake.mqtt.client_logins import GatewayLogin, GatewayLogins
from intake.mqtt.connect_packet import Connect
from intake.mqtt.subscriptions import Subscription
from intake.settings import EndpointSettings

if TYPE_CHECKING:
    from intake.mqtt.client_connection import ClientConnection


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Who came: whether its session goes on, and its subscription."""

    present: bool
    subscription: Subscription | None


class Door(Protocol):
    """What a connection asks of the endpoint it belongs to."""

    settings: EndpointSettings
    logins: GatewayLogins

    def now_s(self) -> float:
        """Monotone seconds."""
        ...

    def has_room(self, gateway: GatewayLogin, connect: Connect) -> bool:
        """Whether this login may have one more connection."""
        ...

    def turns_away(self) -> bool:
        """Whether who comes should turn to another node."""
        ...

    def renounced(self, connection: ClientConnection) -> None:
        """The will of this connection is not to be published."""
        ...

    def joined(self, connection: ClientConnection, connect: Connect) -> SessionStart:
        """A client was let in. An older connection of the same one ends, and its session goes on with this one if the client wants it.
        Its will is published unless it is `renounced`."""
        ...

    def subscribed(self, connection: ClientConnection, subscription: Subscription | None) -> None:
        """What this client has subscribed to is now this."""
        ...

    def published(self, sender: MessageSender, messages: list[Publish]) -> None:
        """Messages for the pipeline."""
        ...

    def asked(self) -> bytes | None:
        """What the node asked of devices last; None: nothing yet."""
        ...

    def left(self, connection: ClientConnection) -> None:
        """The socket is closed; its will is to be published, at once or later."""
        ...

    def ending(self, connection: ClientConnection, detail: str) -> None:
        """The door ends this connection, and why."""
        ...
