"""The registry's one way in: entries are checked, compared with what stands, and appended with their versions through the node's door.

The node sends each ship what concerns it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from cargo.errors import BadEntry
from cargo.loss.watch_outcome import MadeRecord
from cargo.vocabulary.booking_overlaps import EndedSpan, resolve_overlaps
from cargo.vocabulary.entry_checks import faults_of
from cargo.vocabulary.load_list_lines import Note
from cargo.vocabulary.port_codes import PortCodes
from cargo.vocabulary.registry_entries import Booking, Custody, Entry, LoadList, Policy, Port, RegistryValue, Ship, entry_body, parse_entry
from cargo.vocabulary.registry_fold import Registry
from hq.api.entry_parser import STREAMS, GivenEntry, Unacceptable, problem_of, read_given
from landfall.transport.http_client import AppendDoor
from streams.config.definition_format import read_fields
from streams.config.stream_definitions import Definitions
from streams.log import Append, LogReader
from streams.model.clock import Clock
from streams.model.errors import LandfallError, RetryLater
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch

STREAM = "registry"
ENTRIES_AT_ONCE_MAX = 5_000
PORT = "port"
PRODUCER = "registrar"
ATTEMPTS_MAX = 20
"""Maximum number of attempts at a write that another registrar overtakes, before the caller is asked to come again."""


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """Outcome of one entry: its version now; `written` is False when it stood already."""

    type: str
    id: str
    version: int
    written: bool


@dataclass(frozen=True, slots=True)
class RegistryReceipt:
    """Outcome of a request. It has the outcome of its `entries`, in its order, and of the other bookings of which it ended open spans
    (`others`). It names the spans, of its own bookings too, that end where another customer's begins. It also lists, with their numbers,
    the parts of its entries that were left out or are not known."""

    entries: tuple[WrittenEntry, ...]
    others: tuple[WrittenEntry, ...] = ()
    ended: tuple[EndedSpan, ...] = ()
    notes: tuple[tuple[int, Note], ...] = ()


class Overtaken(Unacceptable):
    """Conflict: some entries were made from another version than stands. Nothing was written."""


@dataclass(slots=True)
class Registrar:
    """Writes the registry of the log that `reader` reads and `door` appends to. Safe from any thread, concurrently with registrars of other
    processes.

    1 what stands is read up to a Position; 2 entries are checked against it, and get their versions; 3 they are appended with that
    Position's sum of offsets as sequence. All registrars are one producer, and an append lets the sum grow, so the log takes the first of
    those who read the same and of the others nothing: these begin again at 1. So a version is given once, and `based_on` holds.
    """

    reader: LogReader
    door: AppendDoor
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _standing: dict[str, Entry] = field(default_factory=dict)
    _position: Position = field(default_factory=Position)

    def write(self, wanted: Sequence[GivenEntry], by: str) -> RegistryReceipt:
        """Write all of `wanted` to the registry; it is durable on return. An entry whose value stands already gets no new version; of
        several for one topic the last counts. An open span of a booking ends where another customer's span of the same box begins. This
        holds for bookings of `wanted` and for those that stand, which get a new version. Raises Unacceptable when any entry is not right,
        or two customers would have one box at one time. Raises Overtaken when any is based on another version than stands and would change
        it; nothing is written. Raises RetryLater when the node is away, the log lacks part of its registry or others write all the time:
        the same request is safe to repeat."""
        given = read_given(wanted, self._port_codes(wanted))
        wanted, values = given.wanted, given.values
        with self._lock:
            for _ in range(ATTEMPTS_MAX):
                self._catch_up()
                self._check_shippers(wanted, values)
                latest, ended = self._without_overlaps(wanted, values)
                self._check_versions(wanted, latest)
                entries = self._versions(latest, by)
                if not entries or self._appended(list(entries.values())):
                    own = {one.topic: self._written(one.topic, entries) for one in wanted}
                    others = tuple(self._written(topic, entries) for topic in latest if topic not in own)
                    return RegistryReceipt(tuple(own[one.topic] for one in wanted), others, tuple(ended), given.notes)
        raise RetryLater(
            f"of {ATTEMPTS_MAX} attempts to write the registry each was overtaken",
            hint="the same again is safe; if it stays so, `landfall log gaps registry` says what the log lacks, which comes with a sync",
            code="registry_overtaken",
        )

    def _port_codes(self, wanted: Sequence[GivenEntry]) -> PortCodes:
        """Return the ports of the registry and of `wanted`."""
        with self._lock:
            self._catch_up()
            known = [entry.value for entry in self._standing.values() if isinstance(entry.value, Port)]
        new = [one.value for one in wanted if one.type == PORT and not faults_of(PORT, one.value)]
        return PortCodes([*known, *(msgspec.convert(value, Port) for value in new)])

    def _written(self, topic: str, entries: Mapping[str, Entry]) -> WrittenEntry:
        stands = self._standing[topic]
        return WrittenEntry(stands.type, stands.id, stands.version, topic in entries)

    def _without_overlaps(
        self, wanted: Sequence[GivenEntry], values: Sequence[RegistryValue]
    ) -> tuple[dict[str, RegistryValue], list[EndedSpan]]:
        """Return the values that are to stand, by topic, and the spans that end for them. Bookings that end come first, so that no reader
        of a part sees two customers with one box. The others of `wanted` follow; of entries that come several times, the last. Raises
        Unacceptable for boxes that two customers would have at one time."""
        latest = {one.topic: value for one, value in zip(wanted, values, strict=True)}
        changed = {value.reference: value for value in latest.values() if isinstance(value, Booking)}
        if not changed:
            return latest, []
        numbers = {box.container for value in changed.values() for box in value.containers}
        standing = {entry.id: entry.value for entry in self._standing.values() if isinstance(entry.value, Booking)}
        touched = {id_: value for id_, value in standing.items() if any(box.container in numbers for box in value.containers)}
        cut, ended, overlaps = resolve_overlaps({**touched, **changed}, changed.keys())
        if overlaps:
            index = {one.topic: at for at, one in enumerate(wanted)}
            found = [(index[f"booking/{one.booking}"], one) for one in overlaps]
            raise Unacceptable([problem_of(at, wanted[at], f"{one.container}: {one.problem}") for at, one in found])
        resolved: dict[str, RegistryValue] = {f"booking/{id_}": value for id_, value in sorted(cut.items())}
        return {**resolved, **latest, **resolved}, ended

    def _check_shippers(self, wanted: Sequence[GivenEntry], values: Sequence[RegistryValue]) -> None:
        """Raise Unacceptable for bookings whose shipper is no customer of the registry or of `wanted`: nobody could see their boxes."""
        known = self._standing.keys() | {one.topic for one in wanted}
        problems = []
        for index, (one, value) in enumerate(zip(wanted, values, strict=True)):
            if isinstance(value, Booking) and f"customer/{value.shipper}" not in known:
                reason = f"its shipper {value.shipper!r} is no customer's id: write that customer first, or in the same request"
                problems.append(problem_of(index, one, reason))
        if problems:
            raise Unacceptable(problems)

    def _check_versions(self, wanted: Sequence[GivenEntry], latest: Mapping[str, RegistryValue]) -> None:
        """Raise Overtaken for an entry that somebody else changed since: a write over it would lose that change."""
        problems = []
        for index, one in enumerate(wanted):
            known = self._standing.get(one.topic)
            if one.based_on in (None, known.version if known else 0) or (known and known.value == latest[one.topic]):
                continue
            stands = f"version {known.version} stands, by {known.by}" if known else "none stands"
            problems.append(problem_of(index, one, f"{one.id} is based on version {one.based_on}, but {stands}"))
        if problems:
            raise Overtaken(problems)

    def _versions(self, latest: Mapping[str, RegistryValue], by: str) -> dict[str, Entry]:
        """Return the new versions by topic, of the values that do not stand already."""
        now_ms = self.clock.now_ms()
        entries = {}
        for topic, value in latest.items():
            known = self._standing.get(topic)
            if known is None or known.value != value:
                kind, _, id_ = topic.partition("/")
                entries[topic] = Entry(kind, id_, known.version + 1 if known else 1, now_ms, by, value)
        return entries

    def streams(self) -> Definitions:
        """Return how each stream is managed, as the registry stands now. Raises RetryLater when the log can not be read now."""
        with self._lock:
            self._catch_up()
            definitions = Definitions()
            for entry in self._standing.values():
                if entry.type == STREAMS:
                    definitions.take(entry.id, entry.version, read_fields(entry.id, msgspec.to_builtins(entry.value)))
            return definitions

    def load_lists(self, ship: str) -> list[LoadList]:
        """Return the ship's load lists as the registry stands now, in order of calls. Raises RetryLater when the log can not be read
        now."""
        with self._lock:
            self._catch_up()
            listed = [entry.value for entry in self._standing.values() if isinstance(entry.value, LoadList) and entry.value.ship == ship]
        return sorted(listed, key=lambda one: one.call)

    def imo_of(self, call_sign: str) -> str:
        """Return the IMO number of the ship of this call sign, as the registry stands now; empty if none, or more than one, has it. Raises
        RetryLater when the log can not be read now."""
        with self._lock:
            self._catch_up()
            ships = [entry.value for entry in self._standing.values() if isinstance(entry.value, Ship)]
        found = [one.imo for one in ships if one.call_sign.upper() == call_sign.upper()]
        return found[0] if len(found) == 1 else ""

    def ship(self, imo: str) -> Ship | None:
        """Return the ship as the registry stands now, or None. Raises RetryLater when the log can not be read now."""
        with self._lock:
            self._catch_up()
            entry = self._standing.get(f"ship/{imo}")
        return entry.value if entry is not None and isinstance(entry.value, Ship) else None

    def papers_of(self, numbers: Collection[str], ships: Collection[str]) -> Registry:
        """Return the registry as it stands now for these containers: their bookings and custody, every ship, the carrier's policy, and the
        load lists of `ships` (IMO numbers). Raises RetryLater when the log can not be read."""
        with self._lock:
            self._catch_up()
            return Registry(entry for entry in self._standing.values() if _concerns(entry, numbers, ships))

    def record_alerts(self, made: Sequence[MadeRecord]) -> None:
        """Append a person's acts on alerts to `alerts`, in one commit. Raises RetryLater when the node is away."""
        self.door.append([Append("alerts", to_batch([Record(one.topic, device_at_ms=one.at_ms, body=one.body) for one in made]))])

    def _catch_up(self) -> None:
        end = self.reader.position(STREAM)
        for batch in self.reader.read(STREAM, self._position):
            for row in batch.records.column("body").to_pylist():
                try:
                    self._learn(parse_entry(row or "null"))
                except BadEntry:
                    continue  # of another version of this program: it stands in nobody's way
        self._position = self._position.merged(end)

    def _learn(self, entry: Entry) -> None:
        known = self._standing.get(entry.topic)
        if known is None or known.version < entry.version:
            self._standing[entry.topic] = entry

    def _appended(self, entries: Sequence[Entry]) -> bool:
        """Return whether the log took the entries; it does not when another registrar wrote after `_position`."""
        records = to_batch([_record(entry) for entry in entries])
        try:
            [answer] = self.door.append([Append(STREAM, records, PRODUCER, sum(self._position.values()))])
        except LandfallError:  # whether it is in the log, the log says: what stands is read again
            self._standing, self._position = {}, Position()
            raise
        if answer.repeated:
            return False
        for entry in entries:
            self._learn(entry)
        return True


def _concerns(entry: Entry, numbers: Collection[str], ships: Collection[str]) -> bool:
    value = entry.value
    if isinstance(value, LoadList):
        return value.ship in ships
    if isinstance(value, Custody):
        return entry.id in numbers
    return isinstance(value, Ship | Policy) or (isinstance(value, Booking) and any(box.container in numbers for box in value.containers))


def _record(entry: Entry) -> Record:
    return Record(entry.topic, device_at_ms=entry.at_ms, body=entry_body(entry))
