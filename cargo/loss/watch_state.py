"""Everything a watch remembers, as one value that can be written down and taken up again, and the indexes made from it."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappush
from itertools import chain
from operator import itemgetter

import msgspec

from cargo.errors import CargoError
from cargo.loss.accounted_boxes import DRY_INTERVAL_MS, QUAY_INTERVAL_MS, REEFER_INTERVAL_MS
from cargo.loss.container_state import Box, Gateway
from cargo.loss.event_time import EventClock
from cargo.loss.gateway_census import Census, CensusBox, Count
from cargo.loss.loss_classifier import GONE_STATES, INTERVALS_MISSING, SHOCK_G, WEIGHTS, Weights
from cargo.loss.reading_rows import Heard
from cargo.loss.report_interval import GRACE_MS_MIN, INTERVAL_MS_MAX, INTERVAL_MS_MIN, grace_ms
from cargo.loss.voyage import ShipVoyage
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.rules.climate_limits import Climate
from cargo.rules.episodes import Limits
from cargo.vocabulary.registry_entries import BookedContainer, LoadList, Port, Stowed
from cargo.vocabulary.stowage_plan import Stowage

HOUR_MS = 3_600_000
PENDING_MAX = 200_000
BOXES_MAX = 100_000
"""Maximum number of boxes watched: four times what the largest ships carry (DOMAIN 1)."""
RECOUNT_AFTER_MS, OUTAGE_MS_MIN = 60_000, 3 * 60_000
"""Delay of a muster after a change, and minimum absence of a gateway or node that counts as an outage, milliseconds."""


class PendingReadings:
    """Index of the readings that a watch remembers as pending.

    `called`: whether the roll is being called; `settled_at_ms`: up to when (UTC ms) readings have been processed."""

    def __init__(self) -> None:
        self._came: dict[str, list[tuple[int, int]]] = {}
        self._blows: list[tuple[int, str]] = []

    def note_all(self, pending: Iterable[tuple[int, Heard]], settled_at_ms: int, *, called: bool) -> None:
        """Replace the index: these readings, and no others, are pending."""
        self._came.clear()
        self._blows.clear()
        for at_ms, row in pending:
            self.note(at_ms, row, settled_at_ms, called=called)

    def note(self, at_ms: int, row: Heard, settled_at_ms: int, *, called: bool) -> None:
        """Record that this reading has come and is processed at `at_ms`."""
        if float(row.signals.get("shock_g", 0.0)) > SHOCK_G:
            self._blows.append((at_ms, row.topic))
        if called and row.received_at_ms < at_ms:
            came = self._came.setdefault(row.topic, [])
            insort(came, (row.received_at_ms, at_ms))
            del came[: max(0, bisect_right(came, settled_at_ms, key=itemgetter(0)) - 1)]

    def came_at_ms(self, number: str, at_ms: int) -> int:
        """Return when the last message of this box came, up to `at_ms`, that may still be pending (UTC ms); 0: none, or no box is called.

        Under a roll call, a box has answered once its message has come, although a clock that is ahead delays its turn."""
        return max((came_ms for came_ms, _ in self._came.get(number, ()) if came_ms <= at_ms), default=0)

    def waits(self, number: str, at_ms: int) -> bool:
        """Return whether a message of this box that came by `at_ms` is processed later."""
        return any(came_ms <= at_ms < turn_ms for came_ms, turn_ms in self._came.get(number, ()))

    def blows(self, settled_at_ms: int) -> list[str]:
        """Return the topics of the readings with a blow that have not been processed yet: one topic for each reading."""
        self._blows = [blow for blow in self._blows if blow[0] > settled_at_ms]
        return [topic for _, topic in self._blows]

    def next_blow_at_ms(self, settled_at_ms: int) -> int | None:
        """Return when the first of these readings is processed (UTC ms); None: there is none."""
        return min((at_ms for at_ms, _ in self._blows if at_ms > settled_at_ms), default=None)


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Settings of a watch: its place, and its time limits. Exactly one of `ship` (IMO number) and `port` (UN/LOCODE) of the place is given.

    `lateness_ms`: readings out of order by up to this time change nothing in the outcome, and every decision is made this much later.
    `historical_ms`: readings later than this are recorded and raise no alarm. `deaf_ms`: a node that received nothing for this time was
    deaf itself, and no box counts as silent for it. Devices use the intervals until their habit is known."""

    place: WatchPlace
    lateness_ms: int = 10_000
    historical_ms: int = 30 * 60_000
    deaf_ms: int = 2 * HOUR_MS
    reefer_interval_ms: int = REEFER_INTERVAL_MS
    dry_interval_ms: int = DRY_INTERVAL_MS
    quay_interval_ms: int = QUAY_INTERVAL_MS
    muster_every_ms: int = 6 * HOUR_MS
    limits: Limits = field(default_factory=Limits)
    weights: Weights = WEIGHTS

    def __post_init__(self) -> None:
        if (self.place.ship is None) == (self.place.port is None):
            raise CargoError("a watch stands on one ship or on one quay: give its place a ship or a port", code="place_missing")


