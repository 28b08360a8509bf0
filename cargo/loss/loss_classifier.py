"""The lost-container decision: from the facts about one silent box to a state, a probability and its evidence.

It is a pure function of facts: the same on the ship, ashore and inside Spark. Silence opens a case and never decides it: a loss is 1 :
4,300 against a dead device, so other, independent families of evidence are needed. Weights are log10 likelihood ratios. Each family counts
once, the sum starts at `PRIOR`, and the posterior follows from it (starting values, to be calibrated)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from cargo.vocabulary.durations import duration_text
from cargo.vocabulary.instants import time_text

State = Literal[
    "ONBOARD",
    "LATE",
    "MISSING",
    "PROBABLE_OVERBOARD",
    "CONFIRMED_LOST",
    "REPORTED_INITIAL",
    "REPORTED_FINAL",
    "FOUND",
    "DEVICE_FAULT",
    "GATEWAY_OUTAGE",
    "DISCHARGED",
    "COLLAPSED_ON_BOARD",
]
GONE_STATES: frozenset[State] = frozenset({"PROBABLE_OVERBOARD", "CONFIRMED_LOST", "REPORTED_INITIAL", "REPORTED_FINAL"})
"""The states in which a box counts as lost. Hearing it aboard again ends each of them as FOUND."""
CONFIRMED_STATES: frozenset[State] = GONE_STATES - {"PROBABLE_OVERBOARD"}
"""States of a loss that a person confirms: by a count, or by a report that was sent."""
REPORTED_STATES: frozenset[State] = frozenset({"REPORTED_INITIAL", "REPORTED_FINAL"})
"""States of a loss for which a report was sent."""
DECIDED_BY_PEOPLE: dict[State, frozenset[State]] = {
    "PROBABLE_OVERBOARD": frozenset({"CONFIRMED_LOST", "REPORTED_INITIAL", "FOUND", "DEVICE_FAULT", "COLLAPSED_ON_BOARD"}),
    "CONFIRMED_LOST": frozenset({"REPORTED_INITIAL", "FOUND"}),
    "REPORTED_INITIAL": frozenset({"CONFIRMED_LOST", "REPORTED_FINAL", "FOUND", "COLLAPSED_ON_BOARD"}),
    "REPORTED_FINAL": frozenset({"CONFIRMED_LOST", "FOUND", "COLLAPSED_ON_BOARD"}),
    "MISSING": frozenset({"CONFIRMED_LOST", "DEVICE_FAULT", "DISCHARGED", "COLLAPSED_ON_BOARD"}),
}
"""States that the crew or headquarters may decide, by the state before; all others follow from readings.

A box that is reported and then confirmed stays reported."""

PRIOR = -3.6
PROBABLE_MIN = 0.9
FAMILIES_MIN = 2
INTERVALS_LATE, INTERVALS_MISSING = 1, 2

SHOCK_G = 4.0
FREE_FALL_MS = 500
SHORT_FALL_MS = 200
"""Duration of a fall of 20 cm, milliseconds. It is no evidence of a loss, as a fall from FREE_FALL_MS on is, but of the depth of the
fall."""
TILT_DEG = 30.0
TILT_LASTS_MS = 10_000
KINEMATIC_WINDOW_MS = 2 * 60_000
SHORTCUT_SILENCE_MS = 60_000
DEEP_FALL_SILENCE_MS = 30_000
"""Silence after a fall deeper than the box stood above its deck, milliseconds. Such a fall can not have ended aboard in a collapsed
stack."""
CALL_STRUCK_SILENCE_MS, CALL_SILENCE_MS = 25_000, 60_000
"""Silence in a roll call after which a listening box counts as missing, milliseconds: for a struck box, and for another.

