"""Goal: a day's budget is kept whatever dies and whatever the clock does; alerts alone may overdraw it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.link_budget.budget_shares import Shares, Word
from streams.link_budget.daily_budget import FAREWELL_BYTES, LEASE_BYTES, Budget, Leased, RemainingBudget

NOON_MS = 1_777_636_800_000
DAY_MS = 86_400_000


class Ship:
    """What is durable on a ship, her clock, and how many bytes truly passed, by the day on which they were allowed."""

    def __init__(self, budget: Budget, others: tuple[str, ...] = ()) -> None:
        self.others = others
        self.known: dict[str, int] | None = None
        self.budget, self.kept, self.now_ms, self.full = budget, dict[str, int](), NOON_MS, False
        self.writes = 0
        self.truly: dict[str, int] = {}
        self.purse = self.started()

    def started(self) -> RemainingBudget:
        return RemainingBudget(self.budget, self.kept, self.keep, lambda: self.now_ms, Shares("engine", self.others), self.known)

    def day(self) -> str:
        return str(self.purse.to_json()["day"])

    def keep(self, leased: Leased) -> bool:
        self.writes += 1
        if not self.full:
            self.kept, self.known = dict(leased), self.purse.known_bytes()
        return not self.full

    def sends(self, bytes_: int, alerts: bool = False, told: bool = True) -> bool:
        """One write to the socket; killed right after it when not `told`."""
        if not self.purse.ahead(bytes_, alerts):
            return False
        day = str(self.purse.to_json()["day"])
        self.truly[day] = self.truly.get(day, 0) + self.budget.charge(bytes_)
        if told:
            self.purse.passed(bytes_)
        else:
            self.purse = self.started()
        return True

    def holds(self, bytes_: int) -> None:
        """A link on which as much comes in as can, between writes, until it is closed for want of more."""
        if not self.purse.hold(bytes_):
            return
        for _ in range(3):
            allowed = self.sends(1_000)
            day = str(self.purse.to_json()["day"])
            self.truly[day] = self.truly.get(day, 0) + self.budget.charge(bytes_)
            self.purse.passed(bytes_)
            if not allowed or not self.purse.ahead(0):
                break
        self.purse.release(bytes_)


STEPS = st.one_of(
    st.tuples(st.just("sends"), st.integers(1, 40_000)),
    st.tuples(st.just("killed while sending"), st.integers(1, 40_000)),
    st.tuples(st.just("holds"), st.integers(1, 40_000)),
    st.tuples(st.just("restarts"), st.just(0)),
    st.tuples(st.just("settles"), st.just(0)),
    st.tuples(st.just("clock"), st.integers(-3 * DAY_MS, 3 * DAY_MS)),
    st.tuples(st.just("time passes"), st.integers(0, DAY_MS // 4)),
    st.tuples(st.just("disk full"), st.integers(0, 1)),
)


@settings(max_examples=300, deadline=None)
@given(steps=st.lists(STEPS, max_size=60), reserve_bytes=st.sampled_from([0, 30_000]), overhead_percent=st.sampled_from([0.0, 7.5]))
def test_no_day_has_more_than_its_budget(steps: list[tuple[str, int]], reserve_bytes: int, overhead_percent: float) -> None:
    ship = Ship(Budget(300_000, reserve_bytes, overhead_percent))
    for step, amount in steps:
        match step:
            case "sends":
                ship.sends(amount)
            case "killed while sending":
                ship.sends(amount, told=False)
            case "holds":
                ship.holds(amount)
            case "restarts":
                ship.purse = ship.started()
            case "settles":
                ship.purse.settle()
            case "clock" | "time passes":
                ship.now_ms += amount
            case "disk full":
                ship.full = bool(amount)
        for day, bytes_ in ship.truly.items():
            assert bytes_ <= ship.kept[day] <= 300_000 - reserve_bytes


def test_a_crash_costs_no_more_than_a_lease_and_a_night_brings_it_all_back() -> None:
    ship = Ship(Budget(10_000_000))
    while ship.sends(1_000):
        pass
    assert ship.truly["2026-05-01"] == 10_000_000
    assert ship.writes <= 10_000_000 // LEASE_BYTES + 1, "one write a lease, not one a message"
    ship.purse = ship.started()
    assert not ship.sends(1)
    ship.now_ms += DAY_MS // 2 - 1
    assert not ship.sends(1)
    ship.now_ms += 1
    assert ship.purse.state(0) == "open"
    assert ship.sends(1_000)
    ship.purse = ship.started()
    assert 1_000 < ship.purse.spent_bytes() <= 1_000 + LEASE_BYTES
    ship.now_ms -= DAY_MS
    assert not ship.sends(1), "a clock that goes back brings nothing back"


def test_of_a_lease_that_a_kill_cut_short_it_is_told_that_it_may_not_have_passed() -> None:
    """Over a second kill too; what is known to have passed is what passed until the last lease was written down."""
    ship, passed = Ship(Budget(10_000_000)), 0
    for _ in range(2):
        for _ in range(3):
            assert ship.sends(LEASE_BYTES)
            passed += LEASE_BYTES
        ship.purse = ship.started()
        told = ship.purse.to_json()
        spent, unsure = int(str(told["spent_bytes"])), int(str(told["unsure_bytes"]))
        assert spent == ship.kept["2026-05-01"]
        assert spent - unsure <= passed <= spent
        assert LEASE_BYTES <= unsure <= 4 * LEASE_BYTES, "a lease of each run, and what passed since it was written down"
    assert ship.sends(1_000)
    ship.purse.settle()
    assert ship.purse.to_json()["unsure_bytes"] == unsure, "a clean end does not make it known"
    ship.now_ms += DAY_MS
    assert ship.purse.to_json()["unsure_bytes"] == 0, "of another day"


def test_what_was_leased_for_the_first_bytes_of_a_day_is_not_taken_for_passed() -> None:
    ship = Ship(Budget(10_000_000))
    assert ship.sends(1_000)
    ship.purse = ship.started()
    assert ship.purse.to_json()["unsure_bytes"] == ship.kept["2026-05-01"] == LEASE_BYTES + 1_000


def test_who_ends_cleanly_has_spent_what_passed_and_no_lease() -> None:
    ship = Ship(Budget(1_000_000, overhead_percent=10.0))
    settled = ship.budget.charge(FAREWELL_BYTES) + 1_100
    assert ship.sends(1_000)
    assert ship.purse.hold(50_000)
    ship.purse.settle()
    assert ship.kept["2026-05-01"] == settled + 55_000, "what can still come in over an open link is not given back"
    ship.purse.release(50_000)
    ship.full = True
    ship.purse.settle()
    assert ship.kept["2026-05-01"] == settled + 55_000, "what can not be written down stays leased"
    ship.full = False
    ship.purse.settle()
    written = ship.writes
    ship.purse.settle()
    assert (ship.kept["2026-05-01"], ship.writes) == (settled, written)
    ship.purse = ship.started()
    assert ship.purse.spent_bytes() == settled
    assert ship.sends(1_000)
    assert ship.kept["2026-05-01"] >= settled + 1_100, "what passes later is leased anew"


def test_what_a_clock_spends_that_runs_weeks_ahead_makes_no_day_forgotten_once_it_is_put_right() -> None:
    ship = Ship(Budget(1_000_000))
    while ship.sends(10_000):
        pass
    ship.now_ms -= DAY_MS
    assert ship.sends(10_000)
    spent = dict(ship.truly)
    for day in range(40):
        ship.now_ms = NOON_MS + (30 + day) * DAY_MS
        assert ship.sends(10_000)
    for now_ms in (NOON_MS, NOON_MS - DAY_MS):
        ship.now_ms = now_ms
        ship.purse = ship.started()
        while ship.sends(10_000):
            pass
    assert all(ship.truly[day] <= 1_000_000 for day in spent)
    assert ship.truly["2026-05-01"] == 1_000_000


def test_bytes_that_were_allowed_before_midnight_count_for_the_day_before() -> None:
    ship = Ship(Budget(1_000_000))
    ship.now_ms += DAY_MS // 2 - 1
    assert ship.purse.ahead(500)
    ship.now_ms += 1
    ship.purse.passed(500)
    assert ship.purse.spent_bytes() == 0
    ship.now_ms -= 1
    assert ship.purse.spent_bytes() == 500


def test_what_is_under_way_when_the_new_day_can_not_be_leased_counts_for_the_day_that_allowed_it() -> None:
    ship = Ship(Budget(1_000_000))
    assert ship.purse.hold(30_000)
    ship.now_ms += DAY_MS // 2
    ship.full = True
    assert not ship.purse.ahead(0)
    ship.purse.release(30_000)
    ship.purse.passed(30_000)
    assert ship.purse.spent_bytes() == 0, "what is not kept as leased, a crash would forget"
    ship.now_ms -= 1
    assert ship.purse.spent_bytes() == 30_000


def test_alerts_have_the_reserve_and_then_overdraw_even_on_a_full_disk() -> None:
    ship = Ship(Budget(200_000, reserve_bytes=50_000, price_per_mb=7.0))
    while ship.sends(10_000):
        pass
    assert ship.purse.state(0) == "open"
    assert ship.purse.state(1) == "alerts"
    assert ship.sends(50_000, alerts=True)
    assert ship.purse.state(0) == "alerts"
    assert not ship.sends(1)
    ship.full = True
    assert ship.sends(10_000, alerts=True)
    assert ship.purse.state(0) == "overdrawn"
    told = ship.purse.to_json()
    assert (told["spent_bytes"], told["left_bytes"], told["cost"]) == (210_000, 0, 1.47)


def test_what_is_granted_is_that_day_s_and_the_reserve_stays_the_alerts() -> None:
    ship = Ship(Budget(200_000, reserve_bytes=50_000))
    while ship.sends(10_000):
        pass
    day = str(ship.purse.to_json()["day"])
    assert ship.purse.free_bytes() == 0
    ship.purse.grant(day, 30_000)
    assert (ship.purse.state(30_000), ship.purse.state(30_001), ship.purse.free_bytes()) == ("open", "alerts", 30_000)
    for _ in range(3):
        assert ship.sends(10_000)
    assert not ship.sends(1)
    assert ship.sends(50_000, alerts=True)
    told = ship.purse.to_json()
    assert (told["spent_bytes"], told["left_bytes"], told["granted_bytes"]) == (230_000, 0, 30_000)
    ship.now_ms += DAY_MS
    assert (ship.purse.free_bytes(), ship.purse.to_json()["granted_bytes"]) == (150_000, 0)


def test_what_others_spent_of_the_same_budget_is_told_and_this_node_keeps_to_its_part() -> None:
    ship = Ship(Budget(200_000, reserve_bytes=50_000), ("bridge",))
    assert ship.sends(40_000)
    for told_bytes in (60_000, 70_000, 65_000):
        ship.purse.shares.heard(ship.day(), "bridge", Word(told_bytes))
    told = ship.purse.to_json()
    assert (told["spent_bytes"], told["spent_here_bytes"], told["left_bytes"], told["free_bytes"]) == (110_000, 40_000, 90_000, 40_000)
    assert ship.purse.free_here_bytes() == 0, "leased"
    assert ship.sends(35_000)
    assert not ship.sends(1)
    assert ship.purse.state(0) == "open"
    assert ship.purse.state(1) == "alerts"
    assert ship.sends(55_000, alerts=True)
    assert ship.sends(1, alerts=True)
    assert ship.purse.state(0) == "overdrawn"
    ship.now_ms += DAY_MS
    assert (ship.purse.spent_bytes(), ship.purse.free_bytes(), ship.purse.free_here_bytes()) == (0, 150_000, 75_000)


def test_what_another_gives_may_be_spent_and_what_was_given_may_not_after_a_restart_either() -> None:
    ship = Ship(Budget(200_000, reserve_bytes=50_000), ("bridge",))
    ship.purse.shares.heard(ship.day(), "bridge", Word(0, {"engine": 25_000}))
    assert ship.purse.free_here_bytes() == 100_000
    ship.purse.shares.heard(ship.day(), "bridge", Word(50_000, {"engine": 25_000}))
    assert ship.purse.give()
    assert ship.purse.free_here_bytes() == 50_000
    assert ship.purse.to_json()["given_bytes"] == {"bridge": 50_000}
    assert not ship.purse.give(), "both have 50,000 now"
    ship.purse = ship.started()
    assert ship.purse.to_json()["given_bytes"] == {"bridge": 50_000}
    assert ship.purse.free_here_bytes() == 25_000, "until the other's word is heard again"


def test_on_a_full_disk_nothing_is_given() -> None:
    ship = Ship(Budget(200_000), ("bridge",))
    ship.purse.shares.heard(ship.day(), "bridge", Word(100_000))
    ship.full = True
    assert not ship.purse.give()
    assert ship.purse.free_here_bytes() == 100_000


def test_one_that_has_no_such_link_leaves_the_whole() -> None:
    ship = Ship(Budget(200_000), ("bridge",))
    assert ship.purse.free_here_bytes() == 100_000
    ship.purse.shares.apart("bridge")
    assert ship.purse.free_here_bytes() == 200_000
    ship.purse.shares.heard(ship.day(), "bridge", Word())
    assert ship.purse.free_here_bytes() == 100_000


def test_what_is_free_leaves_out_what_open_links_are_held_for() -> None:
    ship = Ship(Budget(200_000, reserve_bytes=50_000, overhead_percent=10.0))
    assert ship.purse.hold(20_000)
    assert ship.purse.free_bytes() == 200_000 - 50_000 - 22_000


def test_a_reserve_beyond_the_budget_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\b11\b.*\b10\b"):
        Budget(10, reserve_bytes=11)


def test_what_passes_counts_for_more_where_something_carries_it() -> None:
    assert [Budget(1_000, overhead_percent=7.5).charge(bytes_) for bytes_ in (0, 1, 1_000)] == [0, 2, 1_075]
    assert Budget(1_000).charge(1_000) == 1_000
    ship = Ship(Budget(1_000, overhead_percent=100.0))
    assert not ship.sends(501)
    assert ship.sends(500)
    assert ship.purse.spent_bytes() == 1_000
