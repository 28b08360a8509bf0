"""Settings of a node ashore: a port's with its quay, or headquarters', which run the same program; and a customer's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings
from cargo.vocabulary.trade_codes import is_locode
from intake.settings import IntakeSettings
from landfall.node.settings import KeepSettings, NodeSettings, disks_missing
from landfall.system.settings_table import SettingsProblem, SettingsTable, barred, between


class QuayPatience(SettingsTable):
    """Waiting times of the quay's watch, in fleet time.

    * `lateness_ms`: readings that arrive out of order by up to this time change nothing.
    * `quay_interval_ms`: expected interval of a container, until it is learned."""

    lateness_ms: Annotated[int, Field(ge=0)] = 10_000
    historical_ms: Annotated[int, Field(ge=0)] = 30 * 60_000
    quay_interval_ms: Annotated[int, Field(ge=1_000)] = 60 * 60_000


class PortSettings(SettingsTable):
    """A node ashore. A port's `node.role` is port and `node.identity` its UN/LOCODE. Headquarters' role is hq, and it has no quay."""

    node: NodeSettings
    intake: IntakeSettings = IntakeSettings()
    watch: QuayPatience = QuayPatience()

    @between
    def _is_ashore(self) -> Iterator[SettingsProblem]:
        if self.node.role not in ("port", "hq"):
            yield SettingsProblem(("node", "role"), f"a node ashore is no {self.node.role}", "write role 'port' or 'hq'")

    @between
    def _says_which_port_it_is(self) -> Iterator[SettingsProblem]:
        if self.node.role == "port" and not is_locode(self.node.identity):
            yield SettingsProblem(("node", "identity"), f"a port's is its UN/LOCODE, not {self.node.identity!r}", 'write it, like "JPTYO"')

    @between
    def _has_a_quay_or_is_headquarters(self) -> Iterator[SettingsProblem]:
        if self.node.role == "hq":
            for name in ("endpoint", "broker"):
                if self.intake.is_sound(name) and getattr(self.intake, name):
                    yield SettingsProblem(("intake", name), "headquarters has no quay", "take it out: sensors report to a port's node")

    @between
    def _has_two_disks_if_it_says_so(self) -> Iterator[SettingsProblem]:
        if self.intake.is_sound("ack"):
            yield from disks_missing(self.node, self.intake.ack)

    @between
    def _has_each_door_to_itself(self) -> Iterator[SettingsProblem]:
        yield from barred((*self.node.doors(), *self.intake.doors()))

    def watch_settings(self) -> WatchSettings:
        """Return these settings for cargo's watch. For a port alone."""
        place = WatchPlace(self.node.node, port=self.node.identity)
        patience = self.watch
        return WatchSettings(place, patience.lateness_ms, patience.historical_ms, quay_interval_ms=patience.quay_interval_ms)


class CustomerSettings(SettingsTable):
    """A customer's own node: `node.role` is customer and `node.identity` the customer's id at headquarters.

    * `keep`: how long it keeps its copy, its metrics and its exceptions, whatever headquarters does with its own copy.
    """

    node: NodeSettings
    keep: KeepSettings = KeepSettings()

    @between
    def _is_a_customers(self) -> Iterator[SettingsProblem]:
        if self.node.role != "customer":
            yield SettingsProblem(("node", "role"), f"a customer's node is no {self.node.role}", "write role 'customer'")

    @between
    def _knows_the_shore_alone(self) -> Iterator[SettingsProblem]:
        for number, peer in enumerate(self.node.known):
            if peer.is_sound("role") and peer.role not in ("hq", "port"):
                what = f"a customer's node has nothing to do with a {peer.role}"
                yield SettingsProblem(("node", "known", number, "role"), what, "leave headquarters, and ports that have its stream")

    @between
    def _has_each_door_to_itself(self) -> Iterator[SettingsProblem]:
        yield from barred(self.node.doors())
