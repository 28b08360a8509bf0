"""What travels in the story: groups of boxes that go the same way, and the bookings they are cut into."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.arrays import Floats, Ints
from sim.companies import CHILLED_GOODS, DRY_GOODS, DUCKS, DUCKWORKS, MEDICINES, CargoWords, Companies, Company, Goods
from sim.stateless_random import Chance

REEFER_SHARE = 0.2
BOOKING_BOXES_MAX = 48


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a consignment: on which voyage (index), loaded at which call and taken off at which (numbers from 1)."""

    voyage: int
    loads: int
    discharges: int


@dataclass(frozen=True, slots=True)
class Consignment:
    """Boxes that go the same way. `share`: of the whole fleet; `boxes_min`: so many at least, however small the fleet."""

    name: str
    shippers: tuple[Company, ...]
    consignees: tuple[Company, ...]
    source: str
    target: str
    legs: tuple[Passage, ...]
    share: float
    boxes_min: int = 2
    dry: tuple[Goods, ...] = DRY_GOODS
    chilled: tuple[Goods, ...] = CHILLED_GOODS
    """Empty: no reefers in it."""
    carrier: str = "BB"
    """Beginning of the numbers of its bookings."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """One booking: boxes of one consignment (`consignment`: its index) with the same goods, which its papers name `cargo`."""

    reference: str
    consignment: int
    shipper: Company
    consignee: Company
    goods: Goods
    cargo: str
    source: str
    target: str


TOKYO_SINGAPORE, TOKYO_SYDNEY, SINGAPORE_SYDNEY = Passage(0, 1, 2), Passage(0, 1, 3), Passage(0, 2, 3)
SYDNEY_SINGAPORE, SYDNEY_LONDON, SINGAPORE_LONDON = Passage(1, 1, 2), Passage(1, 1, 3), Passage(1, 2, 3)


def consignments(of: Companies) -> tuple[Consignment, ...]:
    """Return all consignments; the shares add up to 1. The ducks that stay aboard come third: `DUCKS_ABOARD`."""
    duck, tokyo, singapore, sydney, others = (DUCKWORKS,), of.tokyo, of.singapore, of.sydney, of.consignees
    return (
        Consignment("ducks for Singapore's shops", duck, of.duck_shops, "JPTYO", "SGSIN", (TOKYO_SINGAPORE,), 0.02, 3, DUCKS, ()),
        Consignment("ducks for London", duck, others[:1], "JPTYO", "GBLON", (TOKYO_SINGAPORE, SINGAPORE_LONDON), 0.03, 3, DUCKS, ()),
        Consignment("ducks for Sydney", duck, others[1:3], "JPTYO", "AUSYD", (TOKYO_SYDNEY,), 0.06, 11, DUCKS, ()),
        Consignment("Tokyo to Singapore", tokyo, others, "JPTYO", "SGSIN", (TOKYO_SINGAPORE,), 0.08),
        Consignment("Tokyo to Sydney", tokyo, others, "JPTYO", "AUSYD", (TOKYO_SYDNEY,), 0.30),
        Consignment("Tokyo to London", tokyo, others, "JPTYO", "GBLON", (TOKYO_SINGAPORE, SINGAPORE_LONDON), 0.03),
        Consignment("medicines to Sydney", singapore[:1], others, "SGSIN", "AUSYD", (SINGAPORE_SYDNEY,), 0.06, 4, chilled=MEDICINES),
        Consignment("Singapore to Sydney", singapore[1:], others, "SGSIN", "AUSYD", (SINGAPORE_SYDNEY,), 0.10),
        Consignment("Sydney to Singapore", sydney, others, "AUSYD", "SGSIN", (SYDNEY_SINGAPORE,), 0.07),
        Consignment("Sydney to London", sydney, others, "AUSYD", "GBLON", (SYDNEY_LONDON,), 0.15),
        Consignment("Singapore to London", singapore, others, "SGSIN", "GBLON", (SINGAPORE_LONDON,), 0.10),
    )


DUCKS_ABOARD = 2
"""The index of the consignment whose boxes stand at the stern."""


def counts(groups: tuple[Consignment, ...], boxes: int) -> tuple[Ints, Ints]:
    """Return the boxes and reefers of each consignment: `boxes` altogether, a fifth of them reefers, every consignment's least number
    kept."""
    least = np.array([group.boxes_min for group in groups])
    number = least + _apportioned(np.array([group.share for group in groups]), boxes - int(least.sum()))
    chilled = np.where([bool(group.chilled) for group in groups], number, 0)
    return number, _apportioned(chilled.astype(np.float64), round(boxes * REEFER_SHARE))


def _apportioned(weights: Floats, total: int) -> Ints:
    """Return `total` split by weight into whole numbers, the largest remainders rounded up."""
    exact = weights / weights.sum() * total
    whole: Ints = np.floor(exact).astype(np.int64)
    largest = np.argsort(-(exact - whole), kind="stable")[: total - int(whole.sum())]
    whole[largest] += 1
    return whole


def bookings(groups: tuple[Consignment, ...], boxes: int, chance: Chance) -> tuple[list[Shipment], Ints]:
    """Return all bookings, and for each box, in the order of the consignments, the index of its booking."""
    number, reefers = counts(groups, boxes)
    made: list[Shipment] = []
    of_box: list[int] = []
    words = CargoWords(chance.seed)
    for index, group in enumerate(groups):
        for goods, count in ((group.chilled, int(reefers[index])), (group.dry, int(number[index] - reefers[index]))):
            most = min(BOOKING_BOXES_MAX, -(-count // min(3, len(group.consignees))))
            while count > 0:
                size = min(count, most - int(chance.uniform("booking size", np.array([len(made)]))[0] * most * 0.6))
                of_box.extend([len(made)] * size)
                made.append(_booking(len(made), index, group, goods, chance, words))
                count -= size
    return made, np.array(of_box)


def _booking(number: int, index: int, group: Consignment, goods: tuple[Goods, ...], chance: Chance, words: CargoWords) -> Shipment:
    key = np.array([number])

    def pick(channel: str, count: int) -> int:
        return int(chance.uniform(channel, key)[0] * count)

    chosen = goods[pick("goods", len(goods))]
    return Shipment(
        reference=f"{group.carrier}{7_310_000 + number * 37}",
        consignment=index,
        shipper=group.shippers[pick("shipper", len(group.shippers))],
        consignee=group.consignees[number % len(group.consignees)],
        goods=chosen,
        cargo=words.of(number, chosen),
        source=group.source,
        target=group.target,
    )
