"""Storm mode and roll calls of a ship: what its node asks of devices that listen, by what its watch received: how the ship rolls, and
blows."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from cargo.rules.storm_mode import RollCall, StormRequests, StormRules
from intake.intake_service import Intake
from landfall.node.node import Node
from landfall.watch.watch_service import Watching

LOOK_S = 0.5
"""Pause between two looks at how the ship rolls, seconds: at thousands of times the fleet's speed the watch hears of it at every step."""
_log = logging.getLogger(__name__)


class StormMode:
    """`run` it as background work of a ship's node. Whatever the sensors' way in is, it says what is asked there."""

    def __init__(self, node: Node, intake: Intake, watching: Watching, rules: StormRules) -> None:
        self._metrics, self._intake, self._watching = node.metrics, intake, watching
        self._asking = StormRequests(node.settings.identity, rules)
        self.interval_s: int | None = None
        """Interval that devices are asked for now, seconds; None: nothing."""
        self.roll_call: RollCall | None = None
        """The roll call made now in addition; None: none."""

    async def run(self) -> None:
        """Run until cancelled."""
        await self._watching.taken_up()
        while True:
            request = self._asking.due(*await self._watching.asks())
            if request is not None:
                if request.roll_call != self.roll_call:
                    self._note_call(request.roll_call)
                if request.interval_s != self.interval_s:
                    _log.info("storm mode: devices are asked to report %s", _in_words(request.interval_s))
                self.interval_s = request.interval_s
                self._intake.ask(request.to_bytes())
                self._metrics.count("storm_requests")
                self._metrics.gauge("storm_interval_s", request.interval_s or 0)
            await asyncio.sleep(LOOK_S)

    def status(self) -> dict[str, Any]:
        """Return what is asked of devices now."""
        return {"interval_s": self.interval_s, "roll_call": msgspec.to_builtins(self.roll_call)}

    def _note_call(self, roll_call: RollCall | None) -> None:
        before, self.roll_call = self.roll_call, roll_call
        if roll_call is not None and (before is None or before.containers != roll_call.containers):
            whom = "all" if roll_call.containers is None else str(len(roll_call.containers))
            _log.info("roll call: %s devices are asked to report every %d s", whom, roll_call.interval_s)
            self._metrics.count("roll_calls")


def _in_words(interval_s: int | None) -> str:
    return "as usual" if interval_s is None else f"every {interval_s} s"