The first also applies to a struck box that announced that it would report again at once, and to one whose fellows are lost."""
LAST_WORDS_MS = 10_000
"""Maximum time between the messages of one fall (it slides, falls, strikes), ms [A]. A box that reports later is still there."""
GROUP_MIN = 3
GROUP_WINDOW_MS = 2 * 60_000
ROLL_DEG = 20.0
ROLL_GROWING_DEG = 10.0
ROLL_WINDOW_MS = 10 * 60_000
SOCKETS_MIN = 2
FIX_NM = 0.5
HEARD_SHARE_MIN = 0.8
RETURNED_INTERVALS = 6
"""Number of missed intervals after which an outage of the gateway or the node no longer explains a silence that began in it.

They count from the time at which the gateway and most of its other boxes are heard again."""


class Weights(msgspec.Struct, frozen=True):
    """Weights of the signals, each the log10 likelihood ratio of lost against not lost."""

    shock: float = 3.0
    free_fall: float = 3.0
    tilt: float = 2.0
    group: float = 3.0
    below: float = 5.0
    promise: float = 1.5
    motion: float = 2.0
    hold: float = -4.0
    exposed: float = 0.3
    power: float = 2.0
    position: float = 5.0
    battery: float = -1.5
    gateway: float = -4.0
    restarted: float = -4.0
    collapse: float = -4.0
    carries: float = -4.0
    discharge: float = -5.0
    probable_min: float = PROBABLE_MIN
    """Not a weight: the posterior from which a box is PROBABLE_OVERBOARD."""


WEIGHTS = Weights()


class Evidence(msgspec.Struct, frozen=True):
    """One piece of evidence: its family, its signal, its weight, its text for a person, and its time (UTC ms)."""

    family: str
    signal: str
    weight: float
    detail: str
    at_ms: int


class Witness(msgspec.Struct, frozen=True):
    """A person who reports what became of a box: the name, and the report as evidence."""

    by: str
    proof: Evidence


def counted(evidence: Iterable[Evidence]) -> bool:
    """Return whether a person reported that the box is gone, whatever was reported of it before or after."""
    return any(piece.family == "person" and piece.signal == "gone" for piece in evidence)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one box at one instant. Times are UTC ms on the ship's clock unless stated otherwise; None where nothing was measured.

    `silent_ms`: since it was last heard, or could have been. `shock`, `free_fall`, `tilt`: value and time by the box's own clock, as is
    `newest_at_ms`, the time of its last message; `tilt_lasts_ms`: how long the tilt was above 30°, less the ship's roll.

    `heard_share`: the share of the gateway's other boxes due in the silence that was heard (None: too few were due). `gateway_restarted`:
    its gateway, or the node itself, was out since the last message, or most of its boxes fell silent with it.

    `fixes_nm`: the last positions' distances from the ship's track, in order. `patience`: how many missed intervals make it missing, two,
    or more where the radio loses much. `deck_fall_ms`: the maximum duration of a fall from its place that ends aboard (None: its place is
    unknown). `down`: its neighbours that were struck within two minutes of it and reported again.

    `unanswered_ms`: how long an expected message has been missing; 0 where no message is expected, or before that is long enough to count.
    The box does not answer a roll call that others of its gateway answer. Or it is silent after a blow although it announced a message
    every `promised_ms` (0: it did not). Or its fellows (`fellows`), whose messages count for it, are silent.

    `below`: the boxes under it in its stack that are reported lost since its last message; `carries`: those on it that still report, and
    were neither struck nor tilted."""

    now_at_ms: int
    newest_at_ms: int
    heard_at_ms: int
    silent_ms: int
    interval_ms: int
    grace_ms: int
    gateway_alive: bool
    heard_share: float | None
    at_sea: bool
    leaving: bool
    on_deck: bool | None
    exposed: bool
    shock: tuple[float, int] | None = None
    free_fall: tuple[int, int] | None = None
    tilt: tuple[float, int] | None = None
    tilt_lasts_ms: int = 0
    group: tuple[str, ...] = ()
    roll_deg: float = 0.0
    roll_growing: bool = False
    roll_at_ms: int = 0
    sockets: tuple[str, ...] = ()
    fixes_nm: tuple[float, ...] = ()
    patience: int = INTERVALS_MISSING
    deck_fall_ms: int | None = None
    down: tuple[str, ...] = ()
    gateway_restarted: bool = False
    unanswered_ms: int = 0
    promised_ms: int = 0
    fellows: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    carries: tuple[str, ...] = ()
    battery_low: bool = False
    rssi_sliding: bool = False


