"""Entries of headquarters' registry, as values that check themselves.

Customers, bookings, load lists, custody, ships, ports, sizes and types of containers, the carrier's policy, streams, nodes and the
story."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cargo.errors import BadEntry
from cargo.rules.climate_limits import Climate
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import is_container, is_identity, is_imo, is_locode

AT_MS_MAX = 7_258_118_400_000
"""Latest time, 2200-01-01, UTC ms: no document has a later time, and it leaves room in 64 bits, even in nanoseconds."""
COUNT_MAX = 1_000_000_000
TEXT_CHARS_MAX = 10_000
NESTING_MAX = 8
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Control characters except tab and line ends, and halves of a surrogate pair: stores and codecs refuse them."""

_KEY = re.compile("ed25519:[A-Za-z0-9_-]{43}")
"""Pattern of a public key as `landfall proof key` prints it."""

NO_NUMBER = "NO-NUMBER"
"""Beginning of the identity of a box on a load list that has no number."""
OWNERS = "owners"
"""Id of the only policy."""
NoticeStage = Literal["drafted", "approved", "sent"]
"""A carrier's policy: from when on an owner is notified that its container is probably lost."""
AtMs = Annotated[int, Meta(ge=0, le=AT_MS_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]


class Customer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A company: name, colour on maps (red, green, blue, 0 to 255), role (`shipper`, `consignee`, `port` …) and contact."""

    name: str
    colour: tuple[Count, Count, Count]
    role: str
    contact: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _need(bool(self.name), "a customer has a name")
        _need(all(0 <= part <= 255 for part in self.colour), f"a colour is three numbers 0 to 255, not {self.colour}")


class BookedContainer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A container of a booking, and the time in which the customer may see it: from packing to unpacking (UTC ms, the end is not
    included; null: open).

    `shared`: other customers may have the container at the same time, if their spans are shared too.
    """

    container: str
    from_at_ms: AtMs
    until_at_ms: AtMs | None = None
    shared: bool | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _need_container(self.container)
        _need(self.until_at_ms is None or self.until_at_ms >= self.from_at_ms, f"{self.container}: a span ends after it begins")

    def covers(self, at_ms: int) -> bool:
        """Return whether the instant lies in the span."""
        return self.from_at_ms <= at_ms and (self.until_at_ms is None or at_ms < self.until_at_ms)

    def overlaps(self, later: BookedContainer) -> bool:
        """Return whether both cover an instant; `later` begins no earlier than this span."""
        return self.covers(later.from_at_ms) and later.covers(later.from_at_ms)

    def joined(self, later: BookedContainer) -> BookedContainer:
        """Return one span in place of both, shared only where both are; `later` begins no earlier than this span."""
        ends_at_ms = None if None in (self.until_at_ms, later.until_at_ms) else max(self.until_at_ms or 0, later.until_at_ms or 0)
        shared = self.shared if self.shared == later.shared else msgspec.UNSET
        return BookedContainer(self.container, self.from_at_ms, ends_at_ms, shared)


class Booking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A customer's order.

    `shipper` is a customer's id, `from` and `to` are UN/LOCODEs, `setpoint_c` is in °C. Overlapping spans of one container are joined.
    `limits` are those of the watch."""

    reference: str
    shipper: str
    consignee: str
    cargo: str
    from_place: str = msgspec.field(name="from")
    to_place: str = msgspec.field(name="to")
    setpoint_c: float | None = None
    un_number: str | None = None
    containers: tuple[BookedContainer, ...] = ()
    limits: Climate | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _need(bool(self.reference and self.shipper), "a booking has a reference and a shipper")
        _need_locode(self.from_place)
        _need_locode(self.to_place)
        if len({box.container for box in self.containers}) < len(self.containers):
            msgspec.structs.force_setattr(self, "containers", _joined(self.containers))


class SizeType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the watch for all containers of one size and type (id: an ISO 6346 code such as `45R1`).

    The limits of a booking have precedence."""

    limits: Climate


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decision of the carrier (id: `owners`): from which state of a loss report on an owner sees a probable loss."""

    told_from: NoticeStage


class Dangerous(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dangerous goods in a container: UN number and class of the IMDG code (`3`, `6.1`)."""

    un_number: str
    imdg_class: str

    def __post_init__(self) -> None:
        _need(re.fullmatch("[0-9]{4}", self.un_number) is not None, f"a UN number is four digits, not {self.un_number!r}")
        _need(re.fullmatch(r"[1-9](\.[1-6][A-S]?)?", self.imdg_class) is not None, f"{self.imdg_class!r} is no class of the IMDG code")


class Stowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A container on board: slot (`BBBRRTT`), size and type (`45R1`), port of loading, port of discharge, and whether it has a tracker.

    `container`: an ISO 6346 number, or another identity. `slot`, `size_type`, `pol` and `pod` are empty if unknown. From the bay plan:
    weight, whether the container is empty, setpoint, allowed range (lowest, highest) and dangerous goods. An absent field is unknown.
    """

    container: str
    slot: str
    size_type: str
    pol: str
    pod: str
    booking: str | None = None
    tracker: bool = True
    weight_kg: Count | msgspec.UnsetType = msgspec.UNSET
    empty: bool | msgspec.UnsetType = msgspec.UNSET
    setpoint_c: float | msgspec.UnsetType = msgspec.UNSET
    range_c: tuple[float, float] | msgspec.UnsetType = msgspec.UNSET
    dangerous: tuple[Dangerous, ...] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _need(is_identity(self.container), f"{self.container!r} is no box's identity: 1 to 24 capitals, digits and dashes")
        if self.slot:
            Slot.parse(self.slot)

    @property
    def is_reefer(self) -> bool:
        """Whether its size and type code is a refrigerated container's."""
        return self.size_type[2:3] == "R"


class LoadList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ship's call at a port (id: `<imo>/<call number>`): containers to load and to discharge, all containers on board afterwards, and
    the departure (UTC ms).
    """

    ship: str
    port: str
    call: Count
    aboard: tuple[Stowed, ...]
    load: tuple[str, ...]
    discharge: tuple[str, ...]
    departs_at_ms: AtMs

    def __post_init__(self) -> None:
        _need(is_imo(self.ship), f"a load list's ship is an IMO number, not {self.ship!r}")
        _need_locode(self.port)
        aboard = {box.container for box in self.aboard}
        _need(len(aboard) == len(self.aboard), "a load list names each container aboard once")
        _need(aboard.issuperset(self.load), "what a load list loads is aboard afterwards")
        _need(aboard.isdisjoint(self.discharge), "what a load list discharges is not aboard afterwards")

    @property
    def id(self) -> str:
        """Registry id of the list, `<imo>/<call number>`."""
        return f"{self.ship}/{self.call}"


class Custody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holder of a container (its id), and since when (UTC ms): `ship/<imo>`, `quay/<locode>` or `delivered`."""

    at: str
    since_at_ms: AtMs

    def __post_init__(self) -> None:
        kind, _, place = self.at.partition("/")
        right = (kind == "ship" and is_imo(place)) or (kind == "quay" and is_locode(place)) or self.at == "delivered"
        _need(right, f"custody is at ship/<imo>, quay/<locode> or delivered, not {self.at!r}")


class Ship(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ship: IMO number, name, call sign, MMSI, flag (ISO 3166), capacity in containers, and master."""

    imo: str
    name: str
    call_sign: str
    mmsi: str
    flag: str
    capacity_boxes: Count
    master: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _need(is_imo(self.imo), f"{self.imo!r} is no IMO number")


class Port(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port: UN/LOCODE, name, and the circle in which a ship that lies still is in port (nautical miles)."""

    locode: str
    name: str
    latitude_deg: float
    longitude_deg: float
    radius_nm: float

    def __post_init__(self) -> None:
        _need_locode(self.locode)
        _need(-90 <= self.latitude_deg <= 90 and -180 <= self.longitude_deg <= 180, f"{self.locode} lies nowhere on earth")
        _need(0 < self.radius_nm <= 100, f"a port's radius is up to 100 nm, not {self.radius_nm}")


class Story(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chapter of the demo (id: `A`, `B` or `C`): what has just happened, and where to look."""

    title: str
    text: str
    look: str
    at_ms: AtMs


class Stream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of a stream or of a pattern (its id).

    An absent field keeps its value. `streams/config/stream_definitions.py` describes the settings."""

    retention: dict[str, float | int | None] | msgspec.UnsetType = msgspec.UNSET
    home: str | msgspec.UnsetType = msgspec.UNSET
    replicate: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    originate: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    lane: str | msgspec.UnsetType = msgspec.UNSET
    patience_s: float | msgspec.UnsetType | None = msgspec.UNSET
    access: str | msgspec.UnsetType = msgspec.UNSET


class NodeKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node (its id is its name): the public keys it signs with (`docs/guide/proof.md`).

    `withdrawn`: ports and headquarters refuse sessions with it (`docs/guide/links.md`). Its records and keys stay. False, or no value,
    takes that back.
    """

    keys: tuple[str, ...] = ()
    withdrawn: bool | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        said = self.withdrawn is not msgspec.UNSET
        _need(bool(self.keys) or said, "a node has at least one key, or is said to be withdrawn, or to be so no more")
        for key in self.keys:
            _need(_KEY.fullmatch(key) is not None, f"a key is ed25519: and 43 characters, not {key!r}")


RegistryValue = Customer | Booking | LoadList | Custody | Ship | Port | SizeType | Policy | Story | Stream | NodeKeys


ENTRY_TYPES: dict[str, type[Any]] = {
    "customer": Customer,
    "booking": Booking,
    "load_list": LoadList,
    "custody": Custody,
    "ship": Ship,
    "port": Port,
    "size_type": SizeType,
    "policy": Policy,
    "story": Story,
    "stream": Stream,
    "node": NodeKeys,
}
"""Type of the value of each type of entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one thing in the registry; its topic is `<type>/<id>`, and the latest wins.

    `at_ms`: fleet time of writing, UTC ms; `by`: the writer."""

    type: str
    id: str
    version: int
    at_ms: int
    by: str
    value: RegistryValue

    @property
    def topic(self) -> str:
        """Topic of the registry record, `<type>/<id>`."""
        return f"{self.type}/{self.id}"


class _RawEntry(msgspec.Struct):
    type: str
    id: str
    version: Count
    at_ms: AtMs
    by: str
    value: msgspec.Raw


def parse_value(kind: str, value: Any) -> RegistryValue:
    """Return the typed value of a registry record's `value` (a JSON object already read). Raises BadEntry, which names field and reason.

    Values that `msgspec` accepts but a store, codec or table refuses are refused here too: see `need_plain`."""
    if kind not in ENTRY_TYPES:
        raise BadEntry(f"the registry has no {kind!r}", hint=f"it has {', '.join(sorted(ENTRY_TYPES))}", code="registry_type_unknown")
    try:
        need_plain(value)
        read: RegistryValue = msgspec.convert(value, ENTRY_TYPES[kind])
        return read
    except (msgspec.ValidationError, ValueError) as problem:
        raise BadEntry(f"this {kind} does not read: {problem}", code="registry_entry_unreadable") from problem


def parse_entry(text: str | bytes) -> Entry:
    """Return the entry of a registry record's body (JSON). Raises BadEntry, which names field and reason; unknown fields are left out."""
    try:
        raw = msgspec.json.decode(text, type=_RawEntry)
        if raw.type not in ENTRY_TYPES:
            raise BadEntry(
                f"the registry has no {raw.type!r}", hint=f"it has {', '.join(sorted(ENTRY_TYPES))}", code="registry_type_unknown"
            )
        need_plain([raw.id, raw.by, msgspec.json.decode(raw.value)])
        value = msgspec.json.decode(raw.value, type=ENTRY_TYPES[raw.type])
    except RecursionError as problem:
        raise BadEntry(f"a registry record nests deeper than {NESTING_MAX}", code="registry_entry_unreadable") from problem
    except (msgspec.MsgspecError, ValueError) as problem:
        raise BadEntry(f"a registry record does not read: {problem}", code="registry_entry_unreadable") from problem
    return Entry(raw.type, raw.id, raw.version, raw.at_ms, raw.by, value)


def entry_body(entry: Entry) -> dict[str, Any]:
    """Return the registry record's body, as plain JSON values, which `parse_entry` reads back."""
    body: dict[str, Any] = msgspec.to_builtins(entry)
    return body


def _need(right: bool, otherwise: str) -> None:
    if not right:
        raise ValueError(otherwise)


def need_plain(value: Any, nesting_left: int = NESTING_MAX) -> None:
    """Raise ValueError unless `value` is JSON that every store takes.

    That is: finite numbers of 64 bits, texts of printable characters, tabs and line ends up to TEXT_CHARS_MAX, objects and lists no deeper
    than NESTING_MAX."""
    kind = type(value)
    if kind is str:
        if len(value) > TEXT_CHARS_MAX:
            raise ValueError(f"a text has up to {TEXT_CHARS_MAX} characters, not {len(value)}")
        if found := _NO_TEXT.search(value):
            raise ValueError(f"a text has no character {found.group()!a}: leave it out")
    elif kind is int:
        _need(-(1 << 63) <= value < 1 << 63, "a number is beyond 64 bits")
    elif kind is float:
        _need(math.isfinite(value), "a number is finite")
    elif kind is dict or kind is list:
        _need(nesting_left > 0, f"a value nests no deeper than {NESTING_MAX}")
        for one in [*value.keys(), *value.values()] if kind is dict else value:
            need_plain(one, nesting_left - 1)


def _joined(containers: Collection[BookedContainer]) -> tuple[BookedContainer, ...]:
    """Return the spans with those joined that overlap or begin at the same time; boxes stay in the order in which they are first named."""
    spans: dict[str, list[BookedContainer]] = {box.container: [] for box in containers}
    for box in sorted(containers, key=lambda box: box.from_at_ms):
        known = spans[box.container]
        if known and (known[-1].overlaps(box) or known[-1].from_at_ms == box.from_at_ms):
            known[-1] = known[-1].joined(box)
        else:
            known.append(box)
    return tuple(box for known in spans.values() for box in known)


def _need_container(number: str) -> None:
    _need(is_container(number), f"{number!r} is not a valid container number (ISO 6346)")


def _need_locode(code: str) -> None:
    _need(is_locode(code), f"{code!r} is no UN/LOCODE")
