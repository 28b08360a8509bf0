"""How soon the next message may go on a link that is kept below a rate: a token bucket that may be in debt."""

from __future__ import annotations

BURST_S = 0.05
"""What was not used for so long may be used at once: a timer that rings late costs nothing, and an alert waits so much longer at most."""


class Pacer:
    """Keeps what is sent below `rate_bit_s` (None: no limit), on the average and but for BURST_S of it. `now_s`: monotone seconds.

    A message may go as long as nothing is owed, whatever its size; what it takes beyond what was saved up is owed.
    """

    def __init__(self, rate_bit_s: int | None, now_s: float) -> None:
        self._bytes_s = (rate_bit_s or 0) / 8
        self._saved_bytes = 0.0
        self._at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """How long it is until the next message may go; 0 when it may."""
        if not self._bytes_s:
            return 0.0
        self._saved_bytes = min(self._saved_bytes + (now_s - self._at_s) * self._bytes_s, BURST_S * self._bytes_s)
        self._at_s = now_s
        return max(0.0, -self._saved_bytes / self._bytes_s)

    def sent(self, bytes_: int) -> None:
        """So many bytes have gone."""
        self._saved_bytes -= bytes_

    def takes_s(self, bytes_: int) -> float:
        """How long so many bytes take at the rate; 0 without one."""
        return bytes_ / self._bytes_s if self._bytes_s else 0.0
