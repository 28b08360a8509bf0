"""What goes wrong between a sensor and the watch: repeats, losses, wrong clocks, outages, arrival out of order, each from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec

from cargo.loss.reading_rows import Heard
from tests.support.sea import HOUR_MS, MINUTE_MS, SECOND_MS, number

EARLY_MS_MAX = 5 * MINUTE_MS


def stamped(heard: Heard, device_at_ms: int, received_at_ms: int) -> Heard:
    """The reading as the log stamps it: the device's time orders it unless it is more than 5 min ahead."""
    order = device_at_ms if device_at_ms <= received_at_ms + EARLY_MS_MAX else received_at_ms
    return msgspec.structs.replace(heard, device_at_ms=device_at_ms, order_at_ms=order, received_at_ms=received_at_ms)


def repeated(readings: Iterable[Heard], share: float, seed: int) -> list[Heard]:
    """Some readings come again, up to an hour later."""
    chance = random.Random(seed)
    out = list(readings)
    for heard in list(out):
        if chance.random() < share:
            out.append(msgspec.structs.replace(heard, received_at_ms=heard.received_at_ms + chance.randrange(HOUR_MS)))
    return sorted(out, key=lambda heard: heard.received_at_ms)


def lossy(readings: Iterable[Heard], share: float, seed: int) -> list[Heard]:
    """Some readings of containers never come."""
    chance = random.Random(seed)
    return [heard for heard in readings if "." in heard.topic or chance.random() >= share]


def wrong_clocks(readings: Iterable[Heard], hours_off: float, seed: int) -> list[Heard]:
    """Every tracker's clock is up to 30 s off, and this share of them up to 12 hours."""

    def offset(device: str) -> int:
        chance = random.Random(f"{seed}/{device}")
        far = chance.random() < hours_off
        return chance.randrange(-12 * HOUR_MS, 12 * HOUR_MS) if far else chance.randrange(-30 * SECOND_MS, 30 * SECOND_MS)

    return [
        heard if "." in heard.topic else stamped(heard, (heard.device_at_ms or 0) + offset(heard.device), heard.received_at_ms)
        for heard in readings
    ]


def without(readings: Iterable[Heard], hit: Callable[[Heard], bool], begins_ms: int, ends_ms: int) -> list[Heard]:
    """What `hit` chooses is not heard in that span."""
    return [heard for heard in readings if not (begins_ms <= heard.received_at_ms < ends_ms and hit(heard))]


def held_back(readings: Iterable[Heard], hit: Callable[[Heard], bool], begins_ms: int, ends_ms: int) -> list[Heard]:
    """What `hit` chooses in that span comes in one heap at its end: a gateway that stored and forwarded."""
    out = [
        stamped(heard, heard.device_at_ms or 0, ends_ms) if begins_ms <= heard.received_at_ms < ends_ms and hit(heard) else heard
        for heard in readings
    ]
    return sorted(out, key=lambda heard: heard.received_at_ms)


def jittered(readings: Iterable[Heard], by_ms: int, seed: int) -> list[Heard]:
    """Every reading takes up to `by_ms` to arrive: the order of arrival is disturbed by so much, no more."""
    chance = random.Random(seed)
    arrivals = [(heard.received_at_ms + chance.randrange(by_ms), at, heard) for at, heard in enumerate(readings)]
    return [msgspec.structs.replace(heard, received_at_ms=arrived) for arrived, _, heard in sorted(arrivals, key=lambda found: found[:2])]


def of_gateway(name: str) -> Callable[[Heard], bool]:
    """Chooses what came through this gateway."""
    return lambda heard: heard.signals.get("gateway") == name


def of_boxes(*serials: int) -> Callable[[Heard], bool]:
    """Chooses what these boxes say."""
    numbers = {number(serial) for serial in serials}
    return lambda heard: heard.topic in numbers
