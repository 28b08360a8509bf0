"""Goal: what a plan says of a voyage is what becomes of it in the simulated fleet: bytes, cost, when each stream is ashore; and a plan that
forgets overhead, budget, reserve, lanes or the newest beside the backlog would be noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edge.planning import backlog_model
from edge.planning.leg_simulation import LegOutcome
from streams.config.roles import Lane
from tests.sync.forecast import BUDGET, DAY_S, WRITTEN, Crossing, Sailed, forecast

MEASURE = 0.02
"""Bytes, cost and times may be so far apart: the plan's transfers, pings and offsets are those of the midst of a voyage, and records come
evenly in it."""
LOOKED_S = 60.0
"""At sea it is looked once a minute how things stand."""
MOMENT_S = 1.5
"""In port twice a second; a session's opening, a round trip and a commit are no part of the plan."""


@pytest.fixture(scope="module")
def sailed() -> tuple[Sailed, Sailed]:
    return Crossing().sail()


def differences(sailed: tuple[Sailed, Sailed], planned: tuple[LegOutcome, LegOutcome]) -> list[str]:
    """Where the plan and the voyage are further apart than they may be."""
    found = []

    def compare(what: str, truly: float, told: float | None, within: float) -> None:
        if told is None or abs(truly - told) > within:
            found.append(f"{what}: {truly:,.1f}, planned {told}")

    (sea, port), (sea_told, port_told) = sailed, planned
    assert len(sea_told.days) == len(sea.charged) == 2
    for number, (charged, cut_s, day) in enumerate(zip(sea.charged, sea.cut_s, sea_told.days, strict=True)):
        assert cut_s is not None, "the budget lasts the day, so nothing is tried"
        compare(f"charged on day {number}", charged, day.charged_bytes, MEASURE * charged)
        compare(f"cost of day {number}", BUDGET.cost(charged), day.cost, MEASURE * BUDGET.cost(charged))
        told_s = None if day.cut_s is None else day.cut_s % DAY_S
        compare(f"cut on day {number}", cut_s, told_s, MEASURE * cut_s + LOOKED_S)
    compare("bytes in port", port.bytes, port_told.days[0].bytes, MEASURE * port.bytes)
    for stream in (written.stream for written in WRITTEN):
        at_sea, in_port = sea_told.streams[stream], port_told.streams[stream]
        lag_s, waits = sea.lag_max_s[stream], sea.waiting[stream]
        compare(f"greatest lag of {stream} at sea", lag_s, at_sea.lag_max_s, MEASURE * lag_s + 2 * LOOKED_S + _every_s(stream))
        compare(f"what waits of {stream} at its end", waits, sea_told.waiting_records[stream], MEASURE * waits + 2 * _together(stream))
        for what, truly, told in (
            ("newest", port.newest_after_s[stream], in_port.newest_after_s),
            ("all", port.all_after_s[stream], in_port.all_after_s),
        ):
            compare(f"{what} of {stream} in port", truly, told, MEASURE * truly + MOMENT_S)
    return found


def _every_s(stream: str) -> float:
    """How old at most what is written next may be: the plan has it trickle in."""
    return next(written.every_s for written in WRITTEN if written.stream == stream)


def _together(stream: str) -> int:
    return next(written.together for written in WRITTEN if written.stream == stream)


def test_the_plan_agrees_with_the_voyage(sailed: tuple[Sailed, Sailed]) -> None:
    assert differences(sailed, forecast()) == []


def _without(**fields: float) -> Callable[[pytest.MonkeyPatch], tuple[LegOutcome, LegOutcome]]:
    return lambda _: forecast(budget=replace(BUDGET, **fields))  # type: ignore[arg-type]


def _no_budget(_: pytest.MonkeyPatch) -> tuple[LegOutcome, LegOutcome]:
    return forecast(budget=None)


def _no_lanes(_: pytest.MonkeyPatch) -> tuple[LegOutcome, LegOutcome]:
    return forecast([replace(written.flow(), lane=Lane.READINGS) for written in WRITTEN])


def _backlog_first(patch: pytest.MonkeyPatch) -> tuple[LegOutcome, LegOutcome]:
    patch.setattr(backlog_model, "LIVE_RECORDS", 1)
    return forecast()


def _no_acknowledgements(_: pytest.MonkeyPatch) -> tuple[LegOutcome, LegOutcome]:
    """Nor anything else that the session adds to a block."""
    flows = [written.flow() for written in WRITTEN]
    return forecast([replace(flow, block_bytes=lambda n, flow=flow: flow.block_bytes(n) - 35) for flow in flows])  # type: ignore[misc]


@pytest.mark.parametrize(
    ("forgotten", "noticed"),
    [
        (_without(overhead_percent=0.0), "cut on day 0"),
        (_without(reserve_bytes=0), "charged on day 0"),
        (_without(price_per_mb=7.5), "cost of day 0"),
        (_no_budget, "greatest lag of ships at sea"),
        (_no_lanes, "all of containers in port"),
        (_backlog_first, "newest of containers in port"),
        (_no_acknowledgements, "cut on day 0"),
    ],
)
def test_a_plan_that_forgets_something_is_noticed(
    sailed: tuple[Sailed, Sailed],
    forgotten: Callable[[pytest.MonkeyPatch], tuple[LegOutcome, LegOutcome]],
    noticed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert any(told.startswith(noticed) for told in differences(sailed, forgotten(monkeypatch)))
