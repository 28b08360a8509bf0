"""Wills that wait for their clients to come back, as MQTT 5 has it; so many of them at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from intake.message_types import Outcome, Publish
from intake.mqtt.client_sessions import Key
from intake.mqtt.connect_packet import Will

WILLS_BYTES_MAX = 16 << 20
"""Of topics, payloads and what else each takes. Beyond, those that are due soonest do not wait any longer."""
OVERHEAD_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class LastWill:
    """A will, the login of its client (None: without one) and the client's account."""

    username: str | None
    account: str
    will: Will


class Testator:
    """The client that left a will, as its sender: it learns no outcome. `said` is called once the will is durable, `again` brings it
    again."""

    def __init__(self, account: str, said: Callable[[Testator], None], again: Callable[[Testator], None]) -> None:
        self.account, self._said, self._again = account, said, again

    def hold(self, held: bool) -> None:
        """There is nothing more to come."""

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        """The pipeline says that it is durable."""
        self._said(self)

    def let_go(self) -> None:
        """The disk lost it, and nobody else can bring it again."""
        self._again(self)


class Wills:
    """The wills of clients that left without a word."""

    def __init__(self) -> None:
        self._waiting: dict[Key, tuple[float, LastWill]] = {}
        self._bytes = 0

    def keep(self, key: Key, due_s: float, will: LastWill) -> None:
        """`will` waits for `key`, of whom none waits, until `due_s`, monotone seconds."""
        self._waiting[key] = due_s, will
        self._bytes += _bytes(will)

    def take(self, key: Key) -> LastWill | None:
        """The will that waits for this client; it waits no more."""
        if (waiting := self._waiting.pop(key, None)) is None:
            return None
        self._bytes -= _bytes(waiting[1])
        return waiting[1]

    def due(self, now_s: float) -> Iterator[LastWill]:
        """Those whose time has come, and those there is no room for; they wait no more."""
        if self._bytes <= WILLS_BYTES_MAX and not any(due_s <= now_s for due_s, *_ in self._waiting.values()):
            return
        for key in sorted(self._waiting, key=lambda key: self._waiting[key][0]):
            if self._bytes <= WILLS_BYTES_MAX and self._waiting[key][0] > now_s:
                return
            if (will := self.take(key)) is not None:
                yield will


def _bytes(will: LastWill) -> int:
    return len(will.will.topic) + len(will.will.payload) + OVERHEAD_BYTES
