"""Who sends what to whom: the companies of the story, some by name, the others by Faker, each with its colour; and cargo in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from faker import Faker
from faker.providers import BaseProvider

from sim.identity import customer_id

Colour = tuple[int, int, int]
Role = Literal["shipper", "consignee"]
_COLOURS: tuple[Colour, ...] = (
    (148, 103, 189), (23, 190, 207), (255, 127, 14), (188, 143, 103), (127, 199, 127), (214, 97, 107),
    (100, 149, 237), (205, 133, 63), (218, 112, 214), (107, 142, 35), (70, 130, 180), (240, 128, 128),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Company:
    """A customer of the carrier; `colour` is red, green, blue, 0 to 255."""

    id: str
    name: str
    colour: Colour
    role: Role


@dataclass(frozen=True, slots=True)
class Goods:
    """Goods that a booking may hold: dry when `setpoint_c` is None; `un_number` and `imdg_class`, of the IMDG code, when dangerous."""

    name: str
    setpoint_c: float | None = None
    un_number: str | None = None
    imdg_class: str | None = None


DUCKWORKS = Company("duckworks", "Sumida Duck Works", (255, 205, 40), "shipper")
"""The Tokyo maker of toy ducks."""
KANTO = Company("kanto-optics", "Kanto Optics", (64, 145, 255), "shipper")
MERLION = Company("merlion", "Merlion Bioscience", (236, 72, 153), "shipper")
SOUTHERN = Company("southern-cross", "Southern Cross Provisions", (34, 197, 94), "shipper")

DUCKS = (Goods("toy ducks"),)
DRY_GOODS = (
    Goods("camera lenses"), Goods("machine tools"), Goods("car parts"), Goods("bicycles"), Goods("paper"), Goods("furniture"),
    Goods("ceramic tiles"), Goods("stationery"), Goods("garments"), Goods("lithium ion batteries", un_number="3480", imdg_class="9"),
    Goods("paint", un_number="1263", imdg_class="3"), Goods("musical instruments"),
)  # fmt: skip
CHILLED_GOODS = (
    Goods("frozen tuna", -20.0), Goods("scallops", -22.0), Goods("fresh fruit", 2.0), Goods("chocolate", 14.0), Goods("cheese", 4.0),
    Goods("frozen beef", -18.0), Goods("lamb", -1.4), Goods("cut flowers", 3.0),
)  # fmt: skip
MEDICINES = (Goods("vaccines", 5.0), Goods("insulin", 5.0), Goods("blood plasma", -25.0))


PACKINGS = ("on pallets", "in cartons", "in crates", "shrink-wrapped")


class CargoProvider(BaseProvider):
    """Provider of what Faker lacks: goods as a packing list names them."""

    def cargo(self, goods: str) -> str:
        """Return the name of goods: `camera lenses in crates, lot KT-4417`."""
        return f"{goods} {self.random_element(PACKINGS)}, lot {self.bothify('??-####').upper()}"


class CargoWords:
    """The cargo of one seed's bookings in words."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._faker = Faker("en_US")
        self._faker.add_provider(CargoProvider)

    def of(self, booking: int, goods: Goods) -> str:
        """Return how the papers of booking number `booking` name `goods`: the same whatever was asked before."""
        self._faker.seed_instance(f"{self._seed}/{booking}")
        return str(self._faker.cargo(goods.name))


class People:
    """Persons by Faker, of one seed: each the same in whichever order they are asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._faker = Faker("en_US")

    def who(self, post: str) -> str:
        """Return the name of the holder of a post: `master 9999012`, `contact kanto-optics`."""
        self._faker.seed_instance(f"{self._seed}/{post}")
        return f"{self._faker.first_name()} {self._faker.last_name()}"


class Invention:
    """Companies and ships by Faker, of one seed; none twice, and none of those `taken` (customers' ids)."""

    def __init__(self, seed: int, taken: set[str]) -> None:
        self._faker = Faker("en_US")
        self._faker.seed_instance(seed)
        self._taken, self._colours = taken, deque(_COLOURS)

    def customer(self, role: Role, ending: str = "") -> Company:
        """Return a person's firm; with `ending` a family's, so named."""
        while True:
            name = f"{self._faker.last_name()}{ending}" if ending else self._faker.company()
            if (identity := customer_id(name)) not in self._taken:
                self._taken.add(identity)
                colour = self._colours[0]
                self._colours.rotate(-1)
                return Company(identity, name, colour, role)

    def carrier(self) -> str:
        """Return a shipping company's family name, four plain letters at least."""
        return self._another(self._faker.last_name)

    def ship(self, carrier: str) -> str:
        """Return a name for one of the carrier's ships."""
        return f"{carrier} {self._another(self._faker.first_name)}"

    def _another(self, make: Callable[[], str]) -> str:
        while True:
            name = make()
            if len(name) > 3 and name.isalpha() and name.isascii() and name not in self._taken:
                self._taken.add(name)
                return name


@dataclass(frozen=True, slots=True)
class Companies:
    """Every company of one seed, by the part it plays; the lists hold no company twice."""

    tokyo: tuple[Company, ...]
    singapore: tuple[Company, ...]
    sydney: tuple[Company, ...]
    duck_shops: tuple[Company, ...]
    consignees: tuple[Company, ...]

    @property
    def all(self) -> tuple[Company, ...]:
        """All of them, the duck maker first."""
        return DUCKWORKS, *self.tokyo, *self.singapore, *self.sydney, *self.duck_shops, *self.consignees


def companies(seed: int) -> Companies:
    """Return the companies of `seed`: four by name, fifteen by Faker, all ids different."""
    invent = Invention(seed, {customer.id for customer in (DUCKWORKS, KANTO, MERLION, SOUTHERN)}).customer
    return Companies(
        tokyo=(KANTO, invent("shipper"), invent("shipper")),
        singapore=(MERLION, invent("shipper"), invent("shipper")),
        sydney=(SOUTHERN, invent("shipper")),
        duck_shops=tuple(invent("consignee", " Toys") for _ in range(3)),
        consignees=tuple(invent("consignee") for _ in range(7)),
    )
