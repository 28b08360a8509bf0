"""The strip at the head of every page: the fleet's clock, the muster, alerts, readings, and how old all of it is. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cargo.loss.accounted_boxes import UNHEARD
from dashboards import muster_rows, texts
from dashboards.api_client import ClockHeard
from dashboards.markup import Tile

Answer = Mapping[str, Any]
AGED_MS = 3_600_000
"""Age from which "no open alerts" is no good news any more, ms of the fleet's time."""
STILL_WALL_MS = 45_000
"""Spark speaks with every micro-batch and its metrics; nothing for this long by the wall's clock means that it stands still."""
READING_STREAMS = ("containers", "ships")
PROJECTOR, ANALYTICS = "projector", "analytics"
"""The processes that make what the pages show."""


def fleet_tiles(fleet: Answer, status: Answer) -> list[Tile]:
    """Return the tiles for operations, from answers of `/api/fleet` and `/api/status`."""
    now = fleet["clock"]["now_at_ms"]
    readings = [stream for stream in status["streams"] if stream["stream"] in READING_STREAMS]
    newest = max((stream["received_at_ms"] for stream in readings), default=None)
    return [
        clock_tile(fleet),
        muster_tile(fleet),
        alerts_tile(fleet["counts"], status["projector"]["at_ms"], now),
        Tile(
            "Readings received",
            texts.number(status["readings"]),
            f"newest {texts.age(newest, now)}",
        ),
        spark_tile(status),
    ]


def own_tiles(fleet: Answer) -> list[Tile]:
    """Return the tiles for a customer's own boxes, or for the boxes aboard a crew's ship."""
    counts, muster = fleet["counts"], fleet["muster"]
    where = [
        f"{texts.number(counts['on_ship'])} aboard ships",
        f"{texts.number(counts['on_quay'])} on quays",
        *_other_notes(counts),
    ]
    where += [f"{texts.number(counts['unreported'])} never reported"] if counts["unreported"] else []
    where += [note for name in UNHEARD if name != "never" for note in _band_note(muster, name)]
    where += filter(None, [muster_rows.by_ships(muster, fleet["clock"]["now_at_ms"])])
    boxes = Tile("Containers", texts.number(counts["boxes"]), " · ".join(where), _quiet(muster_rows.tone(muster)))
    alerts = alerts_tile(counts, fleet["as_of_at_ms"], fleet["clock"]["now_at_ms"])
    return [clock_tile(fleet), boxes, alerts, as_of_tile(fleet)]


def _band_note(muster: Answer, name: str) -> list[str]:
    boxes = muster["accounts"].get(name)
    return [f"{texts.number(boxes)} {muster_rows.ACCOUNTS[name]}"] if boxes else []


def _quiet(tone: str) -> str:
    """Return the tone, with "plain" instead of praise."""
    return "plain" if tone == "good" else tone


def clock_tile(answer: Answer) -> Tile:
    """Return the tile of the one clock of the fleet."""
    clock = answer["clock"]
    stands = clock["speed"] == 0
    return Tile("Fleet clock", texts.moment(clock["now_at_ms"]), texts.pace(clock), "warning" if stands else "plain")


def unknown_clock_tile(heard: ClockHeard, wall_at_ms: int) -> Tile:
    """Return the tile of the fleet's clock while the API does not give its time: since when, and the last time."""
    since = f"since {texts.stamp(heard.wall_at_ms)} UTC (real time), {texts.span(wall_at_ms - heard.wall_at_ms)}"
    last = f"last known: {texts.moment(heard.clock['now_at_ms'])}" if heard.clock else "not known since these pages started"
    return Tile("Fleet clock", "Unknown", f"{since}; {last}", "alert")


def muster_tile(fleet: Answer) -> Tile:
    """Return the tile with how many boxes are accounted for, each by its own interval or by its ship; the boxes that are not; and the age
    of this."""
    counts, muster, now = fleet["counts"], fleet["muster"], fleet["clock"]["now_at_ms"]
    if not counts["boxes"]:
        return Tile("Accounted for", texts.NOTHING, "no box is known yet")
    notes = [*_other_notes(counts), *muster_rows.others(muster)]
    notes += [f"{texts.counted(counts['misread'], 'wrong number')} heard, not counted"] if counts["misread"] else []
    notes = [*(notes or ["every box"]), *filter(None, [muster_rows.by_ships(muster, now)]), texts.as_of(fleet["as_of_at_ms"], now)]
    tone = "alert" if counts["lost"] > counts["lost_closed"] or counts["lost_unconfirmed"] else muster_rows.tone(muster)
    boxes = muster["boxes"] + counts["lost"]
    tone = "plain" if tone == "good" and counts["lost"] else tone
    return Tile("Accounted for", f"{texts.number(muster['accounted'])} of {texts.number(boxes)}", " · ".join(notes), tone)


