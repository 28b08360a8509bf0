"""Interface of the endpoint for its connections."""

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
    """Start of a session: whether the client's session goes on, and its subscription."""

    present: bool
    subscription: Subscription | None


class EndpointApi(Protocol):
    """Interface of the endpoint for its connections."""

    settings: EndpointSettings
    logins: GatewayLogins

    def now_s(self) -> float:
        """Return the monotonic time, seconds."""
        ...

    def has_room(self, gateway: GatewayLogin, connect: Connect) -> bool:
        """Return whether this login may have one more connection."""
        ...

    def turns_clients_away(self) -> bool:
        """Return whether new clients should use another node."""
        ...

    def cancel_will(self, connection: ClientConnection) -> None:
        """Cancel the will of this connection."""
        ...

    def register(self, connection: ClientConnection, connect: Connect) -> SessionStart:
        """Register a client that was let in, and return its session.

        An older connection of the same client ends, and its session goes on with this one if the client wants it. Its will is published
        unless it is `cancel_will`."""
        ...

    def set_subscription(self, connection: ClientConnection, subscription: Subscription | None) -> None:
        """Set the subscription of this client."""
        ...

    def take_in(self, sender: MessageSender, messages: list[Publish]) -> None:
        """Hand messages to the pipeline."""
        ...

    def last_request(self) -> bytes | None:
        """Return the node's last request to devices; None: nothing yet."""
        ...

    def unregister(self, connection: ClientConnection) -> None:
        """Process a closed socket; its will is to be published, at once or later."""
        ...

    def note_ending(self, connection: ClientConnection, detail: str) -> None:
        """Record that the endpoint ends this connection, and why."""
        ...
