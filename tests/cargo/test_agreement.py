"""Goal: two accounts of the same readings are laid beside each other episode by episode, whatever order their records are in."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest

from cargo.shore_rules.alert_comparison import ReportedEpisode, compare, episodes
from tests.support.sea import HOUR_MS, START_MS, number

BOX, SIDE = number(1), "9321483"
Said = tuple[str, Mapping[str, Any]]


def alert(name: str, state: str, h: int, rule: str = "power_off", since_h: int = 0) -> Said:
    """A record of `alerts`."""
    first = {"family": rule, "signal": rule, "at_ms": START_MS + since_h * HOUR_MS}
    body = {"alert_id": f"{SIDE}-{name}", "rule": rule, "severity": "ALARM", "state": state, "at_ms": START_MS + h * HOUR_MS}
    return BOX, {**body, "evidence": [first]}


def excursion(h: int, until_h: int, version: int, name: str | None = None, **more: Any) -> Said:
    """A version of the record of one excursion."""
    body = {"event_id": "e", "event": "X_EXCURSION", "event_at_ms": START_MS + h * HOUR_MS, "until_at_ms": START_MS + until_h * HOUR_MS}
    body |= {"peak_c": 5.0, "degree_minutes": 60.0, "updated_at_ms": START_MS + version, "ship": SIDE, "place": None}
    return BOX, {**body, "alert_id": None if name is None else f"{SIDE}-{name}", **more}


def told(name: str | None, since_h: int, until_h: int | None, rule: str = "power_off", peak_c: float | None = None) -> ReportedEpisode:
    """An episode."""
    until_at_ms = None if until_h is None else START_MS + until_h * HOUR_MS
    return ReportedEpisode(
        side=SIDE, topic=BOX, rule=rule, since_at_ms=START_MS + since_h * HOUR_MS, until_at_ms=until_at_ms, alert_id=name, peak_c=peak_c
    )


def verdicts(shown: list[ReportedEpisode], found: list[ReportedEpisode]) -> list[tuple[str, tuple[str, ...]]]:
    """Verdict and differences of each."""
    return [(one.verdict, one.differs) for one in compare(shown, found)]


def test_an_episode_is_the_fold_of_its_records() -> None:
    """In any order: begin, end, and whether anybody was alarmed; a shock's later blows are part of it; what was taken back is none."""
    said = [
        alert("a", "raised", 4),
        alert("a", "acknowledged", 5),
        alert("a", "cleared", 6),
        alert("b", "raised", 7, "shock", 7),
        alert("b", "updated", 8, "shock", 8),
        alert("c", "raised", 9),
        alert("c", "retracted", 9),
        alert("d", "raised", 9, "lost_container"),
        (BOX, {"alert_id": "does not read"}),
    ]
    for mixed in (said, said[::-1], said[4:] + said[:4]):
        found = [(one.rule, one.since_at_ms, one.until_at_ms, one.raised_at_ms) for one in episodes(mixed, [])]
        first, second = START_MS + 7 * HOUR_MS, START_MS + 4 * HOUR_MS
        loss = ("lost_container", START_MS, None, START_MS + 9 * HOUR_MS)
        assert sorted(found) == [loss, ("power_off", START_MS, START_MS + 6 * HOUR_MS, second), ("shock", first, None, first)]


def test_a_temperature_that_is_over_is_as_its_latest_record_has_it() -> None:
    """Whether it was alarmed or not; an event of another kind, or one that does not read, is passed over."""
    alerts = [alert("t", "raised", 2, "temperature", 1), alert("t", "cleared", 5, "temperature", 1)]
    events = [excursion(1, 4, 1, "t"), excursion(0, 4, 2, "t", peak_c=6.0), (BOX, {"event": "LOAD"}), (BOX, {"event": "X_EXCURSION"})]
    for mixed in permutations(events):
        (one,) = episodes(alerts, mixed)
        assert (one.since_at_ms, one.until_at_ms, one.peak_c) == (START_MS, START_MS + 4 * HOUR_MS, 6.0)
        assert (one.alert_id, one.raised_at_ms) == (f"{SIDE}-t", START_MS + 2 * HOUR_MS)
    (late,) = episodes([], [excursion(1, 4, 1)])
    assert (late.alert_id, late.side) == (None, SIDE)
    assert episodes([], [excursion(1, 4, 1), excursion(1, 4, 2, retracted=True)]) == []


@pytest.mark.parametrize(
    ("shown", "found", "verdict", "differs"),
    [
        (told("a", 0, 6), told("a", 0, 6), "same", ()),
        (told("a", 0, 6), told("a", 0, None), "different", ("until_at_ms",)),
        (told("a", 0, 6, "late"), told("a", 0, 7, "late"), "same", ()),
        (told("a", 0, 6, "late"), told("a", 0, None, "late"), "different", ("until_at_ms",)),
        (told("a", 0, 6), told("b", 1, 6), "different", ("since_at_ms",)),
        (told("a", 0, None, "lost_container"), told("a", 0, 6, "lost_container"), "same", ()),
        (told("a", 0, None, "lost_container"), told("b", 1, None, "lost_container"), "different", ("since_at_ms",)),
        (told("a", 0, 6, "temperature", 5.0), told("b", 0, 6, "temperature", 5.5), "different", ("peak_c",)),
        (told("a", 0, 6, "temperature", 5.0), told(None, 0, 6, "temperature", 5.0), "untold", ()),
        (told("a", 0, 6, "temperature", 5.0), told("a", 0, 6, "temperature"), "same", ()),
    ],
)
def test_two_accounts_of_one_episode(shown: ReportedEpisode, found: ReportedEpisode, verdict: str, differs: tuple[str, ...]) -> None:
    """By the alert's name, else by box, rule, side and an overlapping time."""
    assert verdicts([shown], [found]) == [(verdict, differs)]


def test_what_only_one_account_has() -> None:
    """Other times, other rules and other boxes do not stand for each other, and each episode stands for one."""
    assert verdicts([told("a", 0, 2)], [told("b", 3, 4)]) == [("untold", ()), ("unfounded", ())]
    assert verdicts([told("a", 0, 2)], [told("b", 0, 2, "humidity")]) == [("unfounded", ()), ("untold", ())]
    twice = verdicts([told("a", 0, 9)], [told("b", 0, 2), told("c", 3, 9)])
    assert sorted(verdict for verdict, _ in twice) == ["different", "unfounded"]
