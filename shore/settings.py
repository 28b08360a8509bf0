"""Settings of a node ashore: a port's with its quay, or headquarters'. Both run the same program."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cargo.identifiers import is_locode
from cargo.outcome import Place
from cargo.state import WatchSettings
from intake.settings import IntakeSettings
from streams.node import NodeSettings


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class QuayPatience(_Settings):
    """How long the quay's watch waits, in fleet time: out of order by up to `lateness_ms` changes nothing; the interval: until habits are
    known.
    """

    lateness_ms: Annotated[int, Field(ge=0)] = 10_000
    historical_ms: Annotated[int, Field(ge=0)] = 30 * 60_000
    quay_interval_ms: Annotated[int, Field(ge=1_000)] = 60 * 60_000


class PortSettings(_Settings):
    """One node ashore. A port's `node.role` is port and `node.identity` its UN/LOCODE; headquarters' role is hq, and it has no quay."""

    node: NodeSettings
    intake: IntakeSettings = IntakeSettings()
    watch: QuayPatience = QuayPatience()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.node.role not in ("port", "hq"):
            raise ValueError(f"a node ashore has role 'port' or 'hq', not {self.node.role!r}")
        if self.node.role == "port" and not is_locode(self.node.identity):
            raise ValueError(f"a port's identity is its UN/LOCODE, such as JPTYO, not {self.node.identity!r}")
        if self.node.role == "hq" and (self.intake.endpoint or self.intake.broker):
            raise ValueError("headquarters has no quay: sensors report to a port's node")
        return self

    def watch_settings(self) -> WatchSettings:
        """The same for cargo's watch. For a port alone."""
        place = Place(self.node.node, port=self.node.identity)
        patience = self.watch
        return WatchSettings(place, patience.lateness_ms, patience.historical_ms, quay_interval_ms=patience.quay_interval_ms)
