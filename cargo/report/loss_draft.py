"""The draft of a loss report, from the ship's facts: the alerts of one incident, readings around it, the muster, the documents.

Pure: the same facts give the same draft. A value without a measurement or a document is not known, and never filled in with a guess."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from cargo.alerts.alert_log import AlertStanding
from cargo.errors import CargoError
from cargo.loss.incidents import lost_until_ms
from cargo.loss.loss_classifier import GONE_STATES
from cargo.loss.watch_outcome import MadeRecord, digest
from cargo.report.loss_form import LOSS, UNKNOWN, Basis, Filled, position_text
from cargo.report.loss_report import Content, Dangerous, Head, Kind, LossReport, ReportedBox, drafted
from cargo.report.search_line import NOT_COMPUTED
from cargo.vocabulary.instants import time_text
from cargo.vocabulary.registry_entries import LoadList, Ship, Stowed
from cargo.vocabulary.registry_fold import Registry

HOUR_MS = 3_600_000
COMPOSED_CHARS_MAX, PART_CHARS_MAX = 2_000, 200
"""Maximum length of a line composed of all boxes, and of one box's part of a line that is longer, characters."""
READ_WITHIN_MS = 6 * HOUR_MS
"""Maximum age of a reading of the ship's own sensors that still describes a loss, milliseconds; `source` has its time."""
ROLL_WITHIN_MS = 10 * 60_000
OWN_LOSS = Filled(LOSS, "RECKONED", "of the ship's own boxes, by their evidence")
SIZES = {"2": "20'", "4": "40'", "L": "45'"}
KINDS = {"G": "dry", "R": "reefer", "U": "open top", "P": "platform", "T": "tank", "H": "insulated", "V": "ventilated", "B": "bulk"}
"""Names for the first and third character of an ISO 6346 size and type code, the common ones."""
Readings = Sequence[tuple[int, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about one incident at `now_at_ms` (fleet time, UTC ms): the current alert of the incident and those of its boxes.

    `track`, `air`: the ship's location and environment readings around it, in order of time, as (UTC ms, signals); `muster`: the body of an
    X_MUSTER event; `registry`: the entries headquarters sent the ship; `drift`: where the boxes may be
    (`cargo.report.search_line.drift_line`)."""

    ship: str
    incident: AlertStanding
    boxes: tuple[AlertStanding, ...]
    registry: Registry
    track: Readings
    air: Readings
    muster: Mapping[str, Any] | None
    now_at_ms: int
    drift: Filled = NOT_COMPUTED

    @property
    def incident_id(self) -> str:
        """The incident's id."""
        return str(self.incident.body["incident_id"])

    @property
    def span(self) -> Mapping[str, Any]:
        """`{"containers", "at_risk", "bays", "from_at_ms", "until_at_ms"}` of the incident."""
        span: Mapping[str, Any] = self.incident.body["incident"]
        return span

    @property
    def clock_doubted(self) -> bool:
        """Whether an alert of the incident was written under a doubted clock."""
        return any(one.clock_doubted for one in (self.incident, *self.boxes))

    def found(self) -> list[str]:
        """Return the boxes of the incident that were heard again."""
        return sorted({one.topic for one in self.boxes} - set(self.span["containers"]))

    def news(self) -> str:
        """Return a digest of what the alerts report: while it is the same, there is nothing new to report."""
        return digest("news", self.span["containers"], self.span["at_risk"], self.found(), *self.confirmed())

    def confirmed(self) -> list[str]:
        """Return the lost boxes that a person reported as gone."""
        sure = {one.topic for one in self.boxes if _counted(one.body)}
        return sorted(sure.intersection(self.span["containers"]))


def next_draft(before: Sequence[LossReport], facts: Facts, by: str) -> MadeRecord | None:
    """Return the record of the draft that the news need; None when the last report of the incident (`before`: all of them, by number) has
    them.

    A draft that is not approved yet is drafted again, and keeps what people filled in. After an approved or sent report comes an UPDATE
    that refers to it."""
    news = facts.news()
    if before and before[-1].news == news:
        return None
    if not before and not facts.span["containers"]:
        return None
    if before and before[-1].state in ("draft", "edited"):
        return _again(before[-1], before[-1].head, facts, by)
    return _new_report(before, "UPDATE" if before else "INITIAL", facts, by)


def final_draft(before: Sequence[LossReport], facts: Facts, by: str) -> MadeRecord:
    """Return the record of the draft of a FINAL, which a person requests after a thorough inspection.

    An UPDATE not approved yet becomes it.

    Raises ValueError while nothing is sent, and where the last report is a FINAL."""
    if not any(report.state == "sent" for report in before):
        raise CargoError("nothing is sent of this incident yet: the first report is an INITIAL", code="report_not_sent")
    last = before[-1]
    if last.head.kind == "FINAL":
        raise CargoError(f"report {last.id} is the FINAL one", code="report_final")
    if last.state in ("draft", "edited"):
        return _again(last, msgspec.structs.replace(last.head, kind="FINAL"), facts, by)
    return _new_report(before, "FINAL", facts, by)


def _again(last: LossReport, head: Head, facts: Facts, by: str) -> MadeRecord:
    return drafted(head, fill_in(facts, last.content), facts.news(), last.revision + 1, by, facts.now_at_ms)


def _new_report(before: Sequence[LossReport], kind: Kind, facts: Facts, by: str) -> MadeRecord:
    refers_to = before[-1].id if before else None
    head = Head(facts.incident_id, facts.ship, kind, len(before) + 1, refers_to)
    return drafted(head, fill_in(facts, before[-1].content if before else None), facts.news(), 0, by, facts.now_at_ms)


def fill_in(facts: Facts, before: Content | None = None) -> Content:
    """Return the content of a report of these facts.

    Values that a person filled in `before` stay, except a number of lost boxes that is wrong now. The number is dropped if more boxes are
    known to be lost. It is also dropped if it is larger and counted a box that was heard again since: the person counts again."""
    listed = _list_in_force(facts)
    stowed = {box.container: box for box in listed.aboard} if listed else {}
    alerts = {one.topic: one for one in sorted(facts.boxes, key=lambda one: one.body["at_ms"])}
    lost = tuple(_box(facts, number, stowed.get(number), listed, alerts.get(number)) for number in facts.span["containers"])
    at_risk = tuple(_box(facts, number, stowed.get(number), listed, None) for number in facts.span["at_risk"])
    found = tuple(_box(facts, number, stowed.get(number), listed, alerts.get(number)) for number in facts.found())
    given, was_lost = (before.given(), {box.container for box in before.lost}) if before else ({}, set())
    counted = given.get("number_lost", UNKNOWN).value
    beyond = isinstance(counted, int) and counted > len(lost) and not was_lost.isdisjoint(facts.found())
    stale = {"number_lost", "number_is"} if beyond or (isinstance(counted, int) and counted < len(lost)) else set()
    kept = {name: line for name, line in given.items() if name not in stale}
    lines = {
        **ship_lines(facts.registry, facts.ship),
        "type": OWN_LOSS,
        **_when_and_where(facts, lost),
        **_what(facts, lost, at_risk, listed),
        **_around(facts),
        **kept,
    }
    return Content(lines, lost, at_risk, found, facts.clock_doubted or (before is not None and before.clock_doubted))


def _list_in_force(facts: Facts) -> LoadList | None:
    """Return the list that names most of the incident's boxes: that of the muster, or that of the last call the ship was due to leave by
    the loss.

    An UPDATE or a FINAL is drafted when the list of a later call is in force, which names no box that was lost."""
    call = facts.muster.get("call") if facts.muster else None
    counted_by = facts.registry.get(LoadList, f"{facts.ship}/{call}") if call is not None else None
    lists = [one for one in (counted_by, facts.registry.load_list_at(facts.ship, facts.span["from_at_ms"])) if one is not None]
    theirs = {*facts.span["containers"], *facts.span["at_risk"], *facts.found()}
    return max(lists, key=lambda one: sum(box.container in theirs for box in one.aboard), default=None)


def _box(facts: Facts, number: str, stowed: Stowed | None, listed: LoadList | None, alert: AlertStanding | None) -> ReportedBox:
    body: Mapping[str, Any] = alert.body if alert else {}
    position: Mapping[str, Any] = body.get("position") or {}
    evidence = body.get("evidence", ())
    at_ms = position.get("at_ms") or facts.span["from_at_ms"]
    until_ms = lost_until_ms(at_ms, ((piece["family"], piece["at_ms"]) for piece in evidence), alert.raised_at_ms) if alert else None
    bookings = facts.registry.bookings_of(number, at_ms)
    declared = () if stowed is None or stowed.dangerous is msgspec.UNSET else stowed.dangerous
    un_numbers = {goods.un_number for goods in declared} | {booking.un_number for booking in bookings if booking.un_number}
    declared_none = stowed is not None and stowed.dangerous == ()
    dangerous: Dangerous = "YES" if un_numbers else "NO" if declared_none else "UNKNOWN"
    return ReportedBox(
        container=number,
        at_ms=at_ms,
        listed=listed.id if listed and stowed else None,
        slot=stowed.slot if stowed else body.get("slot"),
        size_type=stowed.size_type if stowed else None,
        empty=None if stowed is None or stowed.empty is msgspec.UNSET else stowed.empty,
        dangerous=dangerous,
        un_numbers=tuple(sorted(un_numbers)),
        imdg_classes=tuple(sorted({goods.imdg_class for goods in declared})),
        cargo=bookings[0].cargo if bookings else None,
        booking=bookings[0].reference if bookings else None,
        lost_at_ms=at_ms if alert else None,
        lost_until_ms=until_ms,
        blow=until_ms == at_ms,
        latitude_deg=position.get("latitude_deg"),
        longitude_deg=position.get("longitude_deg"),
        posterior=body.get("posterior"),
        status="CONFIRMED_LOST" if _counted(body) else "PROBABLE_OVERBOARD" if body.get("status") in GONE_STATES else body.get("status"),
        evidence=tuple(piece["detail"] for piece in evidence),
    )


def _counted(body: Mapping[str, Any]) -> bool:
    """Return whether a person reported that the box of this alert is gone; whether a loss report was sent does not matter."""
    said = any(piece["family"] == "person" and piece["signal"] == "gone" for piece in body.get("evidence", ()))
    return said and body.get("status") in GONE_STATES


def ship_lines(registry: Registry, ship: str) -> dict[str, Filled]:
    """Return the lines of a report that identify the ship (IMO number), by the registry, and state that its master reports."""
    known = registry.get(Ship, ship)
    paper = {} if known is None else {"ship": known.name, "call_sign": known.call_sign, "mmsi": known.mmsi, "flag": known.flag}
    if known is not None and known.master is not msgspec.UNSET:
        paper["contact"] = f"{known.master}, master"
    lines = {name: Filled(value, "PAPER", "the registry's entry of the ship") for name, value in paper.items() if value}
    return {
        "imo": Filled(ship, "PAPER", "the node's settings"),
        **lines,
        "reported_by": Filled("MASTER", "RECKONED", "drafted aboard"),
    }


def _when_and_where(facts: Facts, lost: Iterable[ReportedBox]) -> dict[str, Filled]:
    boxes = list(lost)
    actual = bool(boxes) and all(box.blow for box in boxes)
    why = "blows that the boxes themselves measured" if actual else "when a box was first struck, or last heard"
    basis: Basis = "MEASURED" if actual else "RECKONED"
    lines = {
        "occurred_at": Filled(time_text(facts.span["from_at_ms"]), basis, why),
        "occurred_until": Filled(time_text(facts.span["until_at_ms"]), basis, why if actual else "when they were missed"),
        "occurred_is": Filled("ACTUAL" if actual else "ESTIMATED", "RECKONED", why),
    }
    position = facts.incident.body.get("position")
    if position:
        source = f"the ship's track at {time_text(position['at_ms'])}"
        lines["latitude_deg"] = Filled(position["latitude_deg"], "RECKONED", source)
        lines["longitude_deg"] = Filled(position["longitude_deg"], "RECKONED", source)
        lines["position_is"] = Filled(position.get("basis", "ESTIMATED"), "RECKONED", "where the ship was, not where the boxes were seen")
    return lines


def _what(facts: Facts, lost: Sequence[ReportedBox], at_risk: Sequence[ReportedBox], listed: LoadList | None) -> dict[str, Filled]:
    paper = f"load list {listed.id} and its bookings" if listed else ""
    source = f"by each box's own evidence; {len(at_risk)} without a working tracker in their stacks not counted"
    sure = len(facts.confirmed())
    counted = f"{sure} of {len(lost)} confirmed by who looked; nobody has counted them all" if sure else "nobody has counted"
    lines = {
        "number_lost": Filled(len(lost), "RECKONED", source),
        "number_is": Filled("ESTIMATED", "RECKONED", counted),
        "at_risk": Filled(len(at_risk), "PAPER", paper) if listed else UNKNOWN,
        "description": Filled(_description(lost), "PAPER", paper) if any(box.listed for box in lost) else UNKNOWN,
    }
    dangers = [box.dangerous for box in lost]
    danger = "YES" if "YES" in dangers else "NO" if dangers and set(dangers) == {"NO"} else "UNKNOWN"
    at_risk_un_numbers = sorted({number for box in at_risk for number in box.un_numbers})
    noted = "; ".join(
        text for text in (paper, f"among those at risk: UN {_some(at_risk_un_numbers, ', ')}" if at_risk_un_numbers else "") if text
    )
    lines["dangerous_goods"] = Filled(danger, "UNKNOWN" if danger == "UNKNOWN" else "PAPER", noted)
    numbers = sorted({number for box in lost for number in box.un_numbers})
    none = Filled("none", "PAPER", paper) if danger == "NO" else UNKNOWN
    lines["un_numbers"] = Filled(_some(numbers, ", "), "PAPER", paper) if numbers else none
    cargo = sorted({box.cargo for box in lost if box.cargo})
    lines["cargo"] = Filled(_some(cargo, "; "), "PAPER", "bookings") if cargo else UNKNOWN
    if facts.muster:
        counted = f"{facts.muster['accounted']:,} of {facts.muster['instrumented']:,} boxes with trackers accounted for"
        lines["muster"] = Filled(counted, "MEASURED", f"the muster of {time_text(facts.muster['event_at_ms'])}")
    return lines


def _some(parts: Sequence[str], between: str) -> str:
    """Return the parts in one line. If it would be longer than COMPOSED_CHARS_MAX, return the first parts and the number of further ones.

    Each part is then cut to PART_CHARS_MAX. Every box's own part stands next to the box.
    """
    whole = between.join(parts)
    if len(whole) <= COMPOSED_CHARS_MAX:
        return whole
    shown, length = list[str](), 0
    for part in parts:
        cut = part if len(part) <= PART_CHARS_MAX else f"{part[: PART_CHARS_MAX - 1]}…"
        if (length := length + len(cut) + len(between)) > COMPOSED_CHARS_MAX:
            break
        shown.append(cut)
    more = len(parts) - len(shown)
    return between.join([*shown, f"… and {more:,} more, each next to its box"] if more else shown)


def _description(boxes: Sequence[ReportedBox]) -> str:
    """Return the sizes, types and counts of boxes: `3 × 40' dry 45G1 laden, 1 × 45R1 (empty or laden unknown)`."""
    kinds = Counter((box.size_type or "type unknown", box.empty) for box in boxes)
    parts = []
    for (size_type, empty), count in sorted(kinds.items(), key=str):
        known = (SIZES.get(size_type[:1], ""), KINDS.get(size_type[2:3], "")) if len(size_type) == 4 else ()
        words = " ".join([word for word in known if word] + [size_type])
        parts.append(f"{count} × {words} {'(empty or laden unknown)' if empty is None else 'empty' if empty else 'laden'}")
    return _some(parts, ", ")


def _around(facts: Facts) -> dict[str, Filled]:
    """Return the lines with the ship's measurements of itself and the sea, then and now."""
    lines = {"drift": facts.drift}
    since, until = facts.span["from_at_ms"], facts.span["until_at_ms"]
    for name, rows, wanted, words in (
        ("course_speed", facts.track, ("course_deg", "speed_kn"), "{course_deg:.0f}° true, {speed_kn:.1f} kn"),
        ("wind", facts.air, ("wind_speed_ms",), "{wind_speed_ms:.1f} m/s"),
        ("sea", facts.air, ("wave_height_m",), "waves of {wave_height_m:.1f} m"),
    ):
        said = _last_before(rows, since, wanted)
        if said is not None:
            at_ms, signals = said
            text = words.format(**signals)
            if name == "wind" and "wind_direction_deg" in signals:
                text += f" from {signals['wind_direction_deg']:.0f}°"
            lines[name] = Filled(text, "MEASURED", f"the ship's sensors at {time_text(at_ms)}")
    rolls = [(abs(one["roll_deg"]), at_ms) for at_ms, one in facts.air if "roll_deg" in one and since - ROLL_WITHIN_MS <= at_ms <= until]
    if rolls:
        largest, at_ms = max(rolls)
        lines["roll"] = Filled(f"up to {largest:.0f}°", "MEASURED", f"the ship's sensors at {time_text(at_ms)}")
    here = _last_before(facts.track, facts.now_at_ms, ("latitude_deg", "longitude_deg"))
    if here is not None:
        at_ms, signals = here
        text = f"{position_text(signals['latitude_deg'], 'NS')} {position_text(signals['longitude_deg'], 'EW')}"
        lines["ship_now"] = Filled(text, "MEASURED", f"the ship's position at {time_text(at_ms)}")
    return lines


def _last_before(rows: Readings, at_ms: int, wanted: Iterable[str]) -> tuple[int, Mapping[str, Any]] | None:
    """Return the last reading at or before the instant that has all of `wanted`, no more than READ_WITHIN_MS older."""
    names = set(wanted)
    fitting = [row for row in rows if at_ms - READ_WITHIN_MS <= row[0] <= at_ms and names <= row[1].keys()]
    return fitting[-1] if fitting else None