def _other_notes(counts: Answer) -> list[str]:
    """Return how many boxes are overboard, how many losses are unconfirmed, and how many boxes were delivered. The boxes of an unconfirmed
    loss count at the place that reports them."""
    notes = [f"{texts.number(counts['lost'])} overboard"] if counts["lost"] else []
    claims = counts["lost_unconfirmed"]
    notes += [f"{texts.counted(claims, 'loss', 'losses')} not confirmed"] if claims else []
    return notes + ([f"{texts.number(counts['delivered'])} delivered"] if counts["delivered"] else [])


def alerts_tile(counts: Answer, at_ms: int | None, now_at_ms: int) -> Tile:
    """Return the tile with how many alerts need a person, how many are acknowledged, and the age of this: `at_ms` is the time it is true
    for. Times UTC ms."""
    count, acknowledged = counts["open_alerts"], counts["acknowledged_alerts"]
    note = [f"{texts.number(acknowledged)} acknowledged"] if acknowledged else []
    return Tile(
        "Open alerts",
        texts.number(count),
        " · ".join([*note, texts.as_of(at_ms, now_at_ms)]),
        "alert" if count else "plain" if at_ms is None else "good" if now_at_ms - at_ms <= AGED_MS else "warning",
    )


def box_alerts_tile(alerts: Sequence[Answer]) -> Tile:
    """Return the tile of a box with how many of its alerts, open and acknowledged ones, need a person."""
    acknowledged = sum(one["stage"] == "acknowledged" for one in alerts)
    count = len(alerts) - acknowledged
    tone = "alert" if count else "plain" if acknowledged else "good"
    return Tile("Open alerts", texts.number(count), f"{texts.number(acknowledged)} acknowledged" if acknowledged else "", tone)


def spark_tile(status: Answer) -> Tile:
    """Return the tile with the age of Spark's results: histories, states, hours and customers' streams."""
    spark = status["spark"]
    tone = "alert" if still_since(status) else "plain"
    wall = f"updated {texts.ago(spark['wall_age_ms'])} (real time)" if spark["wall_age_ms"] is not None else "not started"
    return Tile("Analytics updated", texts.ago(spark["age_ms"]) if spark["at_ms"] else "none yet", wall, tone)


def as_of_tile(answer: Answer) -> Tile:
    """Return the tile with the time that an answer is true for."""
    at_ms = answer["as_of_at_ms"]
    return Tile("As of", texts.age(at_ms, answer["clock"]["now_at_ms"]), texts.moment(at_ms))


def starting(status: Answer) -> str | None:
    """Return the sentence for the time before Spark's first results; None once there are any."""
    if status["spark"]["wall_age_ms"] is not None and status["spark"]["at_ms"] is not None:
        return None
    return "Headquarters' analytics (Spark) are starting: places, states and hours come with their first results."


def still_since(status: Answer, alerts_come: bool = True) -> str | None:
    """Return the sentence for when Spark stands still: since when, by fleet and by wall; None while it goes on, or has not begun.
    `alerts_come`: whether the viewer's alerts come without Spark; a customer's do not."""
    spark = status["spark"]
    if spark["wall_age_ms"] is None or spark["at_ms"] is None:
        return None
    since = f"since {texts.moment(spark['at_ms'])} (fleet)"
    if spark["wall_age_ms"] >= STILL_WALL_MS:
        since += f", {texts.span(spark['wall_age_ms'])} (real time)"
    elif spark["well"]:
        return None
    still = f"Headquarters' analytics (Spark) stopped {since}."
    if alerts_come:
        return f"{still} Places, states and hours are as old as that; alerts still come."
    return f"{still} Everything here, alerts too, is as old as that."


def lacks(status: Answer) -> list[str]:
    """Return sentences on what the pages lack, such as records that were dropped before they were read. While Spark stands still,
    `still_since` gives the reason, and this gives only what the projector lacks."""
    makers = (PROJECTOR,) if still_since(status) else (PROJECTOR, ANALYTICS)
    return [trouble for process in status["processes"] if process["process"] in makers for trouble in process["troubles"]]
