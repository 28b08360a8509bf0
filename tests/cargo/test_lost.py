"""The decision table of DOMAIN 5, row by row: each weight, each cap, the shortcut, and what silence alone can not do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cargo.loss.loss_classifier import PRIOR, Case, Decision, Weights, decide, probability

NOW = 1_777_600_000_000
MINUTE_MS = 60_000


def case(**known: Any) -> Case:
    """A box on deck at sea, hourly, silent for two intervals and a bit, its gateway alive and 95 % of the others heard."""
    silent_ms = known.pop("silent_ms", 127 * MINUTE_MS)
    heard_at = NOW - silent_ms
    usual = Case(
        now_at_ms=NOW,
        newest_at_ms=heard_at,
        heard_at_ms=heard_at,
        silent_ms=silent_ms,
        interval_ms=60 * MINUTE_MS,
        grace_ms=6 * MINUTE_MS,
        gateway_alive=True,
        heard_share=0.95,
        at_sea=True,
        leaving=False,
        on_deck=True,
        exposed=False,
    )
    return msgspec.structs.replace(usual, **known)


def log_odds(decision: Decision) -> float:
    """The sum the posterior was made from."""
    return sum(piece.weight for piece in decision.evidence) + PRIOR


HEARD = NOW - 127 * MINUTE_MS
SHOCK = {"shock": (6.0, HEARD)}
FALL = {"free_fall": (1_700, HEARD)}
TILT = {"tilt": (45.0, HEARD), "tilt_lasts_ms": 11_000}
GROUP = {"group": ("A", "B", "C")}
ROLL = {"roll_deg": 24.0, "roll_at_ms": HEARD}
SOCKETS = {"sockets": ("A", "B")}
FIX = {"fixes_nm": (0.6, 1.4)}

ROWS: list[tuple[dict[str, Any], float]] = [
    ({}, 0.0),
    (SHOCK, 3.0),
    (FALL, 3.0),
    (TILT, 2.0),
    (GROUP, 3.0),
    (ROLL, 2.0),
    ({"roll_deg": 12.0, "roll_growing": True, "roll_at_ms": HEARD}, 2.0),
    ({"on_deck": False}, -4.0),
    ({"exposed": True}, 0.3),
    (SOCKETS, 2.0),
    (FIX, 5.0),
    ({"battery_low": True}, -1.5),
    ({"rssi_sliding": True}, -1.5),
    ({"heard_share": 0.79}, -4.0),
    ({"gateway_alive": False, "heard_share": None}, -4.0),
    ({"gateway_restarted": True}, -4.0),
    ({"leaving": True}, -5.0),
    ({"at_sea": False}, -5.0),
]


@pytest.mark.parametrize(("known", "weight"), ROWS)
def test_each_row_of_the_table_moves_the_odds_by_its_weight(known: dict[str, Any], weight: float) -> None:
    """Goal: the numbers of DOMAIN 5, and no others."""
    decision = decide(case(**known))
    assert log_odds(decision) == pytest.approx(PRIOR + weight)
    assert decision.posterior == pytest.approx(probability(PRIOR + weight))


NOT_MET: list[dict[str, Any]] = [
    {"shock": (4.0, HEARD)},
    {"shock": (9.0, HEARD - 121_000)},
    {"free_fall": (499, HEARD)},
    {"free_fall": (1_700, HEARD - 121_000)},
    {"tilt": (45.0, HEARD), "tilt_lasts_ms": 10_000},
    {"group": ("A", "B")},
    {"roll_deg": 20.0},
    {"roll_deg": 9.0, "roll_growing": True},
    {"sockets": ("A",)},
    {"fixes_nm": (0.4, 0.9)},
    {"fixes_nm": (1.4, 0.6)},
    {"fixes_nm": (3.0,)},
    {"heard_share": 0.8},
    {"heard_share": None},
    {"on_deck": None},
]


@pytest.mark.parametrize("known", NOT_MET)
def test_what_misses_its_limit_counts_for_nothing(known: dict[str, Any]) -> None:
    """Goal: limits are limits: just short of one, the odds stay where they were."""
    assert log_odds(decide(case(**known))) == pytest.approx(PRIOR)


def test_a_shock_in_port_counts_for_nothing() -> None:
    """Goal: cranes are rough; more than 4 g speaks of a loss only at sea."""
    assert log_odds(decide(case(at_sea=False, **SHOCK))) == pytest.approx(PRIOR - 5)


def test_each_family_counts_once() -> None:
    """Goal: a shock, a fall and a tilt are one family: together they are worth the strongest of them; so are two reasons against."""
    decision = decide(case(**SHOCK, **FALL, **TILT, silent_ms=127 * MINUTE_MS))
    families = [piece.family for piece in decision.evidence]
    assert len(families) == len(set(families))
    assert log_odds(decision) == pytest.approx(PRIOR + 3)
    assert log_odds(decide(case(battery_low=True, heard_share=0.5))) == pytest.approx(PRIOR - 4)


@pytest.mark.parametrize("hours", [3, 12, 48, 400])
def test_silence_alone_never_raises_it(hours: int) -> None:
    """Goal: a dead device on deck, outboard, is MISSING for ever and never probably overboard."""
    decision = decide(case(silent_ms=hours * 60 * MINUTE_MS, exposed=True))
    assert decision.state == "MISSING"
    assert decision.posterior < 0.001


@pytest.mark.parametrize(("silent_min", "state"), [(0, "ONBOARD"), (65, "ONBOARD"), (66, "LATE"), (125, "LATE"), (126, "MISSING")])
def test_silence_makes_late_then_missing(silent_min: int, state: str) -> None:
    """Goal: one expected interval missed is late, two are missing, each with its grace."""
    assert decide(case(silent_ms=silent_min * MINUTE_MS)).state == state


PROBABLE: list[dict[str, Any]] = [
    {**GROUP, **ROLL},
    {**GROUP, **ROLL, "exposed": True},
    {**SHOCK, **ROLL},
    {**FALL, **GROUP},
    {**SHOCK, **SOCKETS},
    {**FIX},
    {**GROUP, **SOCKETS},
    {**TILT, **GROUP},
]


@pytest.mark.parametrize("known", PROBABLE)
def test_independent_families_together_make_it_probable(known: dict[str, Any]) -> None:
    """Goal: after the missed intervals, two families that agree decide."""
    assert decide(case(**known)).state == "PROBABLE_OVERBOARD"


@pytest.mark.parametrize("known", [SHOCK, FALL, TILT, GROUP, ROLL, SOCKETS, {**TILT, "exposed": True}])
def test_one_family_alone_does_not(known: dict[str, Any]) -> None:
    """Goal: one signal with silence is not enough (the box's own position far off is, by its weight)."""
    assert decide(case(**known)).state == "MISSING"


@pytest.mark.parametrize("known", PROBABLE)
def test_nothing_is_probable_before_two_intervals_are_missed(known: dict[str, Any]) -> None:
    """Goal: presence opens the case."""
    assert decide(case(**{**known, "silent_ms": 100 * MINUTE_MS, "newest_at_ms": HEARD})).state == "LATE"


@pytest.mark.parametrize("known", PROBABLE)
@pytest.mark.parametrize(
    ("against", "state"),
    [
        ({"gateway_alive": False, "heard_share": None}, "GATEWAY_OUTAGE"),
        ({"heard_share": 0.6}, "GATEWAY_OUTAGE"),
        ({"leaving": True}, "DISCHARGED"),
    ],
)
def test_an_outage_or_the_discharge_list_explain_the_silence(known: dict[str, Any], against: dict[str, Any], state: str) -> None:
    """Goal: what explains the silence otherwise keeps it from being a loss."""
    assert decide(case(**{**known, **against})).state == state


def test_the_hold_and_the_berth_make_a_loss_unlikely() -> None:
    """Goal: a group silent in a storm is no loss when it stands in the hold, or the ship in port."""
    assert decide(case(**GROUP, **ROLL, on_deck=False)).state == "MISSING"
    assert decide(case(**GROUP, **ROLL, at_sea=False)).state == "MISSING"


def test_a_dying_battery_is_a_fault_of_the_device() -> None:
    """Goal: the contra evidence names the state."""
    assert decide(case(battery_low=True)).state == "DEVICE_FAULT"
    assert decide(case(rssi_sliding=True)).state == "DEVICE_FAULT"
    assert decide(case(battery_low=True, **GROUP, **ROLL, **SOCKETS)).state == "PROBABLE_OVERBOARD"


def short(**known: Any) -> Case:
    """A box that fell, a minute of silence ago or so."""
    heard_at = NOW - known.get("silent_ms", 60_001)
    return case(**{"silent_ms": 60_001, "shock": (6.5, heard_at - 2_000), "free_fall": (1_800, heard_at), "heard_share": None, **known})


def test_free_fall_and_shock_and_a_minute_of_silence_are_probable_at_once() -> None:
    """Goal: the shortcut: no interval need be missed, no gateway be asked."""
    assert decide(short()).state == "PROBABLE_OVERBOARD"
    assert decide(short()).posterior >= 0.9
    assert decide(short(gateway_alive=False)).state == "PROBABLE_OVERBOARD"
    assert decide(short(silent_ms=60_000)).state == "ONBOARD"


KNOWN_PLACE: dict[str, Any] = {"deck_fall_ms": 1_660, "interval_ms": 60_000, "grace_ms": 30_000}


def test_a_fall_deeper_than_the_deck_needs_half_a_minute() -> None:
    """Goal: a box that fell for longer than onto the deck, and said no more, did not stop there."""
    fell: dict[str, Any] = {"free_fall": (1_800, NOW - 30_000), **KNOWN_PLACE}
    assert decide(short(silent_ms=30_000, **fell)).state == "ONBOARD"
    assert decide(short(silent_ms=30_001, **fell)).state == "PROBABLE_OVERBOARD"


@pytest.mark.parametrize(("fell_ms", "word_after_ms"), [(1_660, 0), (1_800, 10_001)])
def test_a_fall_that_may_have_ended_on_deck_is_decided_like_any_silence(fell_ms: int, word_after_ms: int) -> None:
    """Goal: it misses its intervals, its gateway is asked, and what is known beside the blow decides. Neighbours that fell with it and
    speak on speak against it, but not where it fell deeper.
    """
    silent_ms = 2 * 60_000 + 30_000
    fell: dict[str, Any] = {"free_fall": (fell_ms, NOW - silent_ms - word_after_ms), "shock": (6.5, NOW - silent_ms), **KNOWN_PLACE}
    assert decide(short(silent_ms=silent_ms - 1, **ROLL, **fell)).state == "LATE"
    assert decide(short(silent_ms=silent_ms, **ROLL, **fell)).state == "PROBABLE_OVERBOARD"
    assert decide(short(silent_ms=silent_ms, **ROLL, **fell, gateway_alive=False)).state == "GATEWAY_OUTAGE"
    assert decide(short(silent_ms=silent_ms, **fell)).state == "MISSING"
    assert decide(short(silent_ms=silent_ms, **ROLL, **fell, down=("MSKU1234565",))).state == "MISSING"
    deep: dict[str, Any] = {**fell, "free_fall": (1_800, NOW - silent_ms)}
    assert decide(short(silent_ms=silent_ms, **ROLL, **deep, down=("MSKU1234565",))).state == "PROBABLE_OVERBOARD"


def test_an_outage_explains_a_silence_until_six_more_intervals_are_missed() -> None:
    """Goal: who fell silent while the gateway was out is missing when it is back and hears the others, not lost: devices that do speak are
    heard in one of these. After them the outage explains nothing.
    """
    six = {"gateway_restarted": True, **GROUP, **ROLL, "silent_ms": 366 * MINUTE_MS}
    assert decide(case(**{**six, "silent_ms": 366 * MINUTE_MS - 1})).state == "MISSING"
    assert decide(case(**six)).state == "PROBABLE_OVERBOARD"
    assert decide(case(**six, heard_share=0.79)).state == "GATEWAY_OUTAGE"


def test_what_stands_on_it_and_speaks_on_keeps_it_aboard() -> None:
    """Goal: no box goes over the side from under a stack that stands; a deep fall and silence are of another kind."""
    decision = decide(case(**GROUP, **ROLL, carries=("MSKU1234565",)))
    assert decision.state == "MISSING"
    assert log_odds(decision) == pytest.approx(PRIOR + 3 + 2 - 4)
    assert decide(short(carries=("MSKU1234565",))).state == "PROBABLE_OVERBOARD"


@pytest.mark.parametrize("gone", ["shock", "free_fall"])
def test_the_shortcut_needs_both_blows(gone: str) -> None:
    """Goal: a hard shock alone, or a fall alone, waits for the intervals."""
    assert decide(short(**{gone: None})).state == "ONBOARD"


def test_the_shortcut_is_not_for_boxes_on_the_hook() -> None:
    """Goal: a box the list takes ashore may be dropped and fall silent: it is not overboard."""
    assert decide(short(leaving=True)).state == "ONBOARD"
    assert decide(short(at_sea=False)).state == "ONBOARD"


def test_weights_are_given() -> None:
    """Goal: an operator's weights decide, not the starting ones."""
    assert decide(case(**GROUP, **ROLL), Weights(group=0.5)).state == "MISSING"
    assert decide(case(**GROUP, **ROLL), Weights(probable_min=0.99)).state == "MISSING"
