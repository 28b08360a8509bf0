"""A voyage planned: what is ashore when, at how many bytes and what cost, and what thins, as a ship with these settings would do it.

It is a fluid, not a simulation: records come evenly, links are as quick as they are said to be, their delay and the time that disks take
count as nothing, and nothing breaks but the satellite's link, at even intervals. Loss reports, answers to `landfall ask`, what shore says
(`aboard/…`) and what goes wrong (`exceptions`) are not in it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

import pyarrow as pa

from edge.planning.backlog_model import PlannedLink, ShipBacklog
from edge.planning.disk_model import UNIT_ROWS, Buffer, Rung, rungs_of
from edge.planning.leg_simulation import FREE, LegOutcome, Link, Sailing
from edge.planning.record_bytes import MessageCarrier, fragment_bytes, websocket
from edge.planning.record_samples import as_heard
from edge.planning.ship_streams import GENERATION, SAMPLE_ROWS, SampleReadings, flows_of
from edge.planning.stream_flows import Flow
from edge.planning.voyage_inputs import DAY_S, PlannedVoyage
from edge.services.backlog_reporter import ASHORE
from edge.services.digest_service import CONTAINERS, DIGESTS
from edge.settings import ShipSettings
from landfall.transport.byte_meter import OPENING_BYTES, window_bytes
from streams.codec import BlockCodec
from streams.config.companion_streams import HEADS, KEPT, kept_of
from streams.config.roles import LinkClass
from streams.config.stream_definitions import Definitions, may_have
from streams.model.errors import Misuse
from streams.model.identifiers import Origin

UPGRADE_BYTES = 596
"""Size of the WebSocket's upgrade, both ways, bytes."""
TLS_BYTES = 6_230 if ssl.OPENSSL_VERSION_INFO >= (3, 5) else 4_090
"""Size of the TLS 1.3 handshake before that, when both ends show a certificate of `landfall certs`, bytes; OpenSSL 3.5 has post-quantum
keys, 2 kB longer."""
_LINKS: tuple[LinkClass, LinkClass] = ("satellite", "port")
"""Classes of link: at sea, in port."""
TRIED_ROWS = 1 << 16
"""Readings on which thinning is tried."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer: legs in their order, the disk, and the streams with what they take."""

    voyage: PlannedVoyage
    flows: Sequence[Flow]
    legs: Sequence[LegOutcome]
    buffer: Buffer


def plan(settings: ShipSettings, voyage: PlannedVoyage, readings: SampleReadings) -> Planned:
    """Return the plan of this voyage. Raises Misuse if the rate of a link is unknown, or the ship has no port."""
    rates = {link: _rate_bit_s(settings, voyage, link) for link in _links(settings, voyage)}
    definitions, flows = Definitions(), flows_of(settings, voyage, readings)
    at_sea, in_port = (_link(settings, voyage, flows, link, rates) for link in _LINKS)
    aboard = ShipBacklog(flows, voyage.sails_at_ms / 1000)

    @cache
    def rungs(stream: str) -> Sequence[Rung]:
        return _rungs(stream, settings, voyage, readings, flows)

    buffer = Buffer(aboard, definitions, settings.node.disk_budget_bytes, rungs)
    sailing = Sailing(aboard, buffer.look)
    legs = [sailing.leg("at sea", at_sea, voyage.sea_s)]
    aboard.ends((DIGESTS, DIGESTS + HEADS))  # in port readings go themselves
    legs.append(sailing.leg("in port", in_port, voyage.port_s))
    return Planned(voyage, flows, legs, buffer)


def _links(settings: ShipSettings, voyage: PlannedVoyage) -> list[LinkClass]:
    """Return the links the ship will have. Raises Misuse when there is none in port."""
    if not settings.ports:
        raise Misuse("the settings name no port for the ship", hint="write a [[ports]] with its node and URL", code="ports_missing")
    return [*_LINKS] if settings.headquarters and voyage.satellite_share else ["port"]


def _rate_bit_s(settings: ShipSettings, voyage: PlannedVoyage, link: LinkClass) -> int:
    rates = [rate for rate in (settings.node.policy(link).rate_bit_s, voyage.rates_bit_s.get(link)) if rate]
    if not rates:
        raise Misuse(
            f"nobody says how quick the {link} link is",
            hint=f"give --{link}-rate, or write rate_bit_s in [node.links.{link}]",
            code="link_rate_missing",
        )
    return min(rates)


def _link(
    settings: ShipSettings, voyage: PlannedVoyage, flows: Sequence[Flow], link: LinkClass, rates_bit_s: Mapping[LinkClass, int]
) -> Link:
    """Return the link of this class; one that is never up if it has no rate."""
    node, policy = settings.node, settings.node.policy(link)
    if link not in rates_bit_s:
        return Link(
            replace(policy, streams=()), PlannedLink(MessageCarrier(websocket(False), 1), 0.0, 0.0, ()), 0.0, outage_s=inf, up_s=0.0
        )
    budget = node.links[link].budget() if link in node.links else None
    shores = [settings.headquarters] if link == "satellite" else settings.ports
    tls = any(shore is not None and shore.url.startswith("https:") for shore in shores)
    carrier = MessageCarrier(websocket(tls), fragment_bytes(rates_bit_s[link]))
    named = [name for flow in flows for name in (flow.stream, kept_of(flow.stream))]
    streams = [name for name in named if policy.carries(name) and may_have(ASHORE, Definitions().of(name))]
    grown = [name for name in streams if not name.endswith(KEPT)]
    meeting = UPGRADE_BYTES + (TLS_BYTES if tls else 0) + carrier.meeting(policy, Origin(node.node, GENERATION), grown)
    line = PlannedLink(carrier, rates_bit_s[link] / 8, carrier.idle_bytes_s(policy.pace), streams)
    share = voyage.satellite_share if link == "satellite" else 1.0
    up_s = None if share >= 1 else voyage.outage_s * share / (1 - share)
    tariff = node.links[link].tariff() if link in node.links else FREE
    return Link(policy, line, meeting, budget, window_bytes() if budget else 0, OPENING_BYTES, voyage.outage_s, up_s, tariff)


def _rungs(stream: str, settings: ShipSettings, voyage: PlannedVoyage, readings: SampleReadings, flows: Sequence[Flow]) -> list[Rung]:
    """Return the effects of thinning of `stream`, tried on samples with as many records of a topic as one step would find, of fewer topics
    where it has many."""
    origin, codec = Origin(settings.node.node, GENERATION), BlockCodec()
    if stream == CONTAINERS:
        return rungs_of(stream, origin, _steps(voyage, readings), codec)
    flow = next(one for one in flows if one.stream == stream)
    rows = min(int(flow.records_per_s * voyage.sea_s), SAMPLE_ROWS)
    return rungs_of(stream, origin, [flow.sample(rows)] if flow.sample and rows else [], codec)


def _steps(voyage: PlannedVoyage, readings: SampleReadings) -> list[pa.RecordBatch]:
    reports = max(1, int(voyage.sea_s / voyage.interval_s))
    in_a_step = max(1, min(reports, UNIT_ROWS // voyage.boxes))
    steps = max(1, min(reports // in_a_step, int(3 * DAY_S / voyage.interval_s) // in_a_step))
    boxes = max(1, min(voyage.boxes, TRIED_ROWS // (in_a_step * steps)))
    rows = as_heard(readings.boxes(boxes, in_a_step * steps))
    size = boxes * in_a_step
    return [rows.slice(at * size, size) for at in range(steps)]
