"""The `audit` stream: who logged in or failed to, who wrote what through the API, and what was changed of the accounts."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from dataclasses import asdict
from typing import Any, Self

from hq.api.accounts import Accounts
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.clock import Clock
from streams.model.errors import LandfallError
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch

STREAM = "audit"
WAITING_MAX = 10_000
"""Records that wait for a node that is away; beyond, the oldest is only counted (`audit_dropped`)."""
RECORDS_AT_ONCE_MAX = 1_000
TEXT_CHARS_MAX = 200
"""Characters kept of a name that a stranger gave."""
EVERY_S, AGAIN_S = 0.2, 5.0
"""Interval at which waiting notes are appended, and after which they are retried when the node did not take them, seconds."""
CHANGES_EVERY_S = 2.0
"""Interval at which the accounts' file is asked for changes, seconds."""
logger = logging.getLogger(__name__)


class Audit:
    """Appends audit records through the node's door, in a thread of its own while the `with` block runs. `note` is safe from any thread.

    Changes of the `accounts` stay in their file until they are in the log. When the API is killed in between, they may be appended twice,
    with the same `number`.
    """

    def __init__(self, door: AppendDoor, clock: Clock, metrics: Metrics, accounts: Accounts) -> None:
        self._door, self._clock, self._metrics, self._accounts = door, clock, metrics, accounts
        self._waiting: deque[Record] = deque()
        self._batch: Append | None = None
        self._changes_at_s = 0.0
        self._sequence = time.time_ns()
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep_appending, name="audit", daemon=True)

    def note(self, act: str, by: str, **more: Any) -> None:
        """Record one act (a stable word) of the account `by`, with its other facts. Returns at once; the note is durable soon after."""
        record = self._record(act, by, **more)
        with self._lock:
            self._waiting.append(record)
            if len(self._waiting) > WAITING_MAX:
                self._waiting.popleft()
                self._metrics.count("audit_dropped")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _keep_appending(self) -> None:
        ended = False
        while not ended:
            ended = self._ending.wait(EVERY_S if self._batch is None else AGAIN_S)
            while self._append():
                pass
            if time.monotonic() >= self._changes_at_s or ended:
                self._append_changes()

    def _append_changes(self) -> None:
        self._changes_at_s = time.monotonic() + CHANGES_EVERY_S
        try:
            if changes := self._accounts.changes(RECORDS_AT_ONCE_MAX):
                records = [self._record("account", **asdict(change)) for change in changes]
                self._door.append([Append(STREAM, to_batch(records))])
                self._accounts.remove_changes(changes[-1].number)
        except (LandfallError, sqlite3.Error) as problem:
            self._metrics.count("audit_not_appended")
            logger.warning("changes of the accounts wait: %s", problem)

    def _record(self, act: str, by: str, **more: Any) -> Record:
        at_ms = self._clock.now_ms()
        body = {"act": act, "by": by[:TEXT_CHARS_MAX], "at_ms": at_ms, "wall_at_ms": time.time_ns() // 1_000_000, **more}
        return Record(act, device_at_ms=at_ms, body=body)

    def _append(self) -> bool:
        """Return whether a batch was taken, each note once. A batch that was not taken goes first the next time."""
        with self._lock:
            if self._batch is None and self._waiting:
                several = [self._waiting.popleft() for _ in range(min(RECORDS_AT_ONCE_MAX, len(self._waiting)))]
                self._sequence += 1
                self._batch = Append(STREAM, to_batch(several), "api/audit", self._sequence)
        if self._batch is None:
            return False
        try:
            self._door.append([self._batch])
        except LandfallError as problem:
            self._metrics.count("audit_not_appended")
            logger.warning("audit records wait: %s", problem)
            return False
        self._batch = None
        return True
