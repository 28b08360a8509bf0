"""Wait of a watch that has just started for the records that the other nodes of its ship or port received meanwhile.

Without it, new records would advance the watch's clock beyond all of those, and their boxes would seem silent. Also, one stream would be
ahead of another, the ship's own readings ahead of its boxes'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from landfall.watch.watermark_reader import PATIENCE_S
from streams.model.clock import Clock

MEETS_S = 10.0
"""Maximum wait for another node to report what is lacked, seconds of wall time: a node that is alone watches alone."""
LOOK_S = 0.25


async def caught_up(lacked: Callable[[], int | None], clock: Clock) -> None:
    """Wait until nothing is lacked (`Watching.lacked`), no node reports it for MEETS_S, or none of it came for PATIENCE_S.

    The wait ends because a watch that waits for ever no longer watches.
    """
    fewest, since_s = None, clock.monotonic_s()
    while (now := lacked()) != 0:
        if now is not None and (fewest is None or now < fewest):
            fewest, since_s = now, clock.monotonic_s()
        if clock.monotonic_s() - since_s >= (MEETS_S if now is None else PATIENCE_S):
            return
        await asyncio.sleep(LOOK_S)
