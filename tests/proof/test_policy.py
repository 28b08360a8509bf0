"""Goal: what an origin signed of a stream, and what thinning kept of it, go wherever the stream itself goes, and nowhere else."""

from __future__ import annotations

import pytest

from streams.config.companion_streams import parent_of
from streams.config.roles import LAN, SATELLITE, Lane, Peer, carries
from streams.config.stream_definitions import Definitions, may_have, may_originate

SHIP, HQ, DUCKWORKS = Peer("ship-a", "ship", "9321483"), Peer("hq", "hq"), Peer("duckworks", "customer", "duckworks")


@pytest.mark.parametrize("ending", [".heads", ".kept", ".kept.heads"])
def test_what_is_derived_follows_its_stream(ending: str) -> None:
    of = Definitions().of
    assert parent_of("customers/duckworks" + ending) == "customers/duckworks"
    assert of("alerts" + ending).lane == Lane.ALERTS
    assert of("containers" + ending).lane == Lane.READINGS
    assert may_have(SHIP, of("aboard/9321483" + ending))
    assert not may_have(SHIP, of("aboard/9000000" + ending))
    assert may_have(DUCKWORKS, of("customers/duckworks" + ending))
    assert not may_have(DUCKWORKS, of("containers" + ending))
    assert not may_have(HQ, of("customers/duckworks" + ending))
    assert may_originate(of("registry" + ending), "hq", "hq")
    assert not may_originate(of("registry" + ending), "ship", "ship-a")


def test_the_signature_of_an_alert_crosses_the_satellite_and_that_of_a_position_waits() -> None:
    streams = ("alerts.heads", "ships", "ships.heads", "containers.heads", "digests", "digests.heads", "aboard/9321483.heads")
    carried = ["alerts.heads", "ships", "digests", "digests.heads", "aboard/9321483.heads"]
    assert [stream for stream in streams if SATELLITE.carries(stream)] == carried
    assert LAN.carries("ships.heads")
    assert not carries(("*", "!ships.heads"), "ships.heads")
