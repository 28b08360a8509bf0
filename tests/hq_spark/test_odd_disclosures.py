"""Goal: whatever form a body's fields have, a customer is told what may be told of it, and no micro-batch ends over it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as some

from hq.analytics.disclosure import disclosed
from hq.analytics.withholding import without_probable
from streams.model.records import read_body
from tests.cargo.test_entitled import ANY_JSON, NAMES

WORDS = some.sampled_from(["lost_container", "FOUND", "CONFIRMED_LOST", "PROBABLE_OVERBOARD", "kinematic"])
BODIES = some.dictionaries(
    some.sampled_from(NAMES), ANY_JSON | WORDS | some.lists(some.dictionaries(some.sampled_from(NAMES), ANY_JSON | WORDS))
)


@given(BODIES, some.sampled_from(["alerts", "events", "containers"]))
def test_what_may_be_told_is_an_object_again(body: Mapping[str, Any], stream: str) -> None:
    told = disclosed(stream, json.dumps(body), 0, 1 << 53)
    assert told is not None
    assert read_body(told).keys() <= {*body, "landfall_kind", "evidence"}


@given(some.lists(BODIES, max_size=3))
def test_what_is_withheld_is_withheld_whatever_the_others_say(bodies: list[Mapping[str, Any]]) -> None:
    probable = {"rule": "lost_container", "status": "PROBABLE_OVERBOARD", "alert_id": "a"}
    texts = [json.dumps(body) for body in (probable, *bodies)]
    rows = pa.table({"stream": ["alerts"] * len(texts), "topic": ["MSKU1234565"] * len(texts), "body": texts})
    left = without_probable("/nowhere", rows, "approved").column("body").to_pylist()
    assert texts[0] not in left or texts[0] in texts[1:]
    assert set(left) <= set(texts)


def test_a_deep_body_is_told_of_as_empty() -> None:
    deep = '{"rule":"lost_container","a":' + "[" * 20_000 + "]" * 20_000 + "}"
    assert json.loads(disclosed("alerts", deep, 0, 1) or "") == {"evidence": [], "landfall_kind": "alert"}
    rows = pa.table({"stream": ["alerts"], "topic": ["MSKU1234565"], "body": [deep]})
    assert without_probable("/nowhere", rows, "approved").num_rows == 1
