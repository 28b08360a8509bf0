"""Where nodes' sensors are, as the settings of headquarters' processes say."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams.node.settings import NodeName

_Place = Annotated[str, Field(pattern=r"^(ship/\d{7}|quay/[A-Z]{2}[A-Z2-9]{3})$", examples=["ship/9321483", "quay/JPTYO"])]
SensorPlaces = dict[NodeName, _Place]
"""Node name → `ship/<imo>` or `quay/<locode>`."""
