"""Goal: the sensors of a node speak for its own ship alone, and what one of them says for another costs nobody else anything."""

from __future__ import annotations

import json

import pytest

from intake.decoders.decoder_port import Decoded
from intake.message_types import Outcome, Publish
from intake.pipeline_batches import believed_times, prepare
from intake.topic_routes import Routes, gateway_filters
from landfall.access.principals import Principal, may
from streams.model.clock import StillClock
from tests.intake.stand import AT, payload

OWN, OTHER = b"landfall/ships/9321483/location", b"landfall/ships/9074729/location"
BOX = b"landfall/containers/MSKU1234565/reading"
FIX = json.dumps({"device": "GNSS", "at": AT, "latitude_deg": 1.0, "longitude_deg": 2.0}).encode()


@pytest.mark.parametrize(
    ("ships", "outcomes"),
    [
        (("9321483",), [Outcome.ACCEPTED, Outcome.FOREIGN, Outcome.ACCEPTED]),
        ((), [Outcome.FOREIGN, Outcome.FOREIGN, Outcome.ACCEPTED]),
        (None, [Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.ACCEPTED]),
    ],
    ids=["a ship", "a quay", "anybody"],
)
def test_another_ship_s_topic_is_refused_alone(ships: tuple[str, ...] | None, outcomes: list[Outcome]) -> None:
    messages = [Publish(OWN, FIX), Publish(OTHER, FIX), Publish(BOX, payload())]
    prepared = prepare(messages, Routes(ships=ships), believed_times(StillClock(AT)))
    assert prepared.outcomes == outcomes
    assert {one.number for one in prepared.refused} == {number for number, one in enumerate(outcomes) if one == Outcome.FOREIGN}
    taken = sorted(topic for part in prepared.parts for topic in part.records.column("topic").to_pylist())
    assert len(taken) == outcomes.count(Outcome.ACCEPTED)
    assert "9074729.location" not in taken or ships is None


def test_nor_does_a_decoder_speak_for_another_ship() -> None:
    def decode(payload: bytes) -> Decoded:
        return Decoded([(OTHER, FIX), (OWN, FIX)])

    prepared = prepare([Publish(b"tracker/1", b"x")], Routes([("tracker/+", decode)], ("9321483",)), believed_times(StillClock(AT)))
    [refused] = prepared.refused
    assert "9074729" in refused.reason
    assert [part.records.column("topic").to_pylist() for part in prepared.parts] == [["9321483.location"]]


def test_a_gateway_may_publish_readings_and_of_its_own_ship_unless_it_is_given_more() -> None:
    own = tuple(f"landfall/ships/9321483/{kind}" for kind in ("location", "environment", "noon"))
    assert gateway_filters() == ("landfall/containers/+/reading",)
    assert gateway_filters("9321483") == ("landfall/containers/+/reading", *own)
    gateway = Principal("gateway:bay-1", {"produce": gateway_filters("9321483")})
    for topic in (*own, "landfall/containers/MSKU1234565/reading"):
        assert may(gateway, "produce", topic)
    foreign = ("landfall/ships/9074729/location", "landfall/nodes/a", "landfall/devices/interval", "landfall/containers/A/B/reading")
    assert not any(may(gateway, "produce", topic) for topic in (*foreign, "containers", "*"))
    assert not may(gateway, "consume", own[0])
