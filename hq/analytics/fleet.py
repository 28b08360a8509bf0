"""The rules that need the whole fleet (cargo.shore_rules.fleet_rules), micro-batch by micro-batch: each finding once, none from late data,
none of a silent link.

Time is what the records say: a box is judged silent, or missing on a quay, by the newest reading of the place that should have heard it. So
nothing is said of a ship that headquarters has not heard from, and a micro-batch tried again finds the same. Of a silence only the time
counts in which that place heard any box: a node that was down for a day has missed a day of all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cargo.alerts.alert_log import Alert
from cargo.loss.event_time import are_old, believed_at_ms, corrected_at_ms
from cargo.loss.reading_rows import is_topic, signs_of_life
from cargo.shore_rules.fleet_rules import (
    MISSING_AT_DISCHARGE_MS,
    SILENT_MS,
    ContainerReport,
    found_after_all,
    heard_after_loss,
    heard_again,
    judge_container,
    missing_at_discharge,
    silent,
)
from cargo.shore_rules.ship_of_box import is_disputed
from cargo.vocabulary.geo import is_position
from cargo.vocabulary.registry_entries import Custody, Entry, LoadList
from cargo.vocabulary.registry_fold import Registry
from hq.delta_tables import HISTORY
from hq.spark_rows import SIGNAL_FIELDS
from streams.model.identifiers import Origin
from streams.model.records import ADMITTED_AT, BODY, DEVICE_AT, ORDER_AT, RECEIVED_AT, TOPIC, Record

BERTH_MS_MAX = 72 * 3_600_000
"""A report from the quay counts for a discharge when it is at most so much older than the ship's departure."""
HEARING_MS = 6 * 3_600_000
"""In such a span of time, counted from the epoch, a place has heard some box or was deaf."""
OF_THE_FALL_MS = 60_000
"""What is heard of a lost box so soon after its loss is of the fall itself, or a message that was under way."""
WATCH_COLUMNS = ("stream", "origin", TOPIC, ORDER_AT, ADMITTED_AT, DEVICE_AT, RECEIVED_AT, BODY, *(f.name for f in SIGNAL_FIELDS))
"""The wide columns that a judgement needs."""
PART_ROWS = 262_144


class Departure(msgspec.Struct, frozen=True):
    """An event of stream `events` with which a ship (IMO number) left a port (UN/LOCODE)."""

    event: str
    event_at_ms: int
    place: str
    ship: str


class Fate(msgspec.Struct, frozen=True):
    """An event of stream `events` with which a ship tells that a box is lost, or is aboard after all."""

    event: Literal["X_PROBABLE_OVERBOARD", "X_LOST_OVERBOARD", "X_FOUND"]
    event_at_ms: int


@dataclass(frozen=True, slots=True)
class Discharge:
    """A box that was to be put ashore at `port` by a ship that sailed at `sailed_at_ms` (UTC ms)."""

    container: str
    port: str
    sailed_at_ms: int

    @property
    def due_at_ms(self) -> int:
        """When the quay must have heard it."""
        return self.sailed_at_ms + MISSING_AT_DISCHARGE_MS


