"""The broker's answers for the records of one transaction: a record is written when the broker gave it an offset."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message

Delivered = Callable[[KafkaError | None, Message], None]


class Deliveries:
    """The answers for records that were produced with `expected()` as their `on_delivery`. For one thread.

    A record that came back without an offset counts as not written: the client also reports records as delivered because it holds them
    for so (KAFKA-15591).
    """

    def __init__(self) -> None:
        self._expected = 0
        self._offsets: dict[int, int] = {}
        self._failed: list[KafkaError] = []

    def expected(self) -> Delivered:
        """Register one more record on its way, and return the function to call with the answer for it."""
        number, self._expected = self._expected, self._expected + 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                self._failed.append(error)
            elif offset is None or offset < 0:
                self._failed.append(KafkaError(KafkaError._INCONSISTENT, f"no broker said where a record of {message.topic()} stands"))
            else:
                self._offsets[number] = offset

        return delivered

    def offsets(self, poll: Callable[[float], object], within_s: float) -> list[int]:
        """Return the offset of every record, in the order in which they were expected. Raises KafkaException when one is not written
        `within_s`.

        `poll` is the producer's. After a fatal error, its `flush` would continue with the answers while the error is being raised.
        """
        deadline_s = time.monotonic() + within_s
        while len(self._offsets) + len(self._failed) < self._expected and (left_s := deadline_s - time.monotonic()) > 0:
            poll(left_s)
        if len(self._offsets) < self._expected:
            raise KafkaException(self._failed[0] if self._failed else KafkaError(KafkaError._TIMED_OUT))
        return [self._offsets[number] for number in range(self._expected)]
