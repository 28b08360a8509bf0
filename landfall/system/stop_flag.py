"""What ends a process's work: a flag that a signal handler can set."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue


class Stop:
    """Flag that stays set once it is set. Like threading.Event, but a signal handler may set it.

    An Event that is set in a handler while the same thread waits for it can wait for its own lock for ever. `SimpleQueue.put` may be
    called anywhere, by its documentation.
    """

    def __init__(self) -> None:
        self._asked = False
        self._woken = SimpleQueue[None]()

    def set(self) -> None:
        """Set the flag, and wake all that wait for it."""
        self._asked = True
        self._woken.put(None)

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._asked

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is set, or for `timeout_s`; return whether it is set."""
        if not self._asked:
            with suppress(Empty):
                self._woken.get(timeout=timeout_s)
        if self._asked:
            self._woken.put(None)  # for the next who waits
        return self._asked