class Decision(msgspec.Struct, frozen=True):
    """State that follows from a case, the posterior probability of a loss, and the evidence, strongest first."""

    state: State
    posterior: float
    evidence: tuple[Evidence, ...]


def decide(case: Case, weights: Weights = WEIGHTS) -> Decision:
    """Return the decision on one case. The same case gives the same decision; nothing is stored here.

    PROBABLE_OVERBOARD needs an open case, a second family, and a posterior of 0.9. A case is open when the gateway is alive, 80 % of its
    boxes are heard, and a message is missing. That is two expected intervals, an answer to a roll call, or a message announced after a
    blow.

    The shortcut to PROBABLE_OVERBOARD: free fall and more than 4 g within two minutes of the last message, then silence
    (`shortcut_silence_ms`), unless the fall may have ended aboard."""
    evidence = tuple(_counted(_families(case, weights)))
    posterior = probability(PRIOR + sum(piece.weight for piece in evidence))
    ordered = tuple(sorted(evidence, key=lambda piece: (-piece.weight, piece.family)))
    if shortcut_armed(case) and case.silent_ms > shortcut_silence_ms(case):
        return Decision("PROBABLE_OVERBOARD", max(posterior, PROBABLE_MIN), ordered)
    return Decision(_state(case, evidence, posterior, weights.probable_min), posterior, ordered)


def probability(log_odds: float) -> float:
    """Return the probability with these log10 odds."""
    odds = math.pow(10.0, max(-300.0, min(300.0, log_odds)))
    return odds / (1 + odds)


def shortcut_armed(case: Case) -> bool:
    """Return whether free fall and a shock above 4 g came with the last message of a box that is not being lifted: only silence is missing.

    A box that may have fallen onto the deck may be of a stack that collapsed aboard, and is decided like any silence."""
    return not case.leaving and _shock_counts(case) and _fall_counts(case) and not _fell_short(case)


def shortcut_silence_ms(case: Case) -> int:
    """Return the silence that the shortcut needs: 60 s; half of that where the place is known, because the fall then did not end aboard."""
    return SHORTCUT_SILENCE_MS if case.deck_fall_ms is None else DEEP_FALL_SILENCE_MS


def missed(case: Case) -> int:
    """Return how many expected intervals the box has missed."""
    return max(0, case.silent_ms - case.grace_ms) // case.interval_ms


def _state(case: Case, evidence: tuple[Evidence, ...], posterior: float, probable_min: float) -> State:
    speaking = sum(1 for piece in evidence if piece.weight > 0 and piece.family != "presence") + 1
    sure = posterior >= probable_min and speaking >= FAMILIES_MIN
    if case.unanswered_ms and sure and not case.leaving and not _gateway_out(case):
        return "PROBABLE_OVERBOARD"
    count = missed(case)
    if count < INTERVALS_LATE:
        return "ONBOARD"
    if count < case.patience:
        return "LATE"
    if case.leaving:
        return "DISCHARGED"
    if _gateway_out(case):
        return "GATEWAY_OUTAGE"
    if sure:
        return "PROBABLE_OVERBOARD"
    failing = any(piece.signal in {"battery", "rssi"} for piece in evidence)
    return "DEVICE_FAULT" if failing and posterior < 0.5 else "MISSING"


def _gateway_out(case: Case) -> bool:
    return not case.gateway_alive or (case.heard_share is not None and case.heard_share < HEARD_SHARE_MIN)


