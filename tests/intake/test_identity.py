"""Goal: the same reading has the same identity however it came, and any difference in what was measured makes another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cargo.vocabulary.reading_identity import IDENTITY_BYTES, core_body
from intake.message_types import Publish
from intake.pipeline_batches import believed_times, prepare
from intake.topic_routes import Routes
from streams.model.clock import StillClock
from streams.model.records import body_text

AT = 1_777_593_600_000
TOPIC = "landfall/containers/MSKU1234565/reading"


def identity(topic: str = TOPIC, now_ms: int = AT, **fields: Any) -> bytes:
    payload = json.dumps({"device": "TRK-1", "at": AT, "return_c": 4.0, "power_on": True} | fields).encode()
    (part,) = prepare([Publish(topic.encode(), payload)], Routes(), believed_times(StillClock(now_ms))).parts
    (one,) = part.identities
    assert len(one) == IDENTITY_BYTES
    return one


@pytest.mark.parametrize(
    "fields",
    [
        {"return_c": 4},
        {"return_c": 4.0, "battery_mv": None},
        {"gateway": "GW-9"},
        {"at": "2026-05-01T00:00:00Z"},
    ],
)
def test_the_same_reading_is_the_same(fields: dict[str, Any]) -> None:
    assert identity(**fields) == identity()


def test_zero_has_no_sign() -> None:
    assert identity(return_c=0.0) == identity(return_c=-0.0)


def test_when_it_arrives_does_not_matter() -> None:
    assert identity(now_ms=AT - 86_400_000) == identity()


@pytest.mark.parametrize(
    "fields",
    [
        {"return_c": 4.1},
        {"power_on": False},
        {"power_on": None},
        {"supply_c": 4.0},
        {"battery_mv": 0},
        {"shock_g": 0.0},
        {"return_c": None, "supply_c": 4.0},
        {"at": AT + 1},
        {"at": "some day"},
        {"device": "TRK-2"},
        {"seal": "SL-1"},
        {"seal": None},
        {"topic": "landfall/containers/MSKU1234570/reading"},
        {"topic": "landfall/ships/9321483/location"},
    ],
)
def test_any_difference_makes_another_reading(fields: dict[str, Any]) -> None:
    assert identity(**fields) != identity()


def test_who_came_with_it_does_not_matter() -> None:
    kinds: list[dict[str, Any]] = [
        {"return_c": 4.0},
        {"power_on": True, "gateway": "GW-1"},
        {"battery_mv": 3600, "seal": "S"},
        {"latitude_deg": 91},
        {"latitude_deg": 91, "return_c": 1, "at": "some day"},
        {},
    ]
    messages = [Publish(TOPIC.encode(), json.dumps({"device": f"T{n}", "at": AT} | fields).encode()) for n, fields in enumerate(kinds * 3)]
    alone = [
        one
        for message in messages
        for part in prepare([message], Routes(), believed_times(StillClock(AT))).parts
        for one in part.identities
    ]
    (together,) = prepare(messages, Routes(), believed_times(StillClock(AT))).parts
    assert together.identities == alone
    assert len(set(alone)) == len(kinds * 3) - 3


def test_flags_of_ours_are_no_part_of_it() -> None:
    assert core_body(body_text({"flags": ["future"]})) is None
    assert core_body(body_text({"flags": ["future"], "seal": "ä"})) == body_text({"seal": "ä"})
    assert core_body(body_text({"seal": "ä"})) == body_text({"seal": "ä"})
