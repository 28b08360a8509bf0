"""Goal: what one peer invents uses up its own share of what this node will hold of new streams and origins, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from streams.config.roles import Role
from streams.model.identifiers import Origin
from streams.replication import exchange
from streams.replication.exchange import NewOriginQuota
from streams.replication.link_terms import Key

ROLES: dict[str, Role] = {"tokyo": "port", "sydney": "port", "ship-a": "ship", "hq": "hq"}
SHIP = Origin("ship-a", 1)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("OWN_MAX", 2), ("BROUGHT_MAX", 3), ("HQ_MAX", 5)):
        monkeypatch.setattr(exchange, name, most)


def shares(*signed: Key) -> NewOriginQuota:
    """Nothing begun yet; these are signed with a key that is known, and their statements are here."""
    made = NewOriginQuota(ROLES, lambda key: 7 if key in signed else None)
    for stream, origin in signed:
        made.signed(f"{stream}.heads", origin)
    return made


def taken(may: Callable[[Key], bool], keys: list[Key]) -> int:
    return sum([may(key) for key in keys])


def names(origin: Origin, count: int = 9) -> list[Key]:
    return [(f"x{number}", origin) for number in range(count)]


def generations(node: str, count: int = 9) -> list[Key]:
    return [("containers", Origin(node, 1 + number)) for number in range(count)]


@pytest.mark.parametrize(
    ("node", "keys", "most"),
    [
        ("tokyo", names(Origin("invented", 1)), 3),
        ("tokyo", generations("invented"), 3),
        ("tokyo", generations("ship-a"), 3),
        ("tokyo", names(Origin("hq", 1)), 3),
        ("tokyo", names(Origin("tokyo", 1)), 2),
        ("tokyo", generations("tokyo"), 2),
        ("hq", generations("ship-a"), 5),
        ("hq", generations("hq"), 5),
    ],
)
def test_new_names_of_streams_nodes_and_generations_are_taken_up_to_a_bound(node: str, keys: list[Key], most: int) -> None:
    share = shares()
    assert taken(partial(share.may_begin, node), keys) == most
    assert taken(partial(share.may_begin, node), keys) == most, "the same ones again"


def test_each_peer_has_its_own_share_and_its_own_writings_another() -> None:
    share = shares()
    for node in ("tokyo", "sydney"):
        assert taken(partial(share.may_begin, node), generations("invented")) == 3
        assert taken(partial(share.may_begin, node), names(Origin(node, 1))) == 2
    assert taken(partial(share.may_begin, "ship-a"), names(SHIP)) == 2, "brought by herself"


def test_what_its_origin_has_signed_is_brought_by_a_relay_whose_share_is_used_up() -> None:
    """And what is never signed, where that generation has signed anything: of these there are four streams."""
    share = shares(("containers", SHIP))
    assert taken(partial(share.may_begin, "tokyo"), generations("invented")) == 3
    for stream in ("containers", "metrics"):
        assert share.may_begin("tokyo", (stream, SHIP))
    for stream, origin in (("events", SHIP), ("x1", SHIP), ("x1.heads", SHIP), ("metrics", Origin("ship-a", 2))):
        assert not share.may_begin("tokyo", (stream, origin)), "nothing shows that she has it"


def test_who_signs_more_than_its_share_is_stopped_whoever_brings_it_and_harms_no_relay() -> None:
    keys = names(SHIP)
    share = shares(*keys)
    assert sum(share.may_begin(("tokyo", "sydney")[number % 2], key) for number, key in enumerate(keys)) == 2
    assert taken(partial(share.may_begin, "tokyo"), generations("invented")) == 3


def test_what_is_signed_later_counts_for_the_relay_no_more() -> None:
    """Rows may be here before their statements."""
    signed = set[Key]()
    share = NewOriginQuota(ROLES, lambda key: 7 if key in signed else None)
    assert taken(partial(share.may_begin, "tokyo"), [("containers", SHIP), ("metrics", SHIP), ("x1", SHIP)]) == 3
    assert not share.may_begin("tokyo", ("events", Origin("invented", 1)))
    signed.add(("containers", SHIP))
    for _ in range(3):
        share.signed("containers.heads", SHIP)
    assert taken(partial(share.may_begin, "tokyo"), generations("invented")) == 2, "x1 alone still counts"