class FleetWatch:
    """Who heard each box last and where it was, when each place was heard last, and which boxes are due ashore. For one thread."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Nothing is known yet. `places`: node name → `ship/<imo>` or `quay/<locode>`; readings from other nodes are not judged."""
        self._places = places
        self._registry = Registry()
        self._heard: dict[str, dict[str, int]] = defaultdict(dict)
        self._fixes: dict[str, ContainerReport] = {}
        self._now: dict[str, int] = {}
        self._hearing: dict[str, set[int]] = defaultdict(set)
        self._due: dict[str, dict[Discharge, bool]] = defaultdict(dict)
        self._silent_since: dict[str, tuple[int, str | None]] = {}
        self._fates: dict[str, dict[str, tuple[int, bool]]] = defaultdict(dict)
        self._doubted: dict[tuple[str, str], tuple[int, int]] = {}

    def remember(self, root: str, before: int, entries: Iterable[Entry]) -> None:
        """Know what the history before micro-batch `before` says, and the registry's `entries` of that time; nothing of it is judged
        again."""
        self._learn(entries)
        history = HISTORY.dataset(root)
        if history is not None:
            wanted = (ds.field("batch") < before) & ds.field("stream").isin(["containers", "events"])
            for part in history.to_batches(columns=list(WATCH_COLUMNS), filter=wanted, batch_size=PART_ROWS):
                self.judge(pa.Table.from_batches([part]), ())

    def judge(self, rows: pa.Table, entries: Iterable[Entry]) -> list[Alert]:
        """What wide `rows` of one micro-batch, with the registry's `entries` in it, bring to light; in order of time, topic and id."""
        self._learn(entries)
        self._advance(rows)
        found: list[Alert] = []
        for container, reports in self._reports(rows).items():
            found += self._judge_box(container, reports)
        self._sailed(rows)
        self._told_lost(rows)
        found += self._silent() + self._missing() + self._heard_since()
        return sorted(found, key=lambda alert: (alert.at_ms, alert.topic, alert.alert_id))

    def disputed(self, containers: Iterable[str]) -> dict[str, int]:
        """Those of `containers` that two ships reported within the hour (`cargo.shore_rules.ship_of_box`), with the order time of the
        newest report, UTC ms."""
        heard = {container: self._heard[container] for container in containers if container in self._heard}
        return {container: max(by_place.values()) for container, by_place in heard.items() if is_disputed(by_place)}

    def _learn(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._registry.learn(entry)

    def _advance(self, rows: pa.Table) -> None:
        """The time at each place: that of its newest reading of a box; and in which spans it heard any."""
        boxes = _boxes_heard(rows)
        spans = boxes.append_column("span", pc.divide(boxes.column(RECEIVED_AT), HEARING_MS))
        for row in spans.group_by(["origin", "span"]).aggregate([(RECEIVED_AT, "max")]).to_pylist():
            if place := self._place(row["origin"]):
                self._now[place] = max(self._now.get(place, 0), row[f"{RECEIVED_AT}_max"])
                self._hearing[place].add(row["span"])

    def _reports(self, rows: pa.Table) -> dict[str, list[ContainerReport]]:
        boxes = _boxes_heard(rows.filter(pa.array(~are_old(rows))))
        reports: dict[str, list[ContainerReport]] = defaultdict(list)
        columns = (boxes.column(name).to_pylist() for name in (TOPIC, ORDER_AT, DEVICE_AT, "origin", "latitude_deg", "longitude_deg"))
        for topic, at_ms, device_at_ms, origin, latitude, longitude in zip(*columns, strict=True):
            if is_topic(topic) and (place := self._place(origin)):
                known = at_ms == device_at_ms and is_position(latitude, longitude)  # else nobody knows when the box was there, or where
                reports[topic].append(ContainerReport(at_ms, place, latitude if known else None, longitude if known else None))
        return reports

    def _judge_box(self, container: str, reports: list[ContainerReport]) -> list[Alert]:
        """Judges what is newer than all that was known of the box; late reports only complete what is known."""
        heard = self._heard[container]
        last_at_ms = max(heard.values(), default=-1)
        fresh = [report for report in reports if report.at_ms > last_at_ms]
        known = [ContainerReport(at_ms, place) for place, at_ms in heard.items()]
        fix = [self._fixes[container]] if container in self._fixes else []
        found = [alert for alert in judge_container(container, [*known, *fix, *fresh]) if alert.at_ms > last_at_ms] if fresh else []
        if fresh and container in self._silent_since:
            since_ms, ship = self._silent_since.pop(container)
            found.append(heard_again(container, since_ms, min(fresh).at_ms, ship))
        found += self._ashore(container, reports)
        for report in reports:
            heard[report.heard_by] = max(heard.get(report.heard_by, 0), report.at_ms)
            if report.latitude_deg is not None and report.longitude_deg is not None:
                self._fixes[container] = max(self._fixes.get(container, report), report, key=lambda one: one.at_ms)
        return found

    def _silent(self) -> list[Alert]:
        """Boxes that have now been silent for too long, by the time at the place they are at."""
        found: list[Alert] = []
        for container, heard in self._heard.items():
            if container in self._silent_since or self._is_lost(container):
                continue
            place, last_at_ms = max(heard.items(), key=lambda item: (item[1], item[0]))
            custody = self._registry.get(Custody, container)
            if custody is not None and (custody.at == "delivered" or custody.since_at_ms >= last_at_ms):
                place = custody.at  # it went on since, and what hears it there may not have come here yet
            if self._listened_ms(place, last_at_ms) >= SILENT_MS:
                ship = place.removeprefix("ship/") if place.startswith("ship/") else None
                self._silent_since[container] = (last_at_ms, ship)
                found.append(silent(container, last_at_ms, ship))
        return found

    def _listened_ms(self, place: str, since_ms: int) -> int:
        """How long a place has heard boxes since then: whole spans in which it heard none are left out."""
        lasted_ms = self._now.get(place, 0) - since_ms
        if lasted_ms < SILENT_MS:
            return lasted_ms
        heard = self._hearing[place]
        between = range(since_ms // HEARING_MS + 1, self._now[place] // HEARING_MS)
        return lasted_ms - HEARING_MS * sum(span not in heard for span in between)

    def _sailed(self, rows: pa.Table) -> None:
        """A ship's departure makes the boxes of her discharge list due on the quay."""
        departures = rows.filter(pc.and_(pc.equal(rows.column("stream"), "events"), pc.ends_with(rows.column(TOPIC), ".log")))
        for body in departures.column(BODY).drop_null().to_pylist():
            departure = _departure(body)
            calls = [] if departure is None else [one for one in self._registry.load_lists(departure.ship) if one.port == departure.place]
            if departure is None or not calls:
                continue
            for container in self._nearest(calls, departure.event_at_ms).discharge:
                discharge = Discharge(container, departure.place, departure.event_at_ms)
                if not self._heard_ashore(discharge):
                    self._due[container].setdefault(discharge, False)

    def _nearest(self, calls: list[LoadList], at_ms: int) -> LoadList:
        return min(calls, key=lambda call: abs(call.departs_at_ms - at_ms))

    def _heard_ashore(self, discharge: Discharge) -> bool:
        return self._heard.get(discharge.container, {}).get(f"quay/{discharge.port}", -1) >= discharge.sailed_at_ms - BERTH_MS_MAX

    def _told_lost(self, rows: pa.Table) -> None:
        """What ships tell of their losses: an alert of their own, which says more than that nobody hears a box or that it is not ashore."""
        events = rows.filter(pc.equal(rows.column("stream"), "events"))
        told = events.filter(pc.fill_null(pc.match_substring_regex(events.column(BODY), "_OVERBOARD|X_FOUND"), False))
        columns = (told.column(name).to_pylist() for name in (TOPIC, "origin", BODY))
        believed = believed_at_ms(told.column(ORDER_AT), told.column(ADMITTED_AT)).to_pylist()
        for container, origin, body, at_ms in zip(*columns, believed, strict=True):
            fate, place = _fate(body), self._place(origin)
            if fate is not None and place is not None and place.startswith("ship/"):
                news = (min(fate.event_at_ms, at_ms), fate.event != "X_FOUND")
                self._fates[container][place] = max(self._fates[container].get(place, news), news)

    def _is_lost(self, container: str) -> bool:
        """Whether a ship that has the box by the registry tells that it is lost. The word of any other silences nothing."""
        fates = self._fates.get(container, {}).items()
        return any(lost and self._registry.carries(place.removeprefix("ship/"), container, at_ms) for place, (at_ms, lost) in fates)

    def _heard_since(self) -> list[Alert]:
        """Boxes told as lost that another place than that ship has heard since, once each; and those found of which that was told."""
        found: list[Alert] = []
        for container, ship, at_ms, lost in [(box, ship, *fate) for box, fates in self._fates.items() for ship, fate in fates.items()]:
            key = container, ship
            if not lost and key in self._doubted:
                lost_at_ms, heard_at_ms = self._doubted.pop(key)
                found.append(found_after_all(container, lost_at_ms, max(at_ms, heard_at_ms)))
            elif lost and key not in self._doubted:
                heard = self._heard.get(container, {}).items()
                since = [ContainerReport(last_ms, place) for place, last_ms in heard if place != ship and last_ms > at_ms + OF_THE_FALL_MS]
                if since:
                    self._doubted[key] = at_ms, max(since).at_ms
                    found.append(heard_after_loss(container, at_ms, ship, max(since)))
        return found

    def _missing(self) -> list[Alert]:
        """Boxes due ashore that the quay has not heard in time, by the time on the quay."""
        found: list[Alert] = []
        for discharge, told in [item for due in self._due.values() for item in due.items()]:
            now_ms = self._now.get(f"quay/{discharge.port}", 0)
            if not told and now_ms >= discharge.due_at_ms and not self._is_lost(discharge.container):
                found += missing_at_discharge(discharge.container, discharge.port, discharge.sailed_at_ms, now_ms, ())
                self._due[discharge.container][discharge] = True
        return found

    def _ashore(self, container: str, reports: list[ContainerReport]) -> list[Alert]:
        """Boxes that a quay hears at last: what was said of them is cleared."""
        found: list[Alert] = []
        for discharge in list(self._due.get(container, ())):
            place = f"quay/{discharge.port}"
            since_ms = discharge.sailed_at_ms - BERTH_MS_MAX
            heard = [report for report in reports if report.heard_by == place and report.at_ms >= since_ms]
            if heard and self._due[container].pop(discharge):
                late = ContainerReport(max(min(heard).at_ms, discharge.due_at_ms + 1), place)
                found += missing_at_discharge(container, discharge.port, discharge.sailed_at_ms, late.at_ms, [late])[1:]
        return found

    def _place(self, origin: str) -> str | None:
        return self._places.get(Origin.parse(origin).node)


def _boxes_heard(rows: pa.Table) -> pa.Table:
    """The readings of boxes that are a sign of life, with their times as they are believed."""
    boxes = rows.filter(pc.equal(rows.column("stream"), "containers"))
    boxes = boxes.filter(pa.array(signs_of_life(boxes)))
    for name, at in ((ORDER_AT, corrected_at_ms(boxes)), (RECEIVED_AT, boxes.column(RECEIVED_AT))):
        believed = believed_at_ms(at, boxes.column(ADMITTED_AT))
        boxes = boxes.set_column(boxes.schema.get_field_index(name), name, believed)
    return boxes


def _departure(body: str) -> Departure | None:
    """The departure that an event's body tells of; None when it tells of something else, or does not read."""
    try:
        event = msgspec.json.decode(body, type=Departure)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event if event.event == "DEPA" else None


def _fate(body: str) -> Fate | None:
    """What an event's body tells of a loss; None when it tells of something else, or does not read."""
    try:
        return msgspec.json.decode(body, type=Fate)
    except (msgspec.MsgspecError, RecursionError):
        return None


def alert_records(alerts: Iterable[Alert]) -> list[Record]:
    """The records of stream `alerts`."""
    return [Record(made.topic, device_at_ms=made.at_ms, body=made.body) for made in (alert.made() for alert in alerts)]
