"""How fast time can really run: as fast as wished, less when publishing does not keep up, and faster again when it does."""

from __future__ import annotations

SLOWER, FASTER = 0.8, 1.25
JUDGE_S = 0.25
SHARE_MIN = 0.05
"""Never slower than this share of the speed it began with: what is held longer stands still anyway, and should be back soon."""


class SustainedPace:
    """The speed that can be sustained, at most `wished`: a fifth less when the clock was held, else a quarter more, each JUDGE_S seconds.

    Not safe for use from several threads.
    """

    def __init__(self, wished: float, now_s: float, start: float | None = None) -> None:
        self.wished = wished
        self.speed = wished if start is None else min(start, wished)
        self._least = SHARE_MIN * self.speed
        self._judged_s = now_s
        self._held = False

    def judge(self, now_s: float, *, held: bool) -> None:
        """`held`: the clock had to wait for acknowledgements just now. Decides once in JUDGE_S."""
        self._held = self._held or held
        if now_s - self._judged_s < JUDGE_S:
            return
        wanted = self.speed * (SLOWER if self._held else FASTER)
        self.speed = min(self.wished, max(wanted, self._least))
        self._judged_s, self._held = now_s, False
