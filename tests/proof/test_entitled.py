"""Goal: of a block only the records that are its origin's to say count, as those here know it; and the first that is not is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from landfall.storage.peers_file import PEERS, KnownPeers, keep_peers
from streams.config.roles import Peer
from streams.integrity.record_authorization import Entitled
from streams.model.block import Block
from streams.model.errors import Corrupt, RetryLater
from streams.model.identifiers import Origin
from streams.model.records import Batch, Record, to_batch
from tests.proof.kit import CODEC
from tests.streams.logkit import stamped
from tests.support.refusals import refusal

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

    return Entitled({"ship-a": Peer("ship-a", "ship", "9321483"), "tokyo": Peer("tokyo", "port")}.get, {"alerts": judge})


def own(one: Entitled, block: Block) -> list[str]:
    """The topics of the block's records that count."""
    return [row.record.topic for row in one.own(Batch(block.stream, block.origin, CODEC.decode(block))).rows()]


def test_each_record_is_judged_by_who_its_origin_is() -> None:
    asked: ASKED = []
    assert entitled(asked).foreign(block({"n": 1}, {"n": 2}), CODEC) is None
    assert asked == [("t0", {"n": 1}, "ship", "9321483"), ("t1", {"n": 2}, "ship", "9321483")]


@pytest.mark.parametrize("stream", ["alerts", "alerts.kept"])
def test_one_foreign_record_costs_itself_alone_and_is_named(stream: str) -> None:
    judged, written = entitled([]), block({"n": 1}, {"n": 2}, {"bad": True}, {"n": 4}, stream=stream)
    assert judged.problem(written) is None, "a copy keeps it whole"
    told = str(judged.foreign(written, CODEC))
    assert told.startswith(f"{stream}:ship-a@1 2 ")
    assert told.endswith(": it is bad")
    assert own(judged, written) == ["t0", "t1", "t3"]
    nameless = judged.foreign(block({"bad": True}, node="tokyo"), CODEC)
    assert "'tokyo'" in str(nameless)


@pytest.mark.parametrize(
    "text", ["", "[1]", "7", "no json", '{"bad": ', "null", "[" * 20_000 + "]" * 20_000, '{"a":' * 5_000 + "1" + "}" * 5_000]
)
def test_what_is_no_object_is_judged_as_empty(text: str) -> None:
    asked: ASKED = []
    assert entitled(asked).foreign(block(text or None), CODEC) is None
    assert [body for _, body, _, _ in asked] == [{}]


def test_what_nobody_known_here_wrote_is_not_taken_where_it_is_judged() -> None:
    problem = entitled([]).problem(block({"n": 1}, node="stranger"))
    assert problem is not None
    assert problem.forged
    assert "'stranger'" in str(problem)
    assert entitled([]).problem(block({"bad": True}, stream="events", node="stranger")) is None


def test_what_was_taken_of_a_node_that_is_not_known_any_more_counts() -> None:
    assert own(entitled([]), block({"bad": True}, node="scrapped")) == ["t0"]


def test_an_encoding_not_known_here_is_kept_unjudged() -> None:
    assert entitled([]).foreign(replace(block({"bad": True}), codec=99), CODEC) is None


def test_processes_beside_a_node_know_whom_it_knows_and_ever_knew(tmp_path: Path) -> None:
    known, tokyo = KnownPeers(tmp_path), Peer("tokyo", "port", "JPTYO")
    assert known.peer("tokyo") is None, "there is no file yet"
    keep_peers(tmp_path, {"tokyo": tokyo})
    assert known.peer("tokyo") == tokyo
    keep_peers(tmp_path, {"sydney": Peer("sydney", "port", "AUSYD")})
    assert (known.peer("tokyo"), known.peer("sydney")) == (tokyo, Peer("sydney", "port", "AUSYD"))
    for damaged in ("no json", "[]", '{"tokyo": {"node": "tokyo", "role": "pirate"}}'):
        (tmp_path / PEERS).write_text(damaged)
        with refusal(Corrupt, "peers_corrupt"):
            known.peer("tokyo")
    keep_peers(tmp_path, {"tokyo": tokyo})
    assert (known.peer("tokyo"), known.peer("sydney")) == (tokyo, None)


def test_while_the_disk_does_not_give_who_the_peers_are_it_is_asked_again(tmp_path: Path) -> None:
    """Too many open files ended a ship's watch, and the node with it."""
    known, tokyo = KnownPeers(tmp_path), Peer("tokyo", "port", "JPTYO")
    (tmp_path / PEERS).mkdir()
    with pytest.raises(RetryLater):
        known.peer("tokyo")
    (tmp_path / PEERS).rmdir()
    keep_peers(tmp_path, {"tokyo": tokyo})
    assert known.peer("tokyo") == tokyo
