"""The reports of a process next to a node on itself: its metrics and its failures, appended through the node's door."""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from landfall.system.secret_masks import mask_secrets
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.errors import LandfallError, RetryLater
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch

PAYLOAD_BYTES_MAX = 4096
REASON_CHARS_MAX = 2_000
FAILURES_KEPT_MAX = 100
"""Maximum number of failures that wait for a node that is away. Beyond it, the oldest is only counted (`exceptions_dropped`)."""
GATHER_S = 0.2
DOOR_TIMEOUT_S = 5.0
log = logging.getLogger(__name__)


class TimeSource(Protocol):
    """Something that knows the fleet's time."""

    def now_ms(self) -> int:
        """Return the fleet's time, UTC milliseconds."""
        ...


Standing = Callable[[], Mapping[str, Any]]
"""A function that returns what a `metrics` record has in addition to counts, gauges and histograms."""


class TelemetryClient:
    """The reports of one process. Safe from any thread.

    `with telemetry:` reports while the block runs: metrics every `interval_s` of the wall, failures soon after `report`, both once more at
    its end. An exception that ends the block is reported too, on its way out. Without a door nothing is reported.
    """

    def __init__(
        self, door: AppendDoor | None, metrics: Metrics, clock: TimeSource, interval_s: float, standing: Standing = dict[str, Any]
    ) -> None:
        self._door, self._metrics, self._clock, self._interval_s, self._standing = door, metrics, clock, interval_s, standing
        self._failures: deque[Append] = deque()
        self._reported = 0
        self._producer = f"{metrics.process}/{time.time_ns()}"
        self._lock = threading.Lock()
        self._awake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep_sending, name="telemetry", daemon=True)

    def report(
        self,
        reason: str,
        payload: str = "",
        outcome: str = "left out",
        *,
        code: str,
        key: tuple[str, int] | None = None,
        topic: str | None = None,
    ) -> None:
        """Report one failure for `exceptions`: why, what it was about, what was done about it, the case's code. Returns at once.

        `key`: producer and sequence of a report that must exist once, however often and by whichever process it is made. `topic`: another
        than the process's name.
        """
        self._metrics.count("exceptions")
        with self._lock:
            self._reported += 1
            key = key or (self._producer, self._reported)
            self._failures.append(failure(self._metrics.process, reason, payload, self._clock.now_ms(), key, outcome, topic, code=code))
            if len(self._failures) > FAILURES_KEPT_MAX:
                self._failures.popleft()
                self._metrics.count("exceptions_dropped")
        self._awake.set()

    def send(self, more: Sequence[Append] = ()) -> bool:
        """Append metrics, the waiting failures and `more`, durably. Return False when the node is away or refuses: the failures then
        continue to wait.
        """
        if self._door is None:
            return False
        with self._lock:
            waiting = list(self._failures)
        at_ms = self._clock.now_ms()
        body = {**self._standing(), **self._metrics.body(at_ms, time.time_ns() // 1_000_000)}
        record = Record(self._metrics.process, device_at_ms=at_ms, body=body)
        try:
            self._door.append([Append("metrics", to_batch([record])), *waiting, *more])
        except LandfallError as problem:
            self._metrics.count("metrics_not_told")
            if not isinstance(problem, RetryLater):
                log.error("metrics and failures are not taken: %s", problem)
            return False
        sent = {(append.producer, append.sequence) for append in waiting}
        with self._lock:
            self._failures = deque(append for append in self._failures if (append.producer, append.sequence) not in sent)
        return True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._awake.set()
        self._thread.join()
        if isinstance(problem, Exception):
            code = problem.code if isinstance(problem, LandfallError) else "process_failed"
            self.report(f"{type(problem).__name__}: {problem}", outcome="the process ended", code=code)
        self.send()

    def _keep_sending(self) -> None:
        while not self._ending.is_set():
            if self._awake.wait(self._interval_s):
                self._awake.clear()
                self._ending.wait(GATHER_S)
            self.send()


def failure(
    process: str,
    reason: str,
    payload: str,
    at_ms: int,
    key: tuple[str, int],
    outcome: str = "left out",
    topic: str | None = None,
    *,
    code: str,
) -> Append:
    """Return a record of `exceptions`: why `process` failed, on what, what it did, and the case's code.

    `key`: producer and sequence, so that it is reported once. `topic`: another than the process's name.
    """
    whole = payload.encode()
    kept, secrets = mask_secrets(whole[:PAYLOAD_BYTES_MAX])
    body = {
        "reason": reason[:REASON_CHARS_MAX],
        "outcome": outcome,
        "code": code,
        "mqtt_topic": None,
        "payload_base64": base64.b64encode(kept[:PAYLOAD_BYTES_MAX]).decode(),
        "payload_bytes": len(whole),
        "payload_sha256": hashlib.sha256(whole).hexdigest(),
        **({"secrets_masked": secrets} if secrets else {}),
        "at_ms": at_ms,
    }
    return Append("exceptions", to_batch([Record(topic or process, device_at_ms=at_ms, body=body)]), *key)
