"""How each stream is managed: retention, home, who gets it, who writes it, its lane, its patience and its access; the defaults, and what
headquarters has set since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from streams.config.companion_streams import parent_of
from streams.config.roles import Lane, Peer, Role
from streams.config.selectors import NAMESAKE, matches, matches_node

TERMS = "terms/"
"""Prefix of the streams in which headquarters sends customers' own nodes the terms of their streams."""
TYPE = "stream"
"""Type of a definition's registry entries: their topic is `stream/<name or pattern>`."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Time and size for which a copy keeps a stream: `age_days` of fleet time, and at most `bytes` stored. None: no limit."""

    age_days: float | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """Management of one stream. `home`, `replicate`, `originate`: selectors of nodes, as `streams/config/selectors.py` reads them.

    `home` has it durably before age or bytes drop it anywhere. `patience_s`: how long a consumer waits at a hole (None: for ever).
    `access`: an expression kept as it was written.
    """

    retention: Retention = Retention()
    home: str = "hq"
    replicate: tuple[str, ...] = ("port", "hq")
    originate: tuple[str, ...] = ("*",)
    lane: Lane = Lane.READINGS
    patience_s: float | None = None
    access: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the whole definition as a registry entry's value."""
        return {
            "retention": {"age_days": self.retention.age_days, "bytes": self.retention.bytes},
            "home": self.home,
            "replicate": list(self.replicate),
            "originate": list(self.originate),
            "lane": self.lane.name.lower(),
            "patience_s": self.patience_s,
            "access": self.access,
        }


HEADQUARTERS_WRITES = ("registry", "aboard/*", "states", "hours", "customers/*", "terms/*", "audit")
"""Streams, by pattern, that headquarters alone may originate, whatever is set of them."""

HEADQUARTERS_WRITES_TOO = ("alerts", "reports")
"""Streams that headquarters' own programs write in addition to other writers, whatever the settings say: without this right they would
stop."""

NEVER_ABOARD = ("registry", "customers/*", "terms/*", "audit")
"""Patterns of the streams that no ship may have, whatever the settings say: these streams hold data of all customers."""

NAMES_MAX = 65_536
"""Maximum number of streams whose definition is cached: peers may ask for names without end."""

STANDING = ("registry", "aboard/*", "consumers", "homes", "states", "terms/*")
"""Streams, by pattern, whose latest records hold until there are newer ones: they are never dropped by age or bytes."""

_HQ: dict[str, Any] = {"originate": ("hq",)}
_FOR_EVER: dict[str, Any] = {"retention": {"age_days": None, "bytes": None}}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "alerts": {"lane": Lane.ALERTS, "patience_s": 0.0, "originate": ("ship", "port", "hq")},
    "registry": {"lane": Lane.ALERTS, **_HQ, **_FOR_EVER},
    "aboard/*": {"lane": Lane.ALERTS, **_HQ, **_FOR_EVER, "replicate": ("port", "hq", f"ship/{NAMESAKE}")},
    "consumers": {"lane": Lane.METRICS, **_FOR_EVER},
    "homes": {"lane": Lane.METRICS, **_FOR_EVER},
    "events": {"lane": Lane.EVENTS},
    "reports": {"lane": Lane.EVENTS, "originate": ("ship", "hq")},
    "decisions": {"lane": Lane.EVENTS, "originate": ("ship",)},
    "ships": {"lane": Lane.SHIPS, "originate": ("ship",)},
    "answers": {"lane": Lane.SHIPS, "originate": ("ship",)},
    "digests": {"lane": Lane.READINGS, "originate": ("ship",)},
    "metrics": {"lane": Lane.METRICS},
    "exceptions": {"lane": Lane.EXCEPTIONS},
    "audit": {"lane": Lane.EVENTS, **_HQ, "replicate": ("hq",), "retention": {"age_days": 400.0, "bytes": None}},
    "states": {**_HQ, **_FOR_EVER},
    "hours": _HQ,
    "customers/*": {**_HQ, "replicate": (f"customer/{NAMESAKE}",)},
    "terms/*": {**_HQ, **_FOR_EVER, "replicate": ("port", "hq", f"customer/{NAMESAKE}")},
}
"""Differences from `Definition()` while headquarters has set nothing.

A ship takes what was made for it and no more. A customer takes its own stream and the terms on which it has it. Ports and headquarters
take all but customers' streams, which stay where they were made and with the customer.
"""


def terms_of(customer: str) -> str:
    """Return the stream in which headquarters sends this customer's own node the terms of its stream. `customer`: the customer's id."""
    return TERMS + customer


def stream_of(customer: str) -> str:
    """Return the stream of the records that a customer (its id) may see."""
    return f"customers/{customer}"


