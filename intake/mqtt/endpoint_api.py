"""What a connection asks of the endpoint that let it come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from intake.message_types import Publish, Sender
from intake.mqtt.client_logins import Gateway, Logins
from intake.mqtt.connect_packet import Connect
from intake.mqtt.subscriptions import Subscription
from intake.settings import EndpointSettings

if TYPE_CHECKING:
    from intake.mqtt.client_connection import Connection


@dataclass(frozen=True, slots=True)
class Joined:
    """Who came: whether its session goes on, and its subscription."""

    present: bool
    subscription: Subscription | None


class Door(Protocol):
    """What a connection asks of the endpoint it belongs to."""

    settings: EndpointSettings
    logins: Logins

    def now_s(self) -> float:
        """Monotone seconds."""
        ...

    def has_room(self, gateway: Gateway, connect: Connect) -> bool:
        """Whether this login may have one more connection."""
        ...

    def turns_away(self) -> bool:
        """Whether who comes should turn to another node."""
        ...

    def renounced(self, connection: Connection) -> None:
        """The will of this connection is not to be published."""
        ...

    def joined(self, connection: Connection, connect: Connect) -> Joined:
        """A client was let in. An older connection of the same one ends, and its session goes on with this one if the client wants it.
        Its will is published unless it is `renounced`."""
        ...

    def subscribed(self, connection: Connection, subscription: Subscription | None) -> None:
        """What this client has subscribed to is now this."""
        ...

    def published(self, sender: Sender, messages: list[Publish]) -> None:
        """Messages for the pipeline."""
        ...

    def asked(self) -> bytes | None:
        """What the node asked of devices last; None: nothing yet."""
        ...

    def left(self, connection: Connection) -> None:
        """The socket is closed; its will is to be published, at once or later."""
        ...

    def ending(self, connection: Connection, detail: str) -> None:
        """The door ends this connection, and why."""
        ...