class Incident(msgspec.Struct):
    """One cluster of losses: its first and last time, the end of its window of loss (UTC ms), its bays, and each container with the time
    it was lost. `rolled`: the largest roll (degrees) shortly before one of them, and when it was."""

    id: str
    first_at_ms: int
    last_at_ms: int
    until_at_ms: int
    bays: list[int]
    lost: dict[str, int]
    found: list[str] = []
    raised: bool = False
    rolled: tuple[float, int] = (0.0, 0)


class BookingTerms(msgspec.Struct, frozen=True):
    """Terms of a booking: the setpoint (°C, None: none), and its own limits."""

    setpoint_c: float | None = None
    limits: Climate | None = None


class WatchMemory(msgspec.Struct):
    """Contents of a snapshot.

    `settled_at_ms`: up to when all is decided; `spoke_at_ms`: the last reading processed; `deaf_until_ms`: when the node received readings
    again after being deaf; `down`: the last spans in which no node listened (by the node's clock, `cargo.loss.watch`); `call_until_ms`:
    until when a box is called (`cargo.loss.roll_call`).

    `listed`: the load list in force; `call`: the list of the port the ship lies in; `told`: the time of the last change of each alert that
    was reported since `told_from_ms` (`cargo.alerts.alert_timestamps`); `generations`: the newest known generation of each node that
    receives readings."""

    clock: EventClock
    voyage: ShipVoyage
    settled_at_ms: int = 0
    spoke_at_ms: int = 0
    deaf_until_ms: int = 0
    call_until_ms: int = 0
    muster_at_ms: int = 0
    recount_at_ms: int = 0
    listed: str = ""
    call: str = ""
    boxes: dict[str, Box] = {}
    gateways: dict[str, Gateway] = {}
    lists: dict[str, LoadList] = {}
    ports: dict[str, Port] = {}
    bookings: dict[str, tuple[BookedContainer, ...]] = {}
    terms: dict[str, BookingTerms] = {}
    size_types: dict[str, Climate] = {}
    incidents: dict[str, Incident] = {}
    pending: list[tuple[int, Heard]] = []
    told: dict[str, int] = {}
    told_from_ms: int = 0
    down: list[tuple[int, int]] = []
    generations: dict[str, int] = {}


