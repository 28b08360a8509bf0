"""Goal: a ship is told how the streams are managed that she writes or may have, and which nodes she meets are withdrawn; of no other's."""

from __future__ import annotations

from cargo.vocabulary.registry_entries import Entry, NodeKeys, Stream
from shore.ship_feed import ShipsDesk
from streams.config.roles import Peer
from tests.shore.test_aboard import EVER, OTHER, ship


def entry(name: str, version: int, **fields: object) -> Entry:
    return Entry("stream", name, version, version, "olga", Stream(**fields))  # type: ignore[arg-type]


def told(desk: ShipsDesk, one: Entry) -> set[str]:
    return {imo for imo, _ in desk.take(one)}


def test_she_hears_of_what_she_writes_or_may_have() -> None:
    desk = ShipsDesk()
    list(desk.take(ship(EVER)))
    list(desk.take(ship(OTHER)))
    assert told(desk, entry("containers", 1, retention={"age_days": 30})) == {EVER, OTHER}
    assert told(desk, entry("customers/ducks", 1, retention={"age_days": 30})) == set()
    assert told(desk, entry(f"aboard/{EVER}", 1, patience_s=60)) == {EVER}
    assert told(desk, entry("quays", 1, originate=("port",), replicate=("hq", f"ship/{OTHER}"))) == {OTHER}
    assert told(desk, entry("quays", 2, originate=("port",), replicate=("hq",))) == {OTHER}, "she knows of it, and may not have it any more"
    assert told(desk, entry("quays", 3, originate=("port",), replicate=("hq", "port"))) == {OTHER}


def test_a_ship_met_later_hears_of_what_was_set_before() -> None:
    desk = ShipsDesk()
    list(desk.take(entry("containers", 1, retention={"age_days": 30})))
    assert {(imo, one.topic) for imo, one in desk.take(ship(EVER))} == {(EVER, f"ship/{EVER}"), (EVER, "stream/containers")}


def test_she_hears_that_a_port_or_her_own_second_node_is_withdrawn_and_of_nobody_else() -> None:
    key = "ed25519:" + "A" * 43
    peers = [Peer("tokyo", "port", "JPTYO"), Peer("ever-2", "ship", EVER), Peer("duck-site", "customer", "ducks"), Peer("hq", "hq")]
    desk = ShipsDesk(peers)
    for one in (EVER, OTHER):
        list(desk.take(ship(one)))

    def told_of(node: str, version: int, value: NodeKeys) -> dict[str, object]:
        return {imo: one.value for imo, one in desk.take(Entry("node", node, version, version, "olga", value))}

    assert told_of("tokyo", 1, NodeKeys((key,))) == {}, "that it has a key is none of hers"
    out, back = NodeKeys(withdrawn=True), NodeKeys(withdrawn=False)
    assert told_of("tokyo", 2, NodeKeys((key,), withdrawn=True)) == {EVER: out, OTHER: out}
    assert told_of("tokyo", 3, NodeKeys((key,))) == {EVER: back, OTHER: back}
    assert told_of("tokyo", 4, NodeKeys((key,))) == {}
    assert told_of("ever-2", 1, out) == {EVER: out}
    assert [told_of(node, 1, out) for node in ("duck-site", "hq", "nobody")] == [{}, {}, {}]
    [met] = [one for imo, one in desk.take(ship("9074729")) if one.type == "node"]
    assert (met.id, met.version, met.value) == ("tokyo", 4, back)