class Definitions:
    """Definitions in force at one node now. Reading is safe from any thread; one thread changes them.

    A field that one definition leaves open comes from the next less special one: a name's own, then patterns by their length, then the
    defaults.
    """

    def __init__(self, own: Mapping[str, Retention] = MappingProxyType({})) -> None:
        """Start with the defaults. `own`: how this copy keeps streams, by name or pattern, whatever headquarters sets."""
        self._set: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self._own = dict(own)
        self._known: dict[str, Definition] = {}

    def of(self, stream: str) -> Definition:
        """Return how `stream` is managed. A stream derived from another (`.kept`, `.heads`) is managed as that one."""
        known = self._known.get(stream)
        if known is None:
            if len(self._known) >= NAMES_MAX:
                self._known = {}
            known = self._known[stream] = self._made(stream)
        return known

    def versions(self) -> dict[str, int]:
        """Return every name or pattern that headquarters has set, and the version in force."""
        return {name: version for name, (version, _) in sorted(self._set.items())}

    def value(self, name: str) -> dict[str, Any]:
        """Return what headquarters has set for this very name or pattern, as a registry entry's value; empty when nothing."""
        fields = self._set.get(name, (0, {}))[1]
        return {field: value.name.lower() if isinstance(value, Lane) else value for field, value in fields.items()}

    def take(self, name: str, version: int, fields: Mapping[str, Any]) -> bool:
        """Set `name` to `fields` (of `streams.config.definition_format.read_fields`). Return False when this version or a later one is
        set already."""
        if name in self._set and self._set[name][0] >= version:
            return False
        self._set = {**self._set, name: (version, dict(fields))}
        self._known = {}
        return True

    def keep(self, name: str, retention: Retention) -> None:
        """Set how this copy keeps streams of this name or pattern, whatever headquarters sets."""
        self._own[name] = retention
        self._known = {}

    def kept_here(self, stream: str) -> Retention | None:
        """Return how this copy keeps `stream` by the most special of its own settings; None where they have no entry, and for STANDING."""
        parent = parent_of(stream)
        names = [name for name in self._own if fnmatchcase(parent, name) and not _any(STANDING, parent)]
        return self._own[max(names, key=_speciality)] if names else None

    def set_for_all(self, stream: str) -> Retention:
        """Return how `stream` is kept wherever a node's own settings have no entry for it."""
        return self._layered(parent_of(stream)).retention

    def _made(self, stream: str) -> Definition:
        definition = self._layered(parent_of(stream))
        return replace(definition, retention=self.kept_here(stream) or definition.retention)

    def _layered(self, parent: str) -> Definition:
        definition = Definition()
        names = {name for name in (*DEFAULTS, *self._set) if fnmatchcase(parent, name)}
        for name in sorted(names, key=_speciality):
            for fields in (DEFAULTS.get(name, {}), self._set.get(name, (0, {}))[1]):
                definition = replace(definition, **_laid_over(definition, fields, _namesake(name, parent)))
        return definition


def may_have(peer: Peer, definition: Definition) -> bool:
    """Return whether `peer` may be sent a stream of this definition at all. Default deny."""
    return any(matches(selector, peer) for selector in definition.replicate)


def may_originate(definition: Definition, role: Role | None, node: str) -> bool:
    """Return whether `node` of this role (None: an unknown one) may write records of its own into the stream. Checked at every node.

    A customer writes nothing. Streams that headquarters alone writes are believed from a node known to be headquarters, and from no
    other.
    """
    if role == "customer":
        return False
    return any(selector == "*" or matches_node(selector, role, node) for selector in definition.originate)


def could_have(peer: Peer, stream: str) -> bool:
    """Return whether headquarters could let `peer` have `stream`, whatever is set now. Excludes what no setting may allow (default
    deny)."""
    parent = parent_of(stream)
    match peer.role:
        case "customer":
            return parent in (stream_of(peer.identity), terms_of(peer.identity))
        case "ship":
            foreign = parent.startswith("aboard/") and parent != f"aboard/{peer.identity}"
            return not foreign and not _any(NEVER_ABOARD, parent)
    return True


def could_originate(stream: str, role: Role | None) -> bool:
    """Return whether headquarters could let a node of this role (None: unknown) write records of its own into `stream`."""
    return role == "hq" if _any(HEADQUARTERS_WRITES, parent_of(stream)) else role != "customer"


def is_home(peer: Peer, definition: Definition) -> bool:
    """Return whether `peer` is the stream's home."""
    return matches(definition.home, peer)


def _any(patterns: tuple[str, ...], stream: str) -> bool:
    return any(fnmatchcase(stream, pattern) for pattern in patterns)


def _laid_over(below: Definition, fields: Mapping[str, Any], namesake: str) -> dict[str, Any]:
    laid = dict(fields)
    if "retention" in laid:
        laid["retention"] = replace(below.retention, **laid["retention"])
    if "replicate" in laid:
        laid["replicate"] = tuple(selector.replace(NAMESAKE, namesake) for selector in laid["replicate"])
    return laid


def _speciality(name: str) -> tuple[bool, int, str]:
    return "*" not in name, len(name), name


def _namesake(name: str, stream: str) -> str:
    """Return the part of `stream` that the pattern's `*` stands for; for a plain name, the part after its slash."""
    return stream[len(name) - 1 :] if name.endswith("*") else stream.partition("/")[2]
