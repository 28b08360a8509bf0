"""What voyages come to once the watch has seen them: the lines of the tables of validation, and the results of other weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from cargo.loss.loss_classifier import WEIGHTS, Case, Weights, decide
from tests.support.watched_voyages import Seen

MINUTE_MS = 60_000
LOSS_HEAD = (
    "| loss | voyages | boxes lost, with tracker | detected (95 % by voyage) | delay on the bridge, median / 95 % "
    "| within 60 s | within 3 intervals | false alarms |"
)
WEIGHTS_HEAD = (
    "| weights | losses detected (95 % by voyage) | delay on the bridge, median / 95 % | within 60 s "
    "| voyages with a loss and a false alarm (95 %), boxes | voyages without a loss and with one (95 %), boxes |"
)
QUIET_HEAD = "| no loss | voyages | readings | with a false alarm (95 %) | boxes falsely reported | of them retracted |"


def wilson(hits: float, of: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    if not of:
        return 0.0, 1.0
    z2, share = 1.96**2, hits / of
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = 1.96 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def recall_row(name: str, voyages: list[Seen]) -> str:
    """One line of the table of losses. The interval takes each voyage for one observation: boxes of one loss are not independent."""
    lost = sum(len(seen.lost) for seen in voyages)
    late_ms = [seen.reported_at_ms[box] - at for seen in voyages for box, at in seen.lost.items() if box in seen.reported_at_ms]
    within = [
        seen.reported_at_ms[box] - at <= 3 * seen.interval_ms[box]
        for seen in voyages
        for box, at in seen.lost.items()
        if box in seen.reported_at_ms
    ]
    wolf = sum(len(seen.false) for seen in voyages)
    intervals = f"{sum(within) / len(within):.0%}" if within else "–"
    return f"| {name} | {len(voyages)} | {lost} | {share_cells(lost, late_ms, len(voyages))} | {intervals} | {wolf} |"


def share_cells(lost: int, late_ms: Sequence[int], voyages: int) -> str:
    """Return three cells: the share of the lost boxes that was reported, the delay in the middle and of the slowest twentieth, and the
    share of the reports within 60 s.
    """
    low, high = wilson(len(late_ms) / max(1, lost) * voyages, voyages)
    share = f"**{len(late_ms) / max(1, lost):.1%}** ({low:.0%}–{high:.0%})"
    if not late_ms:
        return f"{share} | – | –"
    ordered = sorted(late_ms)
    spread = f"{ordered[len(ordered) // 2] / 1000:.0f} / {ordered[int(len(ordered) * 0.95)] / 1000:.0f} s"
    return f"{share} | {spread} | {sum(ms <= MINUTE_MS for ms in ordered) / len(ordered):.0%}"


def quiet_row(name: str, voyages: list[Seen]) -> str:
    """One line of the table of false alarms, by voyage."""
    crying = sum(bool(seen.false) for seen in voyages)
    boxes = sum(len(seen.false) for seen in voyages)
    back = sum(len(seen.false & seen.retracted) for seen in voyages)
    low, high = wilson(crying, len(voyages))
    return (
        f"| {name} | {len(voyages)} | {sum(seen.readings for seen in voyages):,} | **{crying}** ({low:.1%}–{high:.1%}) | {boxes} | {back} |"
    )


@dataclass(frozen=True, slots=True)
class Under:
    """The outcome of voyages under other weights.

    `lost`: the number of lost boxes; `late_ms`: the delay of each lost box that was reported, in ms; `crying`: the number of voyages
    with a false report; `falsely`: the number of boxes reported falsely.
    """

    lost: int
    late_ms: tuple[int, ...]
    crying: int
    falsely: int


def under(weights: Weights, voyages: Iterable[Seen]) -> Under:
    """The same, had the cases of these voyages been decided with these weights."""
    lost = crying = falsely = 0
    late_ms: list[int] = []
    for seen in voyages:
        reported_at_ms = {box: at for box, cases in seen.cases.items() if (at := _reported_at_ms(weights, cases)) is not None}
        lost += len(seen.lost)
        late_ms += [at - seen.lost[box] for box, at in reported_at_ms.items() if box in seen.lost]
        wolf = len(reported_at_ms.keys() - seen.lost.keys())
        crying, falsely = crying + bool(wolf), falsely + wolf
    return Under(lost, tuple(late_ms), crying, falsely)


def _reported_at_ms(weights: Weights, cases: Iterable[tuple[int, Case]]) -> int | None:
    return next((at for at, case in cases if decide(case, weights).state == "PROBABLE_OVERBOARD"), None)


def curve(losses: list[Seen], quiets: list[Seen]) -> Iterator[str]:
    """What is bought with what: the threshold, then each weight taken away and halved again as much."""
    asked = [(f"threshold {at}", Weights(probable_min=at)) for at in (0.5, 0.7, 0.9, 0.95, 0.99, 0.999, 0.9999)]
    for name in (
        "shock",
        "promise",
        "free_fall",
        "tilt",
        "group",
        "below",
        "motion",
        "exposed",
        "power",
        "position",
        "hold",
        "collapse",
        "carries",
        "discharge",
        "battery",
        "gateway",
        "restarted",
    ):
        for factor in (0.0, 0.5, 1.5):
            asked.append((f"{name} × {factor}", msgspec.structs.replace(WEIGHTS, **{name: getattr(WEIGHTS, name) * factor})))
    for name, weights in asked:
        mark = "**" if weights == WEIGHTS else ""
        lossy, calm = under(weights, losses), under(weights, quiets)
        cried = " | ".join(_cried(outcome, len(of)) for outcome, of in ((lossy, losses), (calm, quiets)))
        yield f"| {mark}{name}{mark} | {share_cells(lossy.lost, lossy.late_ms, len(losses))} | {cried} |"


def _cried(outcome: Under, voyages: int) -> str:
    low, high = wilson(outcome.crying, voyages)
    return f"{outcome.crying} of {voyages:,} ({low:.1%}–{high:.1%}), {outcome.falsely}"


def likelihoods(voyages: list[Seen]) -> Iterator[str]:
    """How often each signal stands in the case of a lost box, and of a silent one that is aboard; the log10 ratio of the two, a half added
    to each count (Jeffreys), and the weight in use."""
    signal_counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    cases = Counter[bool]()
    for seen in voyages:
        for box, several in seen.cases.items():
            gone = box in seen.lost
            cases[gone] += 1
            signal_counts[gone].update({piece.signal for piece in decide(several[-1][1]).evidence if piece.weight})
    names = {"silent_together": "group", "roll": "motion", "sockets": "power", "fix": "position", "rssi": "battery", "restart": "restarted"}
    names |= {"silence": "promise", "stands_on_lost": "below"}
    for signal in sorted(signal_counts[True] | signal_counts[False]):
        weight = getattr(WEIGHTS, names.get(signal, signal), WEIGHTS.discharge)
        rates = [(signal_counts[gone][signal] + 0.5) / (cases[gone] + 1) for gone in (True, False)]
        counts = " | ".join(f"{signal_counts[gone][signal]} of {cases[gone]}" for gone in (True, False))
        yield f"| {signal} | {counts} | {math.log10(rates[0] / rates[1]):+.1f} | {weight:+.1f} |"
