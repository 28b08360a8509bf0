"""A small made-up fleet for the serving side's tests: real logs of headquarters, a ship and a port, filled as the system fills them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cargo.loss.watch_outcome import MadeRecord
from cargo.report.loss_form import Filled
from cargo.report.loss_report import Content, Head, LossReport, ReportBook, ReportedBox, drafted
from cargo.vocabulary.trade_codes import make_container, make_imo
from hq.analytics.disclosure import KIND, KINDS
from landfall.storage.file_log import FileLog, FileLogOptions
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Coordinates
from streams.model.records import SOURCE_OFFSET, SOURCE_STREAM, Record, to_batch

NOW_MS = 1_777_593_600_000
HOUR_MS = 3_600_000
SHIP = make_imo(932148)
OTHER_SHIP = make_imo(945120)
DUCKS = tuple(make_container("DUCU", serial) for serial in range(100, 106))
FOREIGN = tuple(make_container("MSKU", serial) for serial in range(200, 206))
PLACES = {"ship-one": f"ship/{SHIP}", "ship-two": f"ship/{OTHER_SHIP}", "singapore": "quay/SGSIN"}


@dataclass
class Fleet:
    """Logs, of which headquarters' gets copies of the others' blocks, and Spark's words written by hand."""

    root: Path
    clock: StillClock = field(default_factory=lambda: StillClock(NOW_MS))
    nodes: tuple[str, ...] = ("ship-one", "ship-two", "singapore")

    def __post_init__(self) -> None:
        self.logs = {node: self._open(node) for node in ("hq", *self.nodes)}

    @property
    def hq_dir(self) -> Path:
        """The folder of headquarters' log."""
        return self.root / "hq"

    def append(self, node: str, stream: str, records: Sequence[Record]) -> list[Coordinates]:
        """Appended at `node`, and copied to headquarters."""
        answer = self.logs[node].append([Append(stream, to_batch(records))])[0]
        if node != "hq":
            self.logs["hq"].admit(list(self.logs[node].blocks(stream, answer.origin, answer.first, answer.first + answer.count)))
        return [Coordinates(stream, answer.origin, offset) for offset in range(answer.first, answer.first + answer.count)]

    def readings(
        self, node: str, numbers: Iterable[str], count: int = 3, at_ms: int = NOW_MS - HOUR_MS, **signals: Any
    ) -> list[Coordinates]:
        """`count` readings of each container, five minutes apart."""
        records = [
            Record(
                number,
                f"TRK-{number}",
                at_ms + 300_000 * step,
                {"return_c": 4.0 + step / 4, "power_on": True, **signals},
                {"firmware": "1.2"},
            )
            for step in range(count)
            for number in numbers
        ]
        return self.append(node, "containers", records)

    def register(self, *entries: tuple[str, str, Mapping[str, Any]], version: int = 1) -> None:
        """Entries of the registry: type, id, value."""
        self.append(
            "hq",
            "registry",
            [
                Record(
                    f"{kind}/{id_}",
                    body={"type": kind, "id": id_, "version": version, "at_ms": NOW_MS, "by": "clerk", "value": dict(value)},
                )
                for kind, id_, value in entries
            ],
        )

    def share(self, customer: str, node: str, source: Sequence[Coordinates], bodies: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        """What Spark does for a customer: copies of these records into its stream, with who took them in and of what kind they are."""
        log = self.logs[node]
        records = []
        for coordinates in source:
            for batch in log.run(coordinates.stream, coordinates.origin, coordinates.offset, coordinates.offset + 1):
                for row in batch.rows():
                    body = (bodies or {}).get(coordinates.offset, row.record.body)
                    body = body if coordinates.stream == "containers" else {**(body or {}), KIND: KINDS[coordinates.stream]}
                    one = row.record
                    records.append(Record(one.topic, one.device, one.device_at_ms, one.signals, body, row.coordinates))
        self.logs["hq"].append([Append(f"customers/{customer}", to_batch(records).drop_columns([SOURCE_STREAM, SOURCE_OFFSET]))])

    def state(self, kind: str, topic: str, place: tuple[str, str] | None, at_ms: int = NOW_MS, **signals: Any) -> None:
        """What Spark says of one thing."""
        told = {name: {"value": value, "at_ms": at_ms} for name, value in signals.items()}
        body = {
            "kind": kind,
            "at_ms": at_ms,
            "place": {"kind": place[0], "id": place[1]} if place else None,
            "latitude_deg": signals.get("latitude_deg"),
            "longitude_deg": signals.get("longitude_deg"),
            "signals": told,
        }
        self.append("hq", "states", [Record(topic, device_at_ms=at_ms, body=body)])

    def alert(self, node: str, topic: str, alert_id: str, state: str = "raised", at_ms: int = NOW_MS, **more: Any) -> list[Coordinates]:
        """One change of an alert."""
        body = {"alert_id": alert_id, "rule": "lost_container", "severity": "CRITICAL", "state": state, "at_ms": at_ms}
        body |= {"title": "Probably overboard"}
        where = {"latitude_deg": -33.9, "longitude_deg": 151.3, "basis": "ESTIMATED", "at_ms": at_ms}
        body |= {"detail": "shock, then silence", "ship": SHIP, "status": "PROBABLE_OVERBOARD", "position": where, "evidence": [], **more}
        return self.append(node, "alerts", [Record(topic, device_at_ms=at_ms, body=body)])

    def reported(self, incident_id: str, numbers: Iterable[str], then: Callable[[LossReport, int], MadeRecord] | None = None) -> None:
        """The ship's draft of an incident's loss report, of these boxes; `then`: what her people did with it."""
        lost = tuple(
            ReportedBox(container=number, at_ms=NOW_MS, lost_at_ms=NOW_MS - 1_000, lost_until_ms=NOW_MS, cargo="goods")
            for number in numbers
        )
        lines = {"number_lost": Filled(len(lost), "RECKONED"), "number_is": Filled("ESTIMATED", "RECKONED")}
        made = [drafted(Head(incident_id, SHIP, "INITIAL", 1), Content(lines, lost, (), ()), "news", 0, "ship-one", NOW_MS)]
        if then is not None:
            made.append(then(ReportBook([made[0].body]).find(f"{incident_id}-1"), NOW_MS))
        self.append("ship-one", "reports", [Record(one.topic, device_at_ms=one.at_ms, body=one.body) for one in made])

    def close(self) -> None:
        """Closes the logs."""
        for log in self.logs.values():
            log.close()

    def _open(self, node: str) -> FileLog:
        options = FileLogOptions(randbits=lambda bits: 1)  # so that two fleets filled alike have the same origins
        return FileLog(self.root / node, self.root / f"{node}.marker", node, BlockCodec(), self.clock, options)


def customer(name: str, colour: Sequence[int]) -> dict[str, Any]:
    """A customer's registry value."""
    return {"name": name, "colour": list(colour), "role": "shipper"}


def booking(
    reference: str, shipper: str, boxes: Iterable[tuple[str, int, int | None]], consignee: str = "Toys of London"
) -> dict[str, Any]:
    """A booking's registry value; `boxes`: container, from, until; `consignee`: a customer's id, or just a name."""
    spans = [{"container": number, "from_at_ms": since, "until_at_ms": until} for number, since, until in boxes]
    parties = {"shipper": shipper, "consignee": consignee, "cargo": "toy ducks", "from": "JPTYO", "to": "GBLON"}
    return {"reference": reference, **parties, "setpoint_c": None, "un_number": None, "containers": spans}


def port(locode: str, name: str, latitude_deg: float, longitude_deg: float) -> dict[str, Any]:
    """A port's registry value."""
    return {"locode": locode, "name": name, "latitude_deg": latitude_deg, "longitude_deg": longitude_deg, "radius_nm": 5.0}


def ship(imo: str, name: str) -> dict[str, Any]:
    """A ship's registry value."""
    return {"imo": imo, "name": name, "call_sign": "9V1234", "mmsi": "563012345", "flag": "SG", "capacity_boxes": 2000}


def fill(fleet: Fleet, *, foreign: bool = True, crowded: bool = False) -> None:
    """The story so far: ducks, which are for another customer, and other boxes aboard, one duck booking ended in Singapore, a duck
    overboard. Without `foreign`, no other company has ever shipped anything. `crowded`: others' records lie before and between the ducks'
    too, so that a count or offset that reached a customer would differ.
    """
    if crowded:
        _fill_before(fleet)
    fleet.register(
        ("customer", "ducks", customer("Duckworks", (240, 200, 40))),
        ("customer", "toys", customer("Playthings", (200, 40, 90))),
        ("port", "SGSIN", port("SGSIN", "Singapore", 1.26, 103.8)),
        ("port", "JPTYO", port("JPTYO", "Tokyo", 35.6, 139.8)),
        ("port", "GBLON", port("GBLON", "London", 51.5, 0.0)),
        ("ship", SHIP, ship(SHIP, "Big Blue One")),
        ("booking", "BK-1", booking("BK-1", "ducks", [(number, NOW_MS - 48 * HOUR_MS, None) for number in DUCKS[:4]], "toys")),
        ("booking", "BK-2", booking("BK-2", "ducks", [(number, NOW_MS - 48 * HOUR_MS, NOW_MS - 2 * HOUR_MS) for number in DUCKS[4:]])),
        ("custody", DUCKS[3], {"at": f"ship/{SHIP}", "since_at_ms": NOW_MS - 2 * HOUR_MS}),
    )
    if foreign:
        names = (("SGSIN", "Lion City Traders"), ("JPTYO", "Edo Traders"), (SHIP, "Big Blue Traders"))
        fleet.register(*(("customer", one, customer(name, (1, 2, 3))) for one, name in names))
    aboard = _aboard(fleet, crowded)
    ended = fleet.readings("singapore", DUCKS[4:], at_ms=NOW_MS - 6 * HOUR_MS)
    fleet.share("ducks", "ship-one", aboard)
    fleet.share("ducks", "singapore", ended)
    fixes = [
        Record(
            f"{SHIP}.location",
            "GPS",
            NOW_MS - HOUR_MS + 600_000 * step,
            {"latitude_deg": -30.0 - step / 10, "longitude_deg": 155.0, "speed_kn": 16.0},
        )
        for step in range(6)
    ]
    fleet.append("ship-one", "ships", fixes)
    fleet.state("ship", SHIP, ("ship", SHIP), latitude_deg=-30.5, longitude_deg=155.0, speed_kn=16.0, course_deg=180.0)
    for number in DUCKS[:4]:
        fleet.state("container", number, ("ship", SHIP), return_c=4.5)
    for number in DUCKS[4:]:
        fleet.state("container", number, ("quay", "SGSIN"), return_c=5.0)
    happened = loaded(fleet, DUCKS[0])
    fleet.share("ducks", "singapore", happened, {one.offset: {**_body(fleet, one), "landfall_kind": "event"} for one in happened})
    fleet.append(
        "hq", "metrics", [Record("analytics", body={"process": "analytics", "at_ms": NOW_MS - 5_000, "wall_at_ms": NOW_MS, "counts": {}})]
    )
    lost = fleet.alert("ship-one", DUCKS[3], "a-duck", incident_id="i-1", slot="0740282")
    kept = {
        key: value
        for key, value in _body(fleet, lost[0]).items()
        if key in ("alert_id", "rule", "severity", "state", "at_ms", "status", "position")
    }
    fleet.share("ducks", "ship-one", lost, {lost[0].offset: {**kept, "evidence": [], "landfall_kind": "alert"}})
    fleet.reported("i-1", [DUCKS[3], *(FOREIGN[:2] if foreign else ())])
    if foreign:
        fill_foreign(fleet)


def _fill_before(fleet: Fleet) -> None:
    """What others had in every stream before the ducks came."""
    fleet.register(("customer", "earlier", customer("Early Birds", (9, 9, 9))), ("port", "NZAKL", port("NZAKL", "Auckland", -36.8, 174.8)))
    for node in ("ship-one", "singapore"):
        fleet.share("machines", node, fleet.readings(node, FOREIGN, count=5, at_ms=NOW_MS - 20 * HOUR_MS))
    fleet.state("container", FOREIGN[5], ("quay", "SGSIN"), return_c=1.0)
    loaded(fleet, FOREIGN[5])
    fleet.alert("ship-one", FOREIGN[5], "a-before", state="cleared", at_ms=NOW_MS - 20 * HOUR_MS)


def _aboard(fleet: Fleet, crowded: bool) -> list[Coordinates]:
    """The ducks' readings aboard; when crowded, others' lie between."""
    aboard: list[Coordinates] = []
    for step in range(3):
        aboard += fleet.readings("ship-one", DUCKS[:4], count=1, at_ms=NOW_MS - HOUR_MS + 300_000 * step, return_c=4.0 + step / 4)
        if crowded:
            fleet.readings("ship-one", FOREIGN[3:], count=1 + step, at_ms=NOW_MS - HOUR_MS + 300_000 * step)
    return aboard


def fill_foreign(fleet: Fleet) -> None:
    """Another company's boxes: on the same ship, a ship of their own, a quay, one lost, and later use of a box the ducks once had."""
    hauled = [(number, NOW_MS - 48 * HOUR_MS, None) for number in FOREIGN]
    reused = (DUCKS[4], NOW_MS - HOUR_MS, None)
    fleet.register(
        ("customer", "machines", customer("Machine Works", (40, 90, 220))),
        ("ship", OTHER_SHIP, ship(OTHER_SHIP, "Big Blue Two")),
        ("port", "AUSYD", port("AUSYD", "Sydney", -33.86, 151.2)),
        ("booking", "BK-9", booking("BK-9", "machines", [*hauled, reused])),
        ("custody", FOREIGN[0], {"at": f"ship/{SHIP}", "since_at_ms": NOW_MS}),
        ("story", "A", {"title": "Tokyo", "text": f"{FOREIGN[0]} comes aboard", "look": FOREIGN[0], "at_ms": NOW_MS}),
    )
    readings = fleet.readings("ship-one", FOREIGN[:3])
    fleet.share("machines", "ship-one", readings)
    later = fleet.readings("singapore", [DUCKS[4]], at_ms=NOW_MS - HOUR_MS, return_c=-18.0)
    fleet.share("machines", "singapore", later)
    fleet.state("container", DUCKS[4], ("quay", "AUSYD"), return_c=-18.0)
    fleet.state("ship", OTHER_SHIP, ("ship", OTHER_SHIP), latitude_deg=60.0, longitude_deg=-170.0)
    for number in FOREIGN[:3]:
        fleet.state("container", number, ("ship", SHIP), return_c=7.0)
    for number in FOREIGN[3:]:
        fleet.state("container", number, ("quay", "SGSIN"), return_c=7.0)
    lost = fleet.alert("ship-one", FOREIGN[0], "a-foreign", incident_id="i-1", slot="0740482")
    cluster = {"containers": [DUCKS[3], FOREIGN[0]], "at_risk": [], "bays": [74]}
    fleet.alert("ship-one", f"{SHIP}.log", "a-ship", rule="incident", incident_id="i-1", incident=cluster)
    fleet.share("machines", "ship-one", lost, {lost[0].offset: {**_body(fleet, lost[0]), "landfall_kind": "alert"}})


def loaded(fleet: Fleet, number: str) -> list[Coordinates]:
    """A box was loaded in Singapore, two hours ago."""
    body = {
        "event_id": "e-1",
        "event": "LOAD",
        "classifier": "ACT",
        "event_at_ms": NOW_MS - 2 * HOUR_MS,
        "place": "SGSIN",
        "ship": SHIP,
        "node": "singapore",
    }
    return fleet.append("singapore", "events", [Record(number, device_at_ms=NOW_MS - 2 * HOUR_MS, body=body)])


def _body(fleet: Fleet, one: Coordinates) -> dict[str, Any]:
    for batch in fleet.logs["hq"].run(one.stream, one.origin, one.offset, one.offset + 1):
        body: dict[str, Any] = json.loads(batch.records.column("body")[0].as_py())
        return body
    raise AssertionError(f"{one} is not in headquarters' log")
