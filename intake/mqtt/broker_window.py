"""How many messages a broker sends before it waits for their acknowledgements (Mosquitto: `max_inflight_messages`)."""

from __future__ import annotations


class Window:
    """Of one connection. Nobody says how wide it is: taken for it is the most that ever waited, which can only grow."""

    def __init__(self) -> None:
        self._waiting = self._most = 0

    def brought(self, messages: int) -> None:
        """So many came that are to be acknowledged."""
        self._waiting += messages
        self._most = max(self._most, self._waiting)

    def acknowledged(self, messages: int) -> None:
        """So many of them are."""
        self._waiting -= messages

    @property
    def is_full(self) -> bool:
        """Whether some wait, and as many as ever did: more may not come before some of them are acknowledged."""
        return 0 < self._waiting == self._most
