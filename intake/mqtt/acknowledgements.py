"""What a client hears of the messages that it published, once what became of them is durable."""

from __future__ import annotations

from collections.abc import Sequence

from intake.message_types import Outcome, Publish
from intake.mqtt.packets import Reason, puback_with_reason, pubacks

_NOT_TAKEN = {
    Outcome.MALFORMED: Reason.PAYLOAD_FORMAT_INVALID,
    Outcome.BAD_VALUE: Reason.PAYLOAD_FORMAT_INVALID,
    Outcome.UNKNOWN_TOPIC: Reason.TOPIC_NAME_INVALID,
    Outcome.OVERSIZED: Reason.QUOTA_EXCEEDED,
    Outcome.FOREIGN: Reason.NOT_AUTHORIZED,
}
"""What an MQTT 5 client hears in its PUBACK. The message is in `exceptions`: it need not, and should not, be sent again."""


def acknowledgements(v5: bool, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> bytes:
    """A PUBACK for each of `messages` that wants one, in order; MQTT 5 says what was not taken as a reading, and why."""
    if not v5 or _NOT_TAKEN.keys().isdisjoint(outcomes):
        return pubacks([message.packet_id for message in messages if message.packet_id])
    return b"".join(
        puback_with_reason(message.packet_id, _NOT_TAKEN[outcome]) if outcome in _NOT_TAKEN else pubacks((message.packet_id,))
        for message, outcome in zip(messages, outcomes, strict=True)
        if message.packet_id
    )
