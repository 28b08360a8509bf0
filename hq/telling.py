"""How a process of headquarters tells of itself: its metrics and its failures, appended through the node's door."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from streams.clock import Clock
from streams.errors import RetryLater
from streams.link.door import AppendDoor
from streams.log import Append
from streams.metrics import Metrics
from streams.records import Record, to_batch

PAYLOAD_BYTES_MAX = 4096


@dataclass(slots=True)
class Teller:
    """Appends what one process has to say, at most every `interval_s` of the wall. For one thread."""

    door: AppendDoor | None
    metrics: Metrics
    clock: Clock
    interval_s: float
    _told_at_s: float = field(default=float("-inf"))

    def due(self) -> bool:
        """Whether it is time to speak again."""
        return self.door is not None and self.clock.monotonic_s() - self._told_at_s >= self.interval_s

    def tell(self, failures: Sequence[Append] = ()) -> bool:
        """Appends the metrics, and `failures` (see `failure`); whether they are durable. A node that is away is told later."""
        if self.door is None:
            return False
        self._told_at_s = self.clock.monotonic_s()
        body = self.metrics.body(self.clock.now_ms(), time.time_ns() // 1_000_000)
        record = Record(self.metrics.process, device_at_ms=body["at_ms"], body=body)
        try:
            self.door.append([Append("metrics", to_batch([record])), *failures])
        except RetryLater:
            self.metrics.count("metrics_not_told")
            return False
        return True


def failure(process: str, reason: str, payload: str, at_ms: int, key: tuple[str, int]) -> Append:
    """A record of `exceptions` on something `process` could not use. `key` (producer, sequence) makes telling it again harmless."""
    whole = payload.encode()
    body = {
        "reason": reason,
        "outcome": "left out",
        "mqtt_topic": None,
        "payload_base64": base64.b64encode(whole[:PAYLOAD_BYTES_MAX]).decode(),
        "payload_bytes": len(whole),
        "payload_sha256": hashlib.sha256(whole).hexdigest(),
        "at_ms": at_ms,
    }
    return Append("exceptions", to_batch([Record(process, body=body)]), *key)
