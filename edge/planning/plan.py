"""A voyage planned: what is ashore when, at how many bytes and what cost, and what thins, as a ship with these settings would do it.

It is a fluid, not a simulation: records come evenly, links are as quick as they are said to be, their delay and the time that disks take
count as nothing, and nothing breaks but the satellite's link, at even intervals. Loss reports, answers to `landfall ask`, what shore says
(`aboard/…`) and what goes wrong (`exceptions`) are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

import pyarrow as pa

from edge.digesting import CONTAINERS, DIGESTS
from edge.planning.buffer import UNIT_ROWS, Buffer, Rung, rungs_of
from edge.planning.flows import Flow
from edge.planning.sailing import Leg, Link, Sailing
from edge.planning.samples import as_heard
from edge.planning.sizes import Carrier, fragment_bytes, websocket
from edge.planning.streams import GENERATION, SAMPLE_ROWS, Readings, flows_of
from edge.planning.voyage import DAY_S, Voyage
from edge.planning.waiting import Aboard, Line
from edge.settings import ShipSettings
from edge.waiting import ASHORE
from streams.codec import BlockCodec
from streams.definitions import Definitions, may_have
from streams.derived import HEADS, KEPT, kept_of
from streams.errors import Misuse
from streams.link.metering import OPENING_BYTES, window_bytes
from streams.policy import LinkClass, LinkPolicy
from streams.words import Origin

UPGRADE_BYTES = 900
"""What the WebSocket's upgrade takes, both ways."""
TLS_BYTES = 4_000
"""What TLS 1.3 takes before that where both show a certificate of `landfall certs`."""
TRIED_ROWS = 1 << 16
"""Readings on which thinning is tried."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer: legs in their order, the disk, and the streams with what they take."""

    voyage: Voyage
    flows: Sequence[Flow]
    legs: Sequence[Leg]
    buffer: Buffer


def plan(settings: ShipSettings, voyage: Voyage, readings: Readings) -> Planned:
    """The plan of this voyage. Raises Misuse where nobody says how quick a link is, or she has no port."""
    definitions, flows = Definitions(), flows_of(settings, voyage, readings)
    at_sea = _satellite(settings, voyage, flows)
    in_port = _port(settings, voyage, flows)
    aboard = Aboard(flows, voyage.sails_at_ms / 1000)

    @cache
    def rungs(stream: str) -> Sequence[Rung]:
        return _rungs(stream, settings, voyage, readings, flows)

    buffer = Buffer(aboard, definitions, settings.node.disk_budget_bytes, rungs)
    sailing = Sailing(aboard, buffer.look)
    legs = [sailing.leg("at sea", at_sea, voyage.sea_s)]
    aboard.ends((DIGESTS, DIGESTS + HEADS))  # in port readings go themselves
    legs.append(sailing.leg("in port", in_port, voyage.port_s))
    return Planned(voyage, flows, legs, buffer)


def _satellite(settings: ShipSettings, voyage: Voyage, flows: Sequence[Flow]) -> Link:
    shore = settings.headquarters
    if shore is None or not voyage.satellite_share:
        return Link(LinkPolicy("satellite", ()), Line(Carrier(websocket(False), 1), 0.0, 0.0, ()), 0.0, outage_s=inf, up_s=0.0)
    share = voyage.satellite_share
    up_s = None if share >= 1 else voyage.outage_s * share / (1 - share)
    return _link(settings, voyage, flows, ("satellite", shore.url.startswith("https:")), voyage.outage_s, up_s)


def _port(settings: ShipSettings, voyage: Voyage, flows: Sequence[Flow]) -> Link:
    if not settings.ports:
        raise Misuse("these settings have no port for her to lie in", hint="write a [[ports]] with its node and URL")
    return _link(settings, voyage, flows, ("port", any(port.url.startswith("https:") for port in settings.ports)))


def _link(
    settings: ShipSettings,
    voyage: Voyage,
    flows: Sequence[Flow],
    kind: tuple[LinkClass, bool],
    outage_s: float = 0.0,
    up_s: float | None = None,
) -> Link:
    """The link of this class, over TLS or not."""
    (link, tls), node = kind, settings.node
    policy, budget = node.policy(link), node.links[link].budget() if link in node.links else None
    rates = [rate for rate in (policy.rate_bit_s, voyage.rates_bit_s.get(link)) if rate]
    if not rates:
        raise Misuse(f"nobody says how quick the {link} link is", hint=f"give --{link}-rate, or write rate_bit_s in [node.links.{link}]")
    carrier = Carrier(websocket(tls), fragment_bytes(min(rates), paced=policy.rate_bit_s == min(rates)))
    named = [name for flow in flows for name in (flow.stream, kept_of(flow.stream))]
    streams = [name for name in named if policy.carries(name) and may_have(ASHORE, Definitions().of(name))]
    grown = [name for name in streams if not name.endswith(KEPT)]
    meeting = UPGRADE_BYTES + (TLS_BYTES if tls else 0) + carrier.meeting(policy, Origin(node.node, GENERATION), grown)
    line = Line(carrier, min(rates) / 8, carrier.idle_bytes_s(link), streams)
    return Link(policy, line, meeting, budget, window_bytes() if budget else 0, OPENING_BYTES, outage_s, up_s)


def _rungs(stream: str, settings: ShipSettings, voyage: Voyage, readings: Readings, flows: Sequence[Flow]) -> list[Rung]:
    """Thinning of `stream`, tried on samples with as many records of a topic as one step would find, of fewer topics where it has many."""
    origin, codec = Origin(settings.node.node, GENERATION), BlockCodec()
    if stream == CONTAINERS:
        return rungs_of(stream, origin, _steps(voyage, readings), codec)
    flow = next(one for one in flows if one.stream == stream)
    rows = min(int(flow.records_per_s * voyage.sea_s), SAMPLE_ROWS * 4)
    return rungs_of(stream, origin, [flow.sample(rows)] if flow.sample and rows else [], codec)


def _steps(voyage: Voyage, readings: Readings) -> list[pa.RecordBatch]:
    reports = max(1, int(voyage.sea_s / voyage.interval_s))
    in_a_step = max(1, min(reports, UNIT_ROWS // voyage.boxes))
    steps = max(1, min(reports // in_a_step, int(3 * DAY_S / voyage.interval_s) // in_a_step))
    boxes = max(1, min(voyage.boxes, TRIED_ROWS // (in_a_step * steps)))
    rows = as_heard(readings.boxes(boxes, in_a_step * steps))
    size = boxes * in_a_step
    return [rows.slice(at * size, size) for at in range(steps)]
