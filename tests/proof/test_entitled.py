"""Goal: a block is taken only when every record of it is its origin's to say, as those here know it; and the first that is not is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from streams.block import Block
from streams.policy import Peer
from streams.proof.entitled import Entitled
from streams.records import Record, to_batch
from streams.words import Origin
from tests.proof.kit import CODEC
from tests.streams.logkit import stamped

ASKED = list[tuple[str, Mapping[str, Any], str, str]]


def block(*bodies: object, stream: str = "alerts", node: str = "ship-a") -> Block:
    """Records of one topic each; what is no object is the text that stands there."""
    given = [Record(f"t{at}", body=body if isinstance(body, dict) else None) for at, body in enumerate(bodies)]
    rows = stamped(to_batch(given))
    texts = [body if isinstance(body, str) else None for body in bodies]
    if any(texts):
        at = rows.schema.get_field_index("body")
        column = pa.array([text or old for text, old in zip(texts, rows.column(at).to_pylist(), strict=True)], pa.string())
        rows = rows.set_column(at, rows.schema.field(at), column)
    return CODEC.encode(stream, Origin(node, 1), rows)


def entitled(asked: ASKED) -> Entitled:
    """Knows one ship, and lets nobody say what is `bad`."""

    def judge(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
        asked.append((topic, body, role, identity))
        return "it is bad" if body.get("bad") else None

    return Entitled({"ship-a": Peer("ship-a", "ship", "9321483"), "tokyo": Peer("tokyo", "port")}, {"alerts": judge})


def test_each_record_is_judged_by_who_its_origin_is() -> None:
    asked: ASKED = []
    assert entitled(asked).problem(block({"n": 1}, {"n": 2}), CODEC) is None
    assert asked == [("t0", {"n": 1}, "ship", "9321483"), ("t1", {"n": 2}, "ship", "9321483")]


@pytest.mark.parametrize("stream", ["alerts", "alerts.kept"])
def test_one_record_that_is_not_its_own_has_the_block_refused_for_good(stream: str) -> None:
    problem = entitled([]).problem(block({"n": 1}, {"n": 2}, {"bad": True}, stream=stream), CODEC)
    assert problem is not None
    assert problem.forged
    assert f"{stream}:ship-a@1 0 to 2 is not for ship 'ship-a' (9321483) to write: it is bad" in str(problem)
    nameless = entitled([]).problem(block({"bad": True}, node="tokyo"), CODEC)
    assert "port 'tokyo' (no identity is known here)" in str(nameless)


@pytest.mark.parametrize(
    "text", ["", "[1]", "7", "no json", '{"bad": ', "null", "[" * 20_000 + "]" * 20_000, '{"a":' * 5_000 + "1" + "}" * 5_000]
)
def test_what_is_no_object_is_judged_as_empty(text: str) -> None:
    asked: ASKED = []
    assert entitled(asked).problem(block(text or None), CODEC) is None
    assert [body for _, body, _, _ in asked] == [{}]


def test_what_nobody_known_here_wrote_is_not_taken_where_it_is_judged() -> None:
    problem = entitled([]).problem(block({"n": 1}, node="stranger"), CODEC)
    assert problem is not None
    assert problem.forged
    assert "nobody here knows what 'stranger' is" in str(problem)
    assert entitled([]).problem(block({"bad": True}, stream="events", node="stranger"), CODEC) is None


def test_what_is_of_an_encoding_not_known_here_may_be_brought_again() -> None:
    problem = entitled([]).problem(replace(block({"n": 1}), codec=99), CODEC)
    assert problem is not None
    assert not problem.forged
    assert "encoding 99" in str(problem)
