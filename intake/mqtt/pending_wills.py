"""Wills that wait for their clients to come back, as in MQTT 5; their size is limited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from intake.message_types import Outcome, Publish
from intake.mqtt.client_sessions import Key
from intake.mqtt.connect_packet import Will

WILLS_BYTES_MAX = 16 << 20
"""Maximum size of waiting wills, bytes, with topics, payloads and overhead. Beyond it, those that are due soonest do not wait any
longer."""
OVERHEAD_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class LastWill:
    """A will, the login of its client (None: without one) and the client's account."""

    username: str | None
    account: str
    will: Will


class Testator:
    """The client that left a will, as its sender: it gets no outcome. `said` is called once the will is durable, `again` sends it again."""

    def __init__(self, account: str, said: Callable[[Testator], None], again: Callable[[Testator], None]) -> None:
        self.account, self._said, self._again = account, said, again

    def hold(self, held: bool) -> None:
        """Do nothing: there is nothing more to come."""

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        """Call `said`, because the pipeline reports that the will is durable."""
        self._said(self)

    def let_go(self) -> None:
        """Send the will again, because the disk lost it, and no client can."""
        self._again(self)


class Wills:
    """Wills of clients that left without a DISCONNECT."""

    def __init__(self) -> None:
        self._waiting: dict[Key, tuple[float, LastWill]] = {}
        self._bytes = 0

    def keep(self, key: Key, due_s: float, will: LastWill) -> None:
        """Store `will` for `key`, which has none waiting, until `due_s`, monotonic seconds."""
        self._waiting[key] = due_s, will
        self._bytes += _bytes(will)

    def take(self, key: Key) -> LastWill | None:
        """Remove and return the will that waits for this client."""
        if (waiting := self._waiting.pop(key, None)) is None:
            return None
        self._bytes -= _bytes(waiting[1])
        return waiting[1]

    def due(self, now_s: float) -> Iterator[LastWill]:
        """Remove and yield the wills that are due, and those there is no room for."""
        if self._bytes <= WILLS_BYTES_MAX and not any(due_s <= now_s for due_s, *_ in self._waiting.values()):
            return
        for key in sorted(self._waiting, key=lambda key: self._waiting[key][0]):
            if self._bytes <= WILLS_BYTES_MAX and self._waiting[key][0] > now_s:
                return
            if (will := self.take(key)) is not None:
                yield will


def _bytes(will: LastWill) -> int:
    return len(will.will.topic) + len(will.will.payload) + OVERHEAD_BYTES
