"""What ends a process's work: a flag that a signal handler can set."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue


class Stop:
    """Once set it stays set. Like threading.Event, but a signal handler may set it: an Event that is set in a handler while the same
    thread waits for it can wait for its own lock for ever. `SimpleQueue.put` may be called anywhere, by its documentation.
    """

    def __init__(self) -> None:
        self._asked = False
        self._woken = SimpleQueue[None]()

    def set(self) -> None:
        """All that wait go on."""
        self._asked = True
        self._woken.put(None)

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._asked

    def wait(self, timeout_s: float) -> bool:
        """Returns once it is set, or after `timeout_s`; whether it is set."""
        if not self._asked:
            with suppress(Empty):
                self._woken.get(timeout=timeout_s)
        if self._asked:
            self._woken.put(None)  # for the next who waits
        return self._asked