def _counted(pieces: list[Evidence]) -> list[Evidence]:
    """Return the strongest piece of each family."""
    best: dict[str, Evidence] = {}
    for piece in pieces:
        if piece.family not in best or abs(piece.weight) > abs(best[piece.family].weight):
            best[piece.family] = piece
    return list(best.values())


def _families(case: Case, weights: Weights) -> list[Evidence]:
    return [*_presence(case, weights), *_kinematic(case, weights), *_around(case, weights), *_contra(case, weights)]


def _presence(case: Case, weights: Weights) -> list[Evidence]:
    detail = f"silent since {time_text(case.now_at_ms - case.silent_ms)}, expected every {duration_text(case.interval_ms)}"
    weight, unanswered = 0.0, time_text(case.now_at_ms - case.unanswered_ms)
    if case.unanswered_ms and case.promised_ms:
        weight = weights.promise if _stack_down_at_ms(case) is None else 0.0
        detail += f"; it reports every {duration_text(case.promised_ms)} after a blow, but has not since {unanswered}"
    elif case.unanswered_ms and case.fellows:
        struck = "1 box" if len(case.fellows) == 1 else f"{len(case.fellows)} boxes"
        detail += f"; {struck} hit at the same time {'is' if len(case.fellows) == 1 else 'are'} also silent: {', '.join(case.fellows[:12])}"
    elif case.unanswered_ms:
        detail += f"; no answer to the roll call since {unanswered}, which others answer"
    if case.heard_share is not None:
        detail += f"; {case.heard_share:.0%} of the gateway's other boxes due were heard"
    return [Evidence("presence", "silence", weight, detail, case.heard_at_ms)]


def _shock_counts(case: Case) -> bool:
    return case.shock is not None and case.at_sea and case.shock[0] > SHOCK_G and _with_last_message(case, case.shock[1])


def _fall_counts(case: Case) -> bool:
    return case.free_fall is not None and case.free_fall[0] >= FREE_FALL_MS and _with_last_message(case, case.free_fall[1])


def _fell_short(case: Case) -> bool:
    """Return whether its fall may have ended aboard: it was no longer than one from its place onto the deck, or a message came after it."""
    if case.free_fall is None or case.deck_fall_ms is None:
        return False
    return case.free_fall[0] <= case.deck_fall_ms or case.newest_at_ms - case.free_fall[1] > LAST_WORDS_MS


def _stack_down_at_ms(case: Case) -> int | None:
    """Return the time of the fall, if the box fell no deeper than the deck and others that fell with it still speak; else None.

    In this case the silence of a tracker says little about the place of its box."""
    return case.free_fall[1] if case.free_fall is not None and case.down and _fell_short(case) else None


def _with_last_message(case: Case, at_ms: int) -> bool:
    return abs(case.newest_at_ms - at_ms) <= KINEMATIC_WINDOW_MS


def _kinematic(case: Case, weights: Weights) -> list[Evidence]:
    pieces = []
    if case.shock is not None and _shock_counts(case):
        pieces.append(Evidence("kinematic", "shock", weights.shock, f"a shock of {case.shock[0]:.1f} g", case.shock[1]))
    if case.free_fall is not None and _fall_counts(case):
        pieces.append(
            Evidence("kinematic", "free_fall", weights.free_fall, f"free fall of {case.free_fall[0] / 1000:.1f} s", case.free_fall[1])
        )
    if case.tilt is not None and case.tilt_lasts_ms > TILT_LASTS_MS and _with_last_message(case, case.tilt[1]):
        detail = f"tilted {case.tilt[0]:.0f}° against the ship for {duration_text(case.tilt_lasts_ms)}"
        pieces.append(Evidence("kinematic", "tilt", weights.tilt, detail, case.tilt[1]))
    if len(pieces) > 1:
        together = "; ".join(piece.detail for piece in pieces)
        strongest = max(pieces, key=lambda piece: piece.weight)
        return [msgspec.structs.replace(strongest, detail=together)]
    return pieces


