"""Which node of a ship keeps the satellite's link: one alone, and the next as soon as that one is gone, or has no way ashore; and what the
others spent of the day's budget before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date

import msgspec

from landfall.node.node import Node
from streams.link_budget.budget_shares import Word
from streams.log import LogReader
from streams.model.identifiers import Origin
from streams.model.records import BODY, OFFSET

METRICS = "metrics"
STALE_S = 60.0
"""Age at which a node's report of its links no longer counts, seconds."""


class Turn:
    """Turn of this node: of the nodes in session here the smallest name is first. Ask `ours` from the node's event loop. `takeover_s`
    (wall): how long those before this node may have no way ashore, by what they say in `metrics`, before this one tries."""

    def __init__(self, node: Node, takeover_s: float) -> None:
        self._node, self._takeover_s = node, takeover_s
        self._astray_since_s: float | None = None
        self._companions: dict[str, Companion] = {}

    @property
    def shared(self) -> bool:
        """Whether there is another node to take turns with."""
        return bool(self._node.settings.companions())

    def share_budgets(self) -> None:
        """Count here, too, what the other nodes report that they spent of a link's budget, and gave of it: the ship has one budget."""
        for name in self._node.settings.companions():
            for words in spent(self._node.log, name):
                self._node.links.heard_of_budgets(name, words)

    def ours(self) -> bool:
        """Return whether this node is to keep the link now."""
        node = self._node
        sessions = node.links.status()
        before = [one for one in node.settings.companions() if one < node.settings.node and sessions.get(one, {}).get("open")]
        if not before:
            self._astray_since_s = None
            return True
        now_s = node.clock.monotonic_s()
        if any(self._has_a_way(one) for one in before):
            self._astray_since_s = None
            return False
        self._astray_since_s = now_s if self._astray_since_s is None else self._astray_since_s
        return now_s - self._astray_since_s >= self._takeover_s

    def _has_a_way(self, name: str) -> bool:
        """Return whether that node has a session ashore, by its last report."""
        ashore = {peer.node for peer in self._node.settings.known if peer.role in ("port", "hq")}
        return bool(ashore & self._companions.setdefault(name, Companion()).linked(self._node.log, name, self._node.clock.monotonic_s()))


class Companion:
    """Reports of another node of the ship on its links, by the time at which they came in here: its clock, and ours, may be wrong."""

    def __init__(self) -> None:
        self._ends: dict[Origin, int] | None = None
        self._linked: set[str] = set()
        self._heard_at_s = float("-inf")

    def linked(self, log: LogReader, name: str, now_s: float) -> set[str]:
        """Return the peers in session with node `name` by its last report to `metrics`, if that came in the last STALE_S (monotonic).

        At the first look the report of the newest generation counts as if it came then.
        """
        reports = _last_reports(log, name)
        newest = max((origin for origin, _, _ in reports), default=None)
        for origin, offset, report in reports:
            is_new = origin == newest if self._ends is None else self._ends.get(origin) != offset
            if is_new:
                gauges = [(key.split("."), value) for key, value in report.gauges.items()]
                self._linked = {key[1] for key, value in gauges if len(key) == 4 and (key[0], key[3]) == ("link", "open") and value}
                self._heard_at_s = now_s
        self._ends = {origin: offset for origin, offset, _ in reports}
        return self._linked if now_s - self._heard_at_s <= STALE_S else set()


def spent(log: LogReader, name: str) -> Iterator[dict[str, tuple[str, Word]]]:
    """Yield the last reports of the ship's node of this name, the newest at the end: per class of link for which it has a budget, the day
    (UTC) and its report of it."""
    for report in sorted((report for _, _, report in _last_reports(log, name)), key=lambda report: report.wall_at_ms):
        words, gauges = {}, report.gauges
        for link in [key.split(".")[1] for key in gauges if key.startswith("budget.") and key.endswith(".day")]:
            with suppress(KeyError, ValueError, OverflowError):  # what a program wrote there that is no node's word says nothing
                day, given = date.fromordinal(int(gauges[f"budget.{link}.day"])).isoformat(), f"budget.{link}.given_bytes."
                gifts = {key.removeprefix(given): int(bytes_) for key, bytes_ in gauges.items() if key.startswith(given)}
                words[link] = day, Word(int(gauges[f"budget.{link}.spent_here_bytes"]), gifts)
        yield words


class _LinkReport(msgspec.Struct):
    wall_at_ms: int
    gauges: dict[str, float | bool]


def _last_reports(log: LogReader, name: str) -> list[tuple[Origin, int, _LinkReport]]:
    """Return the last report of each of the node's generations, and its offset; skip reports of another form."""
    reports = []
    for batch in log.latest(METRICS, f"{name}.ship", [name]):
        with suppress(msgspec.MsgspecError, RecursionError):
            report = msgspec.json.decode(batch.records.column(BODY)[0].as_py() or "", type=_LinkReport)
            reports.append((batch.origin, batch.records.column(OFFSET)[0].as_py(), report))
    return reports
