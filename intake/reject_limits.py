"""Limits on the storage of refused messages: a number of bytes of each account an hour, and beyond that only their count.

Otherwise a broken or hostile gateway would fill the disk with unreadable messages. Nothing is dropped silently. Counted messages are
reported to `exceptions` too: in the commit with the first of them, whenever their number has doubled, and when the hour is over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from intake.message_types import KEPT_BYTES_MAX, Outcome, Publish
from streams.model.records import Record

SPAN_S = 3_600.0
ALL_TIMES = 16
"""Limit of all accounts together, times the limit of one."""
ACCOUNTS_MAX = 1_024
"""Maximum number of accounts that are distinguished in an hour. Further ones share the limit of one account."""
OTHERS = "others"
RECORD_BYTES = 512
"""Approximate bytes of a record of `exceptions` without the payload."""


@dataclass(slots=True)
class _Span:
    """The refused messages of one account since `began_s` (monotone) and `began_at_ms` (UTC ms).

    `reported`: the number of messages that were counted alone at the last report."""

    began_s: float
    began_at_ms: int
    kept_bytes: int = 0
    counted: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0
    reported: int = 0


class Refusals:
    """Refused messages of accounts in their hours. For one event loop."""

    def __init__(self, process: str, bytes_per_h: int) -> None:
        """`bytes_per_h`: bytes kept of each account an hour: payloads, of each KEPT_BYTES_MAX at most, and RECORD_BYTES for each."""
        self._process, self._bytes_per_h = process, bytes_per_h
        self._spans: dict[str, _Span] = {}
        self._kept_bytes = 0

    def keeps(self, account: str, message: Publish, outcome: Outcome, now_s: float, now_at_ms: int) -> bool:
        """Return whether this message gets a record of its own in `exceptions`; if not, count it."""
        if account not in self._spans and len(self._spans) >= ACCOUNTS_MAX:
            account = OTHERS
        span = self._spans.get(account)
        if span is None:
            span = self._spans[account] = _Span(now_s, now_at_ms)
        bytes_ = RECORD_BYTES + min(len(message.payload), KEPT_BYTES_MAX)
        if span.kept_bytes + bytes_ <= self._bytes_per_h and self._kept_bytes + bytes_ <= ALL_TIMES * self._bytes_per_h:
            span.kept_bytes += bytes_
            self._kept_bytes += bytes_
            return True
        span.counted[outcome.name.lower()] += 1
        span.payload_bytes += message.payload_bytes if message.payload_sha256 else len(message.payload)
        return False

    def news(self, now_s: float, now_at_ms: int) -> list[Record]:
        """Return the reports due now on counted messages, and mark these as reported. Hours that are over are forgotten."""
        records = []
        for account, span in list(self._spans.items()):
            counted, is_over = span.counted.total(), now_s - span.began_s >= SPAN_S
            if counted > span.reported and (is_over or counted >= 2 * span.reported):
                records.append(self._record(account, span, now_at_ms))
                span.reported = counted
            if is_over:
                self._kept_bytes -= span.kept_bytes
                del self._spans[account]
        return records

    def _record(self, account: str, span: _Span, now_at_ms: int) -> Record:
        body = {
            "reason": f"{account} brings more that is not taken than is kept of it in an hour",
            "outcome": "counted alone",
            "account": account,
            "messages": span.counted.total(),
            "outcomes": dict(span.counted),
            "payload_bytes": span.payload_bytes,
            "since_at_ms": span.began_at_ms,
            "at_ms": now_at_ms,
        }
        return Record(topic=self._process, body=body)
