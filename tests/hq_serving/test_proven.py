"""Goal: whoever looks at a container's timeline is told which records nobody has signed yet, and since when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from streams.codec import BlockCodec
from streams.config.companion_streams import HEADS
from streams.integrity.signer import Signer
from streams.integrity.signing_keys import SigningKey
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, Fleet, booking, customer

BOX = DUCKS[0]


def sign(fleet: Fleet, node: str) -> None:
    """What a node's task does once a minute; headquarters gets the ship's statements."""
    log = fleet.logs[node]
    key = SigningKey.from_seed(node.encode().ljust(32))
    log.append(Signer(log, BlockCodec(), key, fleet.clock, lambda *told, **details: None).due())
    for stream in (stream for stream in log.streams() if stream.endswith(HEADS) and node != "hq"):
        fleet.logs["hq"].admit(list(log.blocks(stream, log.origin, 0, 1_000)))


def told(client: httpx.Client, username: str) -> list[tuple[Any, Any]]:
    answer = client.get(f"/api/containers/{BOX}/timeline", headers=log_in(client, username))
    items = [one for one in answer.json()["items"] if one["kind"] == "reading"]
    assert {one["taken_in_by"] for one in items} == {"ship-one" if username == "mira" else "hq"}
    return [(one["proven"], one["signed_at_ms"]) for one in items]


def test_a_timeline_tells_what_is_not_proven_yet(fleet: Fleet, tmp_path: Path) -> None:
    """For staff by the ship's own signatures; for a customer, who has a copy of its own, by headquarters'."""
    fleet.register(
        ("customer", "ducks", customer("Duckworks", (240, 200, 40))),
        ("booking", "BK-1", booking("BK-1", "ducks", [(BOX, NOW_MS - 48 * HOUR_MS, None)])),
    )
    first = fleet.readings("ship-one", [BOX], count=1, at_ms=NOW_MS - HOUR_MS)
    fleet.share("ducks", "ship-one", first)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        assert told(client, "mira") == told(client, "donald") == [(False, None)], "nothing is signed at all"
        sign(fleet, "ship-one")
        assert (told(client, "mira"), told(client, "donald")) == ([(True, None)], [(False, None)])
        sign(fleet, "hq")
        assert told(client, "donald") == [(True, None)]
        later = fleet.readings("ship-one", [BOX], count=2, at_ms=NOW_MS - HOUR_MS // 2)
        fleet.share("ducks", "ship-one", later)
        project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
        assert told(client, "mira") == told(client, "donald") == [(True, None), (False, NOW_MS), (False, NOW_MS)]
        sign(fleet, "ship-one")
        assert (told(client, "mira"), told(client, "donald")[1:]) == ([(True, None)] * 3, [(False, NOW_MS)] * 2)
