"""Goal: each customer's node is told of its own stream and of headquarters' keys, whatever the order, and nothing of anyone else."""

from __future__ import annotations

import json
import random
from typing import Any

from cargo.vocabulary.registry_entries import Entry, NodeKeys, Stream, entry_body
from shore.customer_terms import CustomersDesk
from streams.config.roles import Peer

KEY = "ed25519:" + "A" * 43
DUCKS, COGS = Peer("duck-site", "customer", "duckworks"), Peer("cog-site", "customer", "cogs")
ENTRIES = [
    Entry("stream", "customers/*", 1, 10, "olga", Stream(retention={"age_days": 30})),
    Entry("stream", "customers/*", 2, 20, "olga", Stream(retention={"age_days": 40}, replicate=("customer/{}", "port/JPTYO"))),
    Entry("stream", "customers/cogs", 3, 30, "olga", Stream(lane="events")),
    Entry("stream", "customers/duckworks", 1, 40, "olga", Stream(replicate=("node/cog-site", "node/duck-site", "hq"), home="hq")),
    Entry("stream", "secrets", 9, 50, "olga", Stream(lane="events")),
    Entry("node", "hq", 2, 60, "olga", NodeKeys((KEY,))),
    Entry("node", "hq", 1, 60, "olga", NodeKeys(("ed25519:" + "B" * 43,))),
    Entry("node", "ship-a", 1, 60, "olga", NodeKeys((KEY,))),
]


def told(entries: list[Entry], *nodes: Peer) -> dict[str, Any]:
    desk = CustomersDesk(nodes or (DUCKS, COGS), ["hq"])
    for entry in entries:
        desk.take(entry)
    as_told: dict[str, Any] = json.loads(
        json.dumps({customer: [entry_body(one) for one in own] for customer, own in desk.entries_by_customer().items()})
    )
    return as_told


def test_a_customer_hears_of_its_stream_and_of_headquarters_key_alone() -> None:
    mine = told(ENTRIES)["duckworks"]
    assert [(one["type"], one["id"], one["by"]) for one in mine] == [
        ("stream", "customers/duckworks", "headquarters"),
        ("node", "hq", "headquarters"),
    ]
    assert mine[0]["value"] == {
        "retention": {"age_days": 40, "bytes": None},
        "replicate": ["node/duck-site"],
        "lane": "readings",
        "patience_s": None,
    }
    assert mine[1]["value"] == {"keys": [KEY]}
    text = json.dumps(mine)
    assert [word for word in ("cog", "olga", "secrets", "ship-a", "JPTYO", "claims") if word in text] == []


def test_the_order_of_entries_changes_nothing_and_what_is_set_later_has_a_later_version() -> None:
    shuffled = ENTRIES[:]
    random.Random(3).shuffle(shuffled)
    assert told(shuffled) == told(ENTRIES)
    versions = [told(ENTRIES[:count])["duckworks"][0]["version"] for count in range(len(ENTRIES) + 1)]
    assert versions == [1, 2, 3, 3, 4, 4, 4, 4, 4], "others' changes do not show"


def test_one_whose_stream_is_given_to_it_no_more_is_told_so() -> None:
    given = [*ENTRIES, Entry("stream", "customers/duckworks", 2, 70, "olga", Stream(replicate=("node/cog-site", "hq")))]
    assert told(given)["duckworks"][0]["value"]["replicate"] == ["hq"]


def test_what_does_not_read_changes_nothing_and_who_has_no_node_is_told_nothing() -> None:
    broken = Entry("stream", "customers/duckworks", 5, 80, "olga", Stream(lane="express"))
    assert told([*ENTRIES, broken], DUCKS) == told(ENTRIES, DUCKS)
    assert told(ENTRIES, DUCKS).keys() == {"duckworks"}
