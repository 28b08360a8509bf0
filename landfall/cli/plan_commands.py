"""`landfall plan`: calculates, from the ship's settings, what a voyage will send, when each stream is ashore, what it costs and what
thins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from edge.planning.leg_simulation import LegOutcome
from edge.planning.ship_streams import SampleReadings
from edge.planning.voyage_inputs import DAY_S, HOUR_S, MINUTE_S, PlannedVoyage
from edge.planning.voyage_plan import Planned, plan
from landfall.cli.list_output import UNSEEN_WIDTH
from landfall.cli.number_format import read_at_ms, utc
from landfall.cli.plan_output import age, legs_json, size, waits_bytes
from landfall.cli.table_output import write_notes
from landfall.cli.terminal_encoding import say
from landfall.process_table import settings_of
from sim.steady import SIGNALS, Steady, box_readings, ship_readings
from streams.config.companion_streams import KEPT
from streams.config.roles import LinkClass
from streams.model.errors import Misuse

BOXES_MAX = 1_000_000
DAYS_MAX = 366
MINUTES_MAX = 24 * 60 * DAYS_MAX
PER_DAY_MAX = 1_000_000
SAILS_AT_MS_MAX = 221_845_392_000_000
"""The year 9000."""
MOST_SIGNALS = len(SIGNALS)
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The ship's own settings; LANDFALL_… variables override them.", show_default="the demo's ship"),
]
Days = Annotated[float, typer.Option("--days-at-sea", min=0.04, max=DAYS_MAX, help="Days from port to port.")]
Boxes = Annotated[int, typer.Option("--boxes", min=1, max=BOXES_MAX, help="Containers that report.")]
Interval = Annotated[float, typer.Option("--interval", min=0.1, max=MINUTES_MAX, help="Minutes between two readings of one container.")]
Signals = Annotated[int, typer.Option("--signals", min=1, max=MOST_SIGNALS, help="Signals in a reading.")]
Port = Annotated[float, typer.Option("--hours-in-port", min=0.1, max=24 * DAYS_MAX, help="Hours in port afterwards.")]
Sails = Annotated[
    str | None, typer.Option("--sails", help="Time of departure, like 2026-05-01T18:00 (UTC).", show_default="the next midnight")
]
Alerts = Annotated[float, typer.Option("--alerts-per-day", min=0, max=PER_DAY_MAX, help="Alerts raised per day.")]
Events = Annotated[float, typer.Option("--events-per-day", min=0, max=PER_DAY_MAX, help="Events per day: shocks, doors, musters.")]
Own = Annotated[
    float, typer.Option("--ship-interval", min=0.1, max=MINUTES_MAX, help="Minutes between two reports of the ship's position and weather.")
]
Share = Annotated[float, typer.Option("--satellite-share", min=0, max=1, help="Share of the time at sea with a satellite in reach.")]
Outage = Annotated[float, typer.Option("--outage", min=1, max=MINUTES_MAX, help="Length of each outage, minutes.")]
SatelliteRate = Annotated[
    int | None,
    typer.Option("--satellite-rate", min=1, help="Rate of the satellite link, bit/s.", show_default="rate_bit_s of the settings"),
]
PortRate = Annotated[
    int | None, typer.Option("--port-rate", min=1, help="Rate of the port's link, bit/s.", show_default="rate_bit_s of the settings")
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, with all fields.")]


def plan_voyage(
    days_at_sea: Days,
    boxes: Boxes,
    interval: Interval = 60.0,
    config: Config = None,
    signals: Signals = MOST_SIGNALS,
    hours_in_port: Port = 12.0,
    sails: Sails = None,
    alerts_per_day: Alerts = 1.0,
    events_per_day: Events = 10.0,
    ship_interval: Own = 10.0,
    satellite_share: Share = 1.0,
    outage: Outage = 60.0,
    satellite_rate: SatelliteRate = None,
    port_rate: PortRate = None,
    as_json: AsJson = False,
) -> None:
    """Plan a voyage: when each stream is ashore, bytes and cost of the links, and what is thinned on board."""
    settings = _ship(config)
    sails_at_ms = _next_midnight_ms() if sails is None else read_at_ms(sails)
    if sails_at_ms > SAILS_AT_MS_MAX:
        raise Misuse(f"{sails} is too far ahead for a plan", hint="write a day before the year 9000", code="time_invalid")
    rates: dict[LinkClass, int] = {}
    if satellite_rate:
        rates["satellite"] = satellite_rate
    if port_rate:
        rates["port"] = port_rate
    voyage = PlannedVoyage(
        days_at_sea=days_at_sea,
        boxes=boxes,
        interval_s=interval * MINUTE_S,
        sails_at_ms=sails_at_ms,
        signals=signals,
        hours_in_port=hours_in_port,
        ship_interval_s=ship_interval * MINUTE_S,
        alerts_per_day=alerts_per_day,
        events_per_day=events_per_day,
        satellite_share=satellite_share,
        outage_s=outage * MINUTE_S,
        rates_bit_s=rates,
    )
    planned = plan(settings, voyage, _readings(voyage, settings.node.identity))
    if as_json:
        say(json.dumps(_json(planned)))
        return
    _show(planned)


def _ship(config: Path | None) -> Any:
    """Return the ship's settings; without a file those of the demo's ship."""
    if config is not None:
        return settings_of("ship", config)
    try:
        from landfall.demo.example_settings import write_example_ship
    except ModuleNotFoundError as missing:
        problem = f"the demo is not installed here: {missing.name}"
        raise Misuse(problem, hint="give the ship's settings with -c FILE", code="demo_not_installed") from None
    write_notes(["planned with the settings of the demo's ship; -c FILE plans with another's"])
    with TemporaryDirectory(prefix="landfall-plan-") as folder:
        return settings_of("ship", write_example_ship(Path(folder)))


def _next_midnight_ms() -> int:
    now_s = datetime.now(UTC).timestamp()
    return int((now_s // DAY_S + 1) * DAY_S) * 1000


def _readings(voyage: PlannedVoyage, imo: str) -> SampleReadings:
    """Return steady readings, as the simulated sensors send them."""
    at_ms, every_ms = voyage.sails_at_ms, int(voyage.interval_s * 1000)
    return SampleReadings(
        boxes=lambda count, reports: box_readings(Steady(at_ms, count, reports, every_ms, voyage.signals)),
        ship=lambda reports: ship_readings(imo, at_ms, reports, int(voyage.ship_interval_s * 1000)),
    )


def _json(planned: Planned) -> dict[str, Any]:
    voyage, buffer = planned.voyage, planned.buffer
    thinned = {
        stream: {
            "since_at_ms": round(one.since_s * 1000),
            "records": round(one.records),
            "kept": round(one.kept),
            "window_h": one.window_ms / 1000 / HOUR_S,
        }
        for stream, one in buffer.thinned.items()
    }
    return {
        "voyage": {
            "sails_at_ms": voyage.sails_at_ms,
            "moors_at_ms": voyage.sails_at_ms + round(voyage.sea_s * 1000),
            "boxes": voyage.boxes,
            "interval_s": voyage.interval_s,
            "signals": voyage.signals,
        },
        "streams": {flow.stream: _flow_json(planned, flow) for flow in planned.flows},
        "legs": legs_json(planned),
        "disk": {
            "budget_bytes": buffer.budget_bytes,
            "stored_bytes_max": round(buffer.stored_bytes_max),
            "full_at_ms": None if buffer.full_s is None else round(buffer.full_s * 1000),
            "over_bytes": round(buffer.over_bytes),
            "thinned": thinned,
        },
    }


def _flow_json(planned: Planned, flow: Any) -> dict[str, Any]:
    carrier = planned.legs[-1].link.line.carrier
    return {
        "lane": flow.lane.name.lower(),
        "records_per_day": round(flow.records_per_s * DAY_S, 3),
        "live_bytes": round(flow.live_bytes(carrier), 2),
        "backlog_bytes": round(flow.backlog_bytes(carrier, flow.joined), 2),
        "stored_bytes": round(flow.stored_bytes(), 2),
    }


def _show(planned: Planned) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console = Console(highlight=False, soft_wrap=True, width=UNSEEN_WIDTH)
    for leg in planned.legs:
        for line in _lines(leg):
            console.print(line, markup=False)
        console.print(_streams(leg, planned))
    for line in _disk(planned):
        console.print(line, markup=False)


def _lines(leg: LegOutcome) -> Iterator[str]:
    total = sum(day.bytes for day in leg.days)
    costs = [day.cost for day in leg.days if day.cost is not None]
    cost = f", cost {sum(costs):,.2f}" if costs else ""
    span = f"{utc(round(leg.begins_s * 1000))} to {utc(round(leg.ends_s * 1000))}"
    yield f"{leg.name}, {span}: {size(total)} over the {leg.link.policy.link_class}'s link{cost}"
    if costs and leg.link.budget:
        most = max(leg.days, key=lambda day: day.charged_bytes or 0)
        yield (
            f"  costliest day {most.day}: {most.charged_bytes:,} of {leg.link.budget.bytes_per_day:,} bytes, cost {most.cost:,.2f}; "
            f"{_cut(leg)}"
        )


def _cut(leg: LegOutcome) -> str:
    cut = [day for day in leg.days if day.cut_s is not None]
    if not cut:
        return "no day's budget is spent"
    first = utc(round((cut[0].cut_s or 0) * 1000))
    return f"the budget is spent on {len(cut)} of {len(leg.days)} days, first {first}; then all but alerts wait until midnight"


def _streams(leg: LegOutcome, planned: Planned) -> Table:
    headings = ("", "stream", "lane", "newest ashore after", "all ashore after", "greatest lag", "waits at most", "sent records", "sent")
    table = Table(*headings, box=None, header_style="bold")
    lanes = {one.stream: one.lane for one in planned.flows}
    for stream, one in sorted(leg.streams.items(), key=lambda item: (lanes[item[0].removesuffix(KEPT)], item[0])):
        lane = lanes[stream.removesuffix(KEPT)].name.lower()
        waits = f"{one.waits_records_max:,.0f}"
        if bytes_ := waits_bytes(leg, stream, planned):
            waits += f" ({size(bytes_)})"
        if not one.carried:
            table.add_row("", stream, lane, "waits for port", "waits for port", age(one.lag_max_s), waits, "", "")
            continue
        table.add_row(
            "",
            stream,
            lane,
            age(one.newest_after_s),
            age(one.all_after_s),
            age(one.lag_max_s),
            waits,
            f"{one.sent_records:,.0f}",
            size(one.sent_bytes),
        )
    return table


def _disk(planned: Planned) -> Iterator[str]:
    buffer = planned.buffer
    limit = "as much as there is" if buffer.budget_bytes is None else size(buffer.budget_bytes)
    yield f"disk: at most {size(buffer.stored_bytes_max)} of records that are not ashore, of {limit}"
    if buffer.full_s is None:
        return
    after = age(buffer.full_s - planned.legs[0].begins_s)
    yield f"  full {utc(round(buffer.full_s * 1000))}, {after} after sailing"
    for stream, one in buffer.thinned.items():
        hours = one.window_ms / 1000 / HOUR_S
        yield f"  {stream} thins: {one.records:,.0f} of its oldest records become {one.kept:,.0f}, windows of {hours:g} h"
    if buffer.over_bytes:
        yield f"  all is as thin as it gets, and there is {size(buffer.over_bytes)} more than that: give the node more room"
