"""Where nodes' sensors are, as the settings of headquarters' processes say."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from landfall.node.settings import NodeName
from landfall.runtime.telemetry_client import TelemetryClient
from streams.log import LogReader

_Place = Annotated[str, Field(pattern=r"^(ship/\d{7}|quay/[A-Z]{2}[A-Z2-9]{3})$", examples=["ship/9321483", "quay/JPTYO"])]
log = logging.getLogger(__name__)
SensorPlaces = dict[NodeName, _Place]
"""Node name → `ship/<imo>` or `quay/<locode>`."""
SENSED = ("containers", "ships")
"""Streams that hold what sensors say."""


def report_unplaced(log_reader: LogReader, places: Mapping[str, str], telemetry: TelemetryClient) -> list[str]:
    """Report the nodes that wrote what sensors say and have no place in the settings: no page shows where their boxes are. Returns them."""
    writers = {origin.node for stream in SENSED if stream in log_reader.streams() for origin in log_reader.ledger(stream)}
    unplaced = sorted(writers - set(places))
    if unplaced:
        reason = f"not in [places] of the settings: {', '.join(unplaced)}; where their sensors are is not known"
        log.warning("%s", reason)
        telemetry.report(reason, outcome='shown without a place; add them, as in tokyo = "quay/JPTYO"', code="place_missing")
    return unplaced