class WatchState:
    """State of a watch between two steps: its settings, its memory, and the indexes of the memory (stowage, timers, boxes of each gateway).

    `cargo.loss.watch` changes it in place; it is not safe for several threads."""

    def __init__(self, settings: WatchSettings, memory: WatchMemory | None = None) -> None:
        self.settings = settings
        self.memory = memory or WatchMemory(EventClock(), ShipVoyage())
        self.stowage = Stowage()
        self.timers: list[tuple[int, str]] = []
        self.on_gateway: dict[str, dict[str, Box]] = {}
        self.outcome = WatchOutcome()
        self.waiting = PendingReadings()
        self.off_track: dict[str, None] = {}
        self._censuses: dict[str, Census] = {}
        ashore = settings.place.port is not None
        self._reefer_ms = settings.quay_interval_ms if ashore else settings.reefer_interval_ms
        self._usual_ms = settings.quay_interval_ms if ashore else settings.dry_interval_ms
        self._reefers: frozenset[str] = frozenset()
        self._loads: dict[str, frozenset[str]] = {}
        self._discharges: dict[str, frozenset[str]] = {}
        self._listed: frozenset[str] = frozenset()
        self._booked: dict[str, dict[str, list[BookedContainer]]] = {}
        self._limits: dict[tuple[str, str], Limits] = {}
        self._size_type_of: dict[str, str] = {}
        self.restow()
        for id_, boxes in self.memory.bookings.items():
            self._index(id_, boxes)
        for number in sorted(self.memory.boxes):
            box = self.memory.boxes[number]
            self.on_gateway.setdefault(box.gateway, {})[number] = box
            if box.due_at_ms:
                heappush(self.timers, (box.due_at_ms, number))
            if box.off_at_ms:
                self.off_track[number] = None
        self.note_all_waiting()

    def restow(self) -> None:
        """Build the stowage again: the list in force, and in port the call's list on top of it."""
        aboard: dict[str, Stowed] = {}
        self._loads = {id_: frozenset(listed.load) for id_, listed in self.memory.lists.items()}
        self._discharges = {id_: frozenset(listed.discharge) for id_, listed in self.memory.lists.items()}
        aboard_of_all = (box.container for listed in self.memory.lists.values() for box in listed.aboard)
        self._listed = frozenset({*chain(aboard_of_all, *self._loads.values(), *self._discharges.values())})  # as a copy half as large
        for id_ in (self.memory.listed, self.memory.call):
            if id_ in self.memory.lists:
                aboard.update({box.container: box for box in self.memory.lists[id_].aboard})
        self.stowage = Stowage(aboard.values())
        self.all_changed()
        self._size_type_of = {}
        if self.memory.size_types:
            everybody = (box for listed in self.memory.lists.values() for box in listed.aboard)
            self._size_type_of = {box.container: box.size_type for box in everybody if box.size_type in self.memory.size_types}
        self._reefers = frozenset({number for number, box in aboard.items() if box.is_reefer})

    def book(self, id_: str, boxes: tuple[BookedContainer, ...], terms: BookingTerms | None = None) -> None:
        """Set the boxes, spans and terms of the booking."""
        self.memory.terms.pop(id_, None)
        self._limits.clear()
        if terms is not None and terms != BookingTerms():
            self.memory.terms[id_] = terms
        for box in self.memory.bookings.get(id_, ()):
            self._booked[box.container].pop(id_, None)
        self.memory.bookings[id_] = boxes
        self._index(id_, boxes)

    def set_size_type(self, code: str, limits: Climate) -> None:
        """Set the limits of all boxes of this size and type (ISO 6346), unless their booking has limits of its own."""
        self.memory.size_types[code] = limits
        self._limits.clear()
        self.restow()

    def strangers(self, numbers: set[str]) -> set[str]:
        """Return those of `numbers` that no load list and no booking ever named here; none as long as no container is known."""
        if not self._listed and not self._booked:
            return set()
        return numbers.difference(self._listed, self._booked)

    def has_room(self, number: str) -> bool:
        """Return whether a reading of this container is judged.

        At most BOXES_MAX numbers that no load list and no booking names are watched, so that made-up numbers take no more memory."""
        return number in self.memory.boxes or len(self.memory.boxes) < BOXES_MAX or number in self._listed or number in self._booked

    def laden(self, number: str, at_ms: int) -> bool:
        """Return whether a booking covers the box at `at_ms`; True when no booking of it was ever known."""
        booked = self._booked.get(number)
        return not booked or any(span.covers(at_ms) for spans in booked.values() for span in spans)

    def terms_of(self, number: str, at_ms: int) -> tuple[float | None, Limits]:
        """Return the setpoint of the box at `at_ms` (°C; None: not known), and its limits.

        The setpoint is that of its booking, else of the bay plan. Each limit is that of its booking, else of its size and type, else the
        general one."""
        size_type = self._size_type_of.get(number, "") if self._size_type_of else ""
        for id_, spans in sorted(self._booked.get(number, {}).items()) if self.memory.terms else ():
            terms = self.memory.terms.get(id_)
            if terms is not None and any(span.covers(at_ms) for span in spans):
                return terms.setpoint_c, self._limits_of(id_, size_type)
        stowed = self.stowage.boxes.get(number)
        planned = None if stowed is None or stowed.setpoint_c is msgspec.UNSET else stowed.setpoint_c
        return planned, self._limits_of("", size_type) if size_type else self.settings.limits

    def _limits_of(self, booking: str, size_type: str) -> Limits:
        """Return the limits of a box of this booking and size and type (either may be empty). They are made once."""
        known = self._limits.get((booking, size_type))
        if known is None:
            asked = self.memory.size_types.get(size_type)
            known = self.settings.limits.asked(asked) if asked else self.settings.limits
            terms = self.memory.terms.get(booking)
            known = known.asked(terms.limits) if terms and terms.limits else known
            self._limits[booking, size_type] = known
        return known

    def current_list(self) -> LoadList | None:
        """Return the load list of the call the ship is at, else of the last one."""
        return self.memory.lists.get(self.memory.call or self.memory.listed)

    def list_here(self) -> LoadList | None:
        """Return the list that identifies what comes aboard now: at sea the one in force, in port one of that port; None if none is
        known."""
        listed, berth = self.current_list(), self.memory.voyage.berth
        return listed if listed is not None and berth in ("", listed.port) else None

    def loads(self, number: str) -> bool:
        """Return whether the current list loads this box."""
        return number in self._loads.get(self.memory.call or self.memory.listed, ())

    def discharges(self, number: str) -> bool:
        """Return whether the current list takes this box ashore."""
        return number in self._discharges.get(self.memory.call or self.memory.listed, ())

    def named(self, list_id: str, *, off: bool) -> frozenset[str]:
        """Return the boxes that this list takes ashore (`off`), or aboard."""
        return (self._discharges if off else self._loads).get(list_id, frozenset())

    def is_reefer(self, number: str) -> bool:
        """Return whether the box is a refrigerated container by the stowage."""
        return number in self._reefers

    def slot_text(self, number: str) -> str | None:
        """Return the slot of the box as `BBBRRTT`, or None."""
        stowed = self.stowage.boxes.get(number)
        return None if stowed is None else stowed.slot

    def recount(self, at_ms: int) -> None:
        """Note that the counts of the muster changed at `at_ms`, so that it is reported soon; a muster is of now, however late the news."""
        if not self.memory.recount_at_ms:
            self.memory.recount_at_ms = max(at_ms, self.memory.settled_at_ms) + RECOUNT_AFTER_MS

    def box(self, number: str) -> Box:
        """Return the box, a new one when it was not known."""
        box = self.memory.boxes.get(number)
        if box is None:
            box = self.memory.boxes[number] = Box.new(number)
            self.on_gateway.setdefault("", {})[number] = box
            self.changed(box)
        return box

    def put_on(self, box: Box, gateway: str) -> None:
        """Assign the box to the gateway that receives it now."""
        if box.gateway != gateway:
            self.on_gateway[box.gateway].pop(box.number, None)
            self.on_gateway.setdefault(gateway, {})[box.number] = box
            self.changed(box)
            box.gateway = gateway
            self.changed(box)

    def changed(self, box: Box) -> None:
        """Mark a box to be counted again.

        Call this after a change of where it is, whether it is lost, when it was heard or how it was struck."""
        census = self._censuses.get(box.gateway)
        if census is not None:
            census.changed(box.number)

    def all_changed(self) -> None:
        """Mark all boxes to be counted again: many boxes changed, or their slots did."""
        self._censuses.clear()

    def count_like(self, box: Box, at_ms: int, like_ms: float) -> Count:
        """Return the counts of the other boxes of its gateway whose interval is no longer than `like_ms`."""
        census = self._censuses.get(box.gateway)
        if census is None:
            numbers = self.on_gateway.get(box.gateway, ())
            census = self._censuses[box.gateway] = Census(numbers, partial(self._line, box.gateway), self.stowage.near)
        return census.count(box.number, at_ms, like_ms, self._floor_ms(box), storm=self.memory.voyage.storm(at_ms))

    def wake(self, box: Box, at_ms: int) -> None:
        """Schedule the decision on the box at `at_ms`, or now when that is past. Its case is made from what is known now."""
        due_at_ms = max(at_ms, self.memory.settled_at_ms)
        if not box.due_at_ms or due_at_ms < box.due_at_ms:
            heappush(self.timers, (due_at_ms, box.number))
            box.due_at_ms = due_at_ms

    def interval_ms(self, box: Box, at_ms: int) -> int:
        """Return how long this box may be silent now before a reading is missed."""
        nominal_ms = self._reefer_ms if box.number in self._reefers else self._usual_ms
        return box.habit.interval_ms(nominal_ms, storm=self.memory.voyage.storm(at_ms))

    def note_all_waiting(self) -> None:
        """Index the pending readings again, because the index depends on whether the roll is called, and that has changed."""
        self.waiting.note_all(self.memory.pending, self.memory.settled_at_ms, called=self._called)

    def note_waiting(self, at_ms: int, row: Heard) -> None:
        """Record that this reading, which is processed at `at_ms`, has come."""
        self.waiting.note(at_ms, row, self.memory.settled_at_ms, called=self._called)

    @property
    def _called(self) -> bool:
        return self.memory.settled_at_ms < self.memory.call_until_ms

    def were_due(self, gateway: str, since_ms: int, until_ms: int) -> int:
        """Return how many of the gateway's boxes should have spoken in the span, without 30 s at each end.

        The count leaves out the lost, and boxes whose last message reported a blow: these may be lost. Where a storm ended in the span,
        boxes on the storm's minute may have gone back to their hours: that is no outage."""
        boxes, reefers, due = list(self.on_gateway.get(gateway, {}).values()), self._reefers, 0
        earliest, latest = since_ms + GRACE_MS_MIN, until_ms - GRACE_MS_MIN
        storm, stormy_before = self.memory.voyage.storm(until_ms), self.memory.voyage.storm(since_ms)
        calm, sailed_at_ms = not (storm or stormy_before), self.memory.voyage.sailed_at_ms
        soonest_ms = min(self._reefer_ms, self._usual_ms, INTERVAL_MS_MAX)
        if calm:  # as below, of most boxes, in a fraction of the time; where no habit is known yet, none is expected before its usual time
            boxes = [
                box
                for box in boxes
                if earliest < box.heard_at_ms + (calm_ms := box.habit.calm_ms) < latest
                or not (INTERVAL_MS_MIN <= calm_ms <= INTERVAL_MS_MAX or (not calm_ms and box.heard_at_ms + soonest_ms >= latest))
            ]
        for box in boxes:
            heard_at_ms = box.heard_at_ms
            if heard_at_ms + INTERVAL_MS_MIN >= latest:
                continue
            nominal_ms = self._reefer_ms if box.number in reefers else self._usual_ms
            next_at_ms = heard_at_ms + box.habit.interval_ms(nominal_ms, storm=storm)
            if storm != stormy_before:
                next_at_ms = max(next_at_ms, heard_at_ms + box.habit.interval_ms(nominal_ms, storm=stormy_before))
            if earliest < next_at_ms < latest and box.aboard and box.state not in GONE_STATES and not box.struck(sailed_at_ms):
                due += 1
        return due

    def silent_from_ms(self, box: Box) -> int:
        """Return since when the box could have been heard and was not: outages of its gateway and of the node do not count."""
        base_ms, floor_ms = _listened_from_ms(box), self._floor_ms(box)
        return base_ms if base_ms > floor_ms else floor_ms

    def began_in_an_outage(self, box: Box) -> bool:
        """Return whether its silence may have begun while its gateway or the node was out."""
        outages = (until_ms for since_ms, until_ms in self.memory.down if until_ms - since_ms >= OUTAGE_MS_MIN)
        was_due = any(box.listened_from_ms >= until_ms > box.heard_at_ms for until_ms in outages)
        return was_due or self._floor_ms(box) > box.heard_at_ms

    def silent_ms(self, box: Box, at_ms: int) -> int:
        """Return how long the box has been silent although it could have been heard."""
        return at_ms - self.silent_from_ms(box)

    def patience(self, box: Box) -> int:
        """Return how many intervals a box must miss to be missing, from the share of readings that its gateway loses on the air."""
        gateway = self.memory.gateways.get(box.gateway)
        return INTERVALS_MISSING if gateway is None else gateway.patience()

    def missed_at_ms(self, box: Box, at_ms: int, intervals: int) -> int:
        """Return when the box will have missed this number of intervals, if it stays silent."""
        interval = self.interval_ms(box, at_ms)
        return self.silent_from_ms(box) + intervals * interval + grace_ms(interval)

    def _floor_ms(self, box: Box) -> int:
        """Return since when its gateway and the node have received readings without a break."""
        gateway, deaf_until_ms = self.memory.gateways.get(box.gateway), self.memory.deaf_until_ms
        return deaf_until_ms if gateway is None or gateway.back_at_ms < deaf_until_ms else gateway.back_at_ms

    def _line(self, gateway: str, number: str) -> CensusBox | None:
        box = self.memory.boxes.get(number)
        if box is None or box.gateway != gateway:
            return None
        nominal_ms = self._reefer_ms if number in self._reefers else self._usual_ms
        calm, storm = (box.habit.interval_ms(nominal_ms, storm=storm) for storm in (False, True))
        return CensusBox(
            counts=box.aboard and box.state not in GONE_STATES,
            on_deck=bool(self.stowage.on_deck(number)),
            struck=box.struck(self.memory.voyage.sailed_at_ms) and not box.said_more(),
            heard_at_ms=box.heard_at_ms,
            base_ms=_listened_from_ms(box),
            calm_ms=(calm, calm + grace_ms(calm)),
            storm_ms=(storm, storm + grace_ms(storm)),
            lost=box.state in GONE_STATES,
        )

    def _index(self, id_: str, boxes: tuple[BookedContainer, ...]) -> None:
        for box in boxes:
            self._booked.setdefault(box.container, {}).setdefault(id_, []).append(box)


def _listened_from_ms(box: Box) -> int:
    base_ms = box.base_ms()
    return base_ms if base_ms > box.listened_from_ms else box.listened_from_ms
