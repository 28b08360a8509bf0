"""Messages and their outcomes: the types that the endpoint, the broker's subscriber and the pipeline share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

KEPT_BYTES_MAX = 4_096
"""Maximum number of bytes that `exceptions` keeps of a refused payload, next to the length and SHA-256 of all of it."""


class Outcome(IntEnum):
    """Result of one message, counted as `intake_<name>`.

    The counts of all outcomes and the gauge `intake_waiting`, of messages without one yet, add up to `intake_received`, the messages
    received."""

    ACCEPTED = 0
    """In the log."""
    FUTURE = 1
    """In the log, flagged `future`: its device's clock is more than 5 min ahead, so it is ordered by the time it was received."""
    STALE = 2
    """In the log, flagged `stale`: its device's clock is more than 180 days behind, so it is ordered by the time it was received."""
    REPEATED = 3
    """In the log already."""
    MALFORMED = 4
    """In `exceptions`: no JSON object, or no device."""
    BAD_VALUE = 5
    """In `exceptions`: not one of its values can be true."""
    UNKNOWN_TOPIC = 6
    """In `exceptions`: its MQTT topic is none of ours."""
    OVERSIZED = 7
    """In `exceptions`: longer than this node takes."""
    FOREIGN = 8
    """In `exceptions`: its gateway may not publish to this topic."""
    UNKNOWN_CONTAINER = 9
    """In the log: of a container that is in no load list and no booking this node knows, or of what is no container's number. The muster
    says which (`not_on_list`)."""
    LET_GO = 10
    """Not acknowledged, and its connection ended, so that it comes again: with `two_nodes`, damage took what no other disk had."""


STORED = frozenset({Outcome.ACCEPTED, Outcome.FUTURE, Outcome.STALE, Outcome.UNKNOWN_CONTAINER})


class Publish(msgspec.Struct, gc=False):
    """One MQTT message as it came.

    `packet_id`: its two bytes, empty at QoS 0. `refused` and `reason`: set when the endpoint already refuses it; then `payload` may be only
    its beginning, and `payload_bytes` and `payload_sha256` (hexadecimal) describe all of it. `again`: MQTT marks it as sent again (DUP).
    `retained`: with RETAIN, which a broker sets on messages from before its subscriber came. `will`: the endpoint publishes it for a client
    that has gone. `content_type`: as MQTT 5 names it, or empty."""

    topic: bytes
    payload: bytes
    packet_id: bytes = b""
    refused: Outcome | None = None
    reason: str = ""
    payload_bytes: int = 0
    payload_sha256: str = ""
    again: bool = False
    retained: bool = False
    will: bool = False
    content_type: str = ""

    def is_said_again(self) -> bool:
        """Return whether MQTT marks it as published before: by DUP, or by a broker's RETAIN."""
        return self.again or self.retained


class MessageSender(Protocol):
    """The sender that handed messages to the pipeline and must learn their outcome. Hashed by identity."""

    @property
    def account(self) -> str:
        """Account of its messages: accounts share the work in equal parts."""
        ...

    def hold(self, held: bool) -> None:
        """Stop handing over messages, because more than its share is waiting (True), or go on (False). Must not raise."""
        ...

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        """Acknowledge messages, which is allowed only now: called on the event loop once what `outcomes` report is durable.

        Must not raise."""
        ...

    def let_go(self) -> None:
        """Send again, here or elsewhere, all messages without a reported outcome, because this node can not keep them.

        May be called more than once, on the event loop. Must not raise."""
        ...