def _around(case: Case, weights: Weights) -> list[Evidence]:
    pieces = []
    if case.below and _stack_down_at_ms(case) is None:
        under = "a box under it in its stack is" if len(case.below) == 1 else f"{len(case.below)} boxes under it in its stack are"
        detail = f"{under} reported lost: {', '.join(case.below[:12])}"
        pieces.append(Evidence("group", "stands_on_lost", weights.below, detail, case.heard_at_ms))
    if len(case.group) >= GROUP_MIN:
        detail = f"{len(case.group)} boxes of its stack and next to it fell silent within 2 min: {', '.join(case.group[:12])}"
        pieces.append(Evidence("group", "silent_together", weights.group, detail, case.heard_at_ms))
    if case.roll_deg > ROLL_DEG or (case.roll_deg > ROLL_GROWING_DEG and case.roll_growing):
        growing = " and growing" if case.roll_growing else ""
        pieces.append(Evidence("motion", "roll", weights.motion, f"the ship rolled {case.roll_deg:.0f}°{growing}", case.roll_at_ms))
    if case.on_deck is False:
        pieces.append(Evidence("slot", "hold", weights.hold, "stowed in the hold", case.now_at_ms))
    elif case.exposed:
        pieces.append(Evidence("slot", "exposed", weights.exposed, "on deck, outboard or aft", case.now_at_ms))
    if len(case.sockets) >= SOCKETS_MIN:
        detail = f"{len(case.sockets)} reefers of the stack lost power together"
        pieces.append(Evidence("power", "sockets", weights.power, detail, case.heard_at_ms))
    if len(case.fixes_nm) >= 2 and FIX_NM < case.fixes_nm[-2] < case.fixes_nm[-1]:
        detail = f"its own position is {case.fixes_nm[-1]:.1f} nm off the ship's track, before that {case.fixes_nm[-2]:.1f} nm"
        pieces.append(Evidence("position", "fix", weights.position, detail, case.newest_at_ms))
    return pieces


def _contra(case: Case, weights: Weights) -> list[Evidence]:
    pieces = []
    if case.battery_low:
        pieces.append(Evidence("contra", "battery", weights.battery, "its battery was nearly empty", case.heard_at_ms))
    if case.rssi_sliding:
        pieces.append(Evidence("contra", "rssi", weights.battery, "its signal had been fading for a day", case.heard_at_ms))
    if _gateway_out(case):
        share = "nothing" if not case.gateway_alive else f"only {case.heard_share or 0:.0%} of its other boxes due"
        pieces.append(Evidence("contra", "gateway", weights.gateway, f"its gateway heard {share}", case.now_at_ms))
    elif case.gateway_restarted and missed(case) < RETURNED_INTERVALS:
        pieces.append(Evidence("contra", "restart", weights.restarted, "its gateway was out since it was last heard", case.heard_at_ms))
    fell_at_ms = _stack_down_at_ms(case)
    if fell_at_ms is not None:
        detail = f"its fall was no deeper than the deck, and {len(case.down)} that fell with it speak on: {', '.join(case.down[:12])}"
        pieces.append(Evidence("contra", "stack_down", weights.collapse, detail, fell_at_ms))
    if case.carries:
        detail = f"what stands on it speaks on, and was not struck: {', '.join(case.carries[:12])}"
        pieces.append(Evidence("contra", "carries", weights.carries, detail, case.now_at_ms))
    if case.leaving:
        pieces.append(Evidence("contra", "discharge", weights.discharge, "it is being loaded or discharged in port", case.now_at_ms))
    elif not case.at_sea:
        pieces.append(Evidence("contra", "in_port", weights.discharge, "the ship lies in port", case.now_at_ms))
    return pieces
