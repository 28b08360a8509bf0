"""Boxes drawn as a stack of little containers next to their ship or quay: one block stands for so many boxes, coloured by customer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BLOCKS_MAX = 60
ROWS = 5
BLOCK_WIDTH_PX, BLOCK_HEIGHT_PX = 9, 6
BOXES_PER_BLOCK = (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
ABOVE_PX, BELOW_PX = -22, 18


@dataclass(frozen=True, slots=True)
class MapBlock:
    """One block: whose, its colour, and where it stands from its place's mark on the screen (pixels, right and down)."""

    customer: str
    colour: tuple[int, int, int]
    offset_px: tuple[float, float]


def boxes_per_block(places: Sequence[Mapping[str, Any]]) -> int:
    """Return how many boxes one block stands for, the same on the whole map, so that the fullest place has at most BLOCKS_MAX of them."""
    fullest = max((place["boxes"] for place in places), default=0)
    return next((each for each in BOXES_PER_BLOCK if fullest <= each * BLOCKS_MAX), BOXES_PER_BLOCK[-1])


def stack(place: Mapping[str, Any], per_block: int) -> list[MapBlock]:
    """Return the blocks of one place, column by column, customer by customer; each customer has at least one. A ship's stand above its
    mark, a quay's below."""
    blocks = [group for group in place["groups"] for _ in range(math.ceil(group["boxes"] / per_block))]
    columns = math.ceil(len(blocks) / ROWS)
    above = place["place"]["kind"] == "ship"
    drawn = []
    for at, group in enumerate(blocks):
        column, row = divmod(at, ROWS)
        right = (column - (columns - 1) / 2) * BLOCK_WIDTH_PX
        down = ABOVE_PX - row * BLOCK_HEIGHT_PX if above else BELOW_PX + row * BLOCK_HEIGHT_PX
        red, green, blue = group["colour"]
        drawn.append(MapBlock(group["customer"] or "", (red, green, blue), (right, float(down))))
    return drawn


def owner_of(group: Mapping[str, Any]) -> str:
    """Return the owner of a group of boxes, in words: a customer's name, or no booking; just boxes where the viewer may not know."""
    return (group["name"] or "Unbooked") if group["owner_told"] else "Containers"


def explained(places: Sequence[Mapping[str, Any]], counted: str) -> str:
    """Return what a block is, under the legend; `counted`: how many boxes one stands for, in words."""
    owners_shown = all(group["owner_told"] for place in places for group in place["groups"])
    of, whose = (" of one customer", "") if owners_shown else ("", " Your account does not show the owners.")
    return f"One block is up to {counted}{of}: above a ship aboard, below a port on its quay.{whose}"


def legend(places: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the colour of each customer: `customer, name, colour, boxes` over all places, the most boxes first; boxes without one last."""
    owners: dict[str, dict[str, Any]] = {}
    for place in places:
        for group in place["groups"]:
            known = owners.setdefault(
                group["customer"] or "",
                {"customer": group["customer"], "name": owner_of(group), "colour": group["colour"], "boxes": 0},
            )
            known["boxes"] += group["boxes"]
    return sorted(owners.values(), key=lambda one: (one["customer"] is None, -one["boxes"], one["name"]))
