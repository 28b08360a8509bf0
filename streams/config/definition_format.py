"""A stream's definition as people and the registry write it: read into fields, or every problem it has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from streams.config.roles import Lane
from streams.config.selectors import NAMESAKE, NODE, problem_of
from streams.config.stream_definitions import DEFAULTS, HEADQUARTERS_WRITES, HEADQUARTERS_WRITES_TOO, NEVER_ABOARD, STANDING, Definition
from streams.model.identifiers import STREAM_PATTERN

SELECTORS_MAX = 64
_PATTERN = re.compile(rf"\*|{STREAM_PATTERN.pattern}[./]?\*")
_LANES = {lane.name.lower(): lane for lane in Lane}
_FOR_CUSTOMERS = ("customers", "terms")
"""Streams of all customers: no ship holds them."""


def is_name_or_pattern(name: str) -> bool:
    """Return whether `name` can be a stream's (`customers/duckworks`) or a pattern of streams that ends in a star (`customers/*`)."""
    return bool(STREAM_PATTERN.fullmatch(name) or _PATTERN.fullmatch(name))


def read_fields(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that `value` (a JSON object) sets for the stream or pattern `name`, in the form of `Definitions.take`.

    Raises ValueError with every problem there is, one a line.
    """
    problems = list(_problems(name, value))
    if problems:
        raise ValueError("\n".join(problems))
    fields: dict[str, Any] = dict(value)
    for selectors in ("replicate", "originate"):
        if selectors in fields:
            fields[selectors] = tuple(fields[selectors])
    if "lane" in fields:
        fields["lane"] = _LANES[fields["lane"]]
    return fields


def _problems(name: str, value: Mapping[str, Any]) -> Iterator[str]:
    if not is_name_or_pattern(name):
        yield f"a definition is of a stream (customers/duckworks) or of a pattern that ends in a star (customers/*), not {name!r}"
    for field in value:
        if field not in _CHECKS:
            yield f"{field}: a stream has no such setting; it has {', '.join(_CHECKS)}"
    for field, check in _CHECKS.items():
        if field in value:
            yield from (f"{field}: {problem}" for problem in check(value[field]))
    if not isinstance(value.get("replicate", ()), str) and not isinstance(value.get("originate", ()), str):
        yield from _boundaries(name, value)


def _boundaries(name: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each setting that breaks a boundary.

    No setting may show a customer another's boxes or a ship all customers, or let others write what headquarters writes.
    """
    replicate, originate = list(value.get("replicate", ())), value.get("originate")
    family, _, identity = name.partition("/")
    for selector in map(str, replicate):
        kind, _, who = selector.partition("/")
        if kind == "customer" and not (family in _FOR_CUSTOMERS and who in (NAMESAKE, identity)):
            yield f"replicate: {selector!r} may have its own stream customers/{who or '<id>'} and no other"
        if kind == "ship" and any(fnmatchcase(name, pattern) for pattern in NEVER_ABOARD):
            yield f"replicate: no ship may have {name}: it has data of all customers"
        if kind == "ship" and family == "aboard" and who not in (NAMESAKE, identity):
            yield f"replicate: {name} is for its own ship alone, not for {selector!r}"
        if NAMESAKE in selector and family not in ("aboard", *_FOR_CUSTOMERS):
            yield f"replicate: {NAMESAKE} stands for the identity in aboard/…, customers/… and terms/… alone, not in {name}"
    if originate is not None and list(originate) != ["hq"] and any(fnmatchcase(name, pattern) for pattern in HEADQUARTERS_WRITES):
        yield f"originate: {name} is written by headquarters alone"
    if originate is not None and name in HEADQUARTERS_WRITES_TOO and not {"hq", "*"}.intersection(map(str, originate)):
        yield f"originate: headquarters writes {name} too: say hq among the others"
    retention = value.get("retention")
    if isinstance(retention, Mapping) and any(retention.values()) and any(fnmatchcase(name, pattern) for pattern in STANDING):
        yield f"retention: {name} is kept for ever: its latest records hold until there are newer ones"
    home, writers = value.get("home", Definition().home), tuple(originate or _writers(name))
    if replicate and isinstance(home, str) and writers != (home,) and not _reaches(replicate, home):
        yield f"home: {home!r} is not among those it is replicated to, so it would never have it"


def _reaches(selectors: list[Any], home: str) -> bool:
    kind = home.partition("/")[0]
    return home in selectors or kind in selectors or kind == NODE


def _writers(name: str) -> tuple[str, ...]:
    fields = DEFAULTS.get(name) or next((fields for pattern, fields in DEFAULTS.items() if fnmatchcase(name, pattern)), {})
    written: tuple[str, ...] = fields.get("originate", Definition().originate)
    return written


def _retention(given: Any) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f'it is like {{"age_days": 30, "bytes": null}}, not {given!r}'
        return
    for field, amount in given.items():
        if field not in ("age_days", "bytes"):
            yield f"it has age_days and bytes, no {field}"
        elif amount is not None and not (_number(amount) and amount > 0 and (field == "age_days" or isinstance(amount, int))):
            yield f"{field} is {'a whole' if field == 'bytes' else 'a'} number above 0, or null for no end, not {amount!r}"


def _selectors(given: Any) -> Iterator[str]:
    if isinstance(given, str) or not isinstance(given, list | tuple) or not 0 < len(given) <= SELECTORS_MAX:
        yield f"it is a list of 1 to {SELECTORS_MAX} nodes or roles, not {given!r}"
        return
    for selector in given:
        problem = problem_of(selector) if isinstance(selector, str) else f"{selector!r} is no text"
        if problem:
            yield problem


def _writers_named(given: Any) -> Iterator[str]:
    named = [selector for selector in given if selector != "*"] if isinstance(given, list | tuple) else given
    if named or not isinstance(given, list | tuple) or not given:
        yield from _selectors(named)
    if isinstance(named, list):
        for selector in map(str, named):
            if selector.startswith("customer"):
                yield f"{selector!r}: a customer writes nothing"
            elif "/" in selector and not selector.startswith("node/"):
                yield f"{selector!r}: who writes is named by role (port) or by node (node/tokyo)"


def _home(given: Any) -> Iterator[str]:
    problem = problem_of(given) if isinstance(given, str) else f"it is a node, not {given!r}"
    if problem:
        yield problem
    elif given.startswith("customer"):
        yield f"{given!r} writes nothing, so nobody would hear what it has"


def _lane(given: Any) -> Iterator[str]:
    if given not in _LANES:
        yield f"it is one of {', '.join(_LANES)}, not {given!r}"


def _patience(given: Any) -> Iterator[str]:
    if given is not None and not (_number(given) and given >= 0):
        yield f"it is a number of seconds from 0, or null for as long as it takes, not {given!r}"


def _access(given: Any) -> Iterator[str]:
    if given != "":
        yield "not enforced yet: leave it out, and say who may have the stream by `replicate`"


def _number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)


_CHECKS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "retention": _retention,
    "home": _home,
    "replicate": _selectors,
    "originate": _writers_named,
    "lane": _lane,
    "patience_s": _patience,
    "access": _access,
}
