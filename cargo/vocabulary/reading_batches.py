"""Payloads of sensors into checked readings, column by column: what is kept, what is refused, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cargo.vocabulary.payload_json import READINGS_MAX, NotANumber, is_inexact, read_exactly, read_json, time_text_ms
from cargo.vocabulary.position_fixes import COORDINATES, no_fixes, without_no_fixes
from cargo.vocabulary.signals import SIGNALS, Signal

DEVICE_CHARS_MAX = 100
TEXT_CHARS_MAX = 200
NESTING_MAX = 16
AT_MS_MAX = 1 << 53
OWN_FIELDS = frozenset({"flags", "refused"})
"""Names that the body uses for itself: a payload's own fields of these names are refused, so that nobody mistakes them for ours."""

ARROW_TYPES: dict[str, pa.DataType] = {"float": pa.float64(), "int": pa.int64(), "bool": pa.bool_(), "text": pa.string()}
_QUICK_KINDS: dict[str, frozenset[type]] = {
    "float": frozenset({float, int, type(None)}),
    "int": frozenset({int, type(None)}),
    "bool": frozenset({bool, type(None)}),
    "text": frozenset({str, type(None)}),
}
_KNOWN_FIELDS = SIGNALS.keys() | {"device", "at"}
_BEARINGS = frozenset({"course_deg", "heading_deg"})


class Refusal(msgspec.Struct, frozen=True):
    """Reason to refuse a payload or a reading of a list: `malformed` (no JSON object, no device) or `bad_value` (all its fields are
    impossible)."""

    outcome: Literal["malformed", "bad_value"]
    reason: str


@dataclass(slots=True)
class ReadingColumns:
    """Readings of many payloads as columns; `rows[i]` is the number of the payload of row i, which may have had more readings.

    `signals`: one Arrow array per signal any row carries, of the type `cargo.vocabulary.signals` declares, null where a row lacks it.
    `unknown` and `refused`: by row, the fields that are no signals and the values that can not be true, as they came. `device_at_ms`: UTC
    ms by the device's clock; None when the payload has no time that can be read (it is then in `refused`, if it came)."""

    rows: list[int]
    devices: list[str]
    device_at_ms: list[int | None]
    signals: dict[str, pa.Array]
    unknown: dict[int, dict[str, Any]]
    refused: dict[int, dict[str, Any]]
    refusals: dict[int, Refusal]


def read_payloads(payloads: Sequence[bytes]) -> ReadingColumns:
    """Return the readings of payloads, each a JSON object or a list of 1 to READINGS_MAX of them.

    `refusals` has the reason for each refused payload, by its number; for a list, that of its first refused reading. Never raises for what
    the payloads contain.

    One bad field costs that field only: it moves to `refused`, and half a position (a latitude without its longitude) with it. A reading
    without any field left is refused whole. One that never had any besides device and time is kept: it was heard."""
    refusals: dict[int, Refusal] = {}
    rows: list[int] = []
    objects: list[dict[str, Any]] = []
    for number, payload in enumerate(payloads):
        try:
            value = read_json(payload)
        except ValueError as problem:
            refusals[number] = Refusal("malformed", f"the payload is no JSON: {problem}")
            continue
        if type(value) is list:
            _take_list(number, value, rows, objects, refusals)
        elif (reason := _unusable(value)) is not None:
            refusals[number] = Refusal("malformed", reason)
        else:
            rows.append(number)
            objects.append(value)
    return _columns(rows, objects, refusals, payloads)


def _take_list(number: int, values: list[Any], rows: list[int], objects: list[dict[str, Any]], refusals: dict[int, Refusal]) -> None:
    if not 0 < len(values) <= READINGS_MAX:
        refusals[number] = Refusal("malformed", f"a list of {len(values):,} readings: it may have 1 to {READINGS_MAX:,}")
        return
    for place, value in enumerate(values, 1):
        if (reason := _unusable(value)) is not None:
            refusals.setdefault(number, Refusal("malformed", f"reading {place} of {len(values)}: {reason}"))
        else:
            rows.append(number)
            objects.append(value)


def in_own_type(name: str, column: pa.Array) -> pa.Array | None:
    """Return a stored column in the type that `cargo.vocabulary.signals` declares; None for another name, or for a type that does not
    fit."""
    signal = SIGNALS.get(name)
    if signal is None:
        return None
    wanted = ARROW_TYPES[signal.type]
    if column.type == wanted:
        return column
    if column.type == pa.int64() and wanted == pa.float64():
        try:
            return column.cast(wanted)
        except pa.ArrowInvalid:
            return None  # a whole number that no float is
    return None


def north_is_zero(column: pa.Array) -> pa.Array:
    """Return a column of bearings (float64) in which 360 degrees is 0."""
    return pc.if_else(pc.equal(column, 360.0), 0.0, column) if pc.any(pc.equal(column, 360.0)).as_py() else column


def believed(name: str, column: pa.Array) -> pa.Array | None:
    """Return a stored column as rules use it: in its own type, and null where a value can not be true. None where nothing is left.

    Such values are refused in payloads. Records that programs append or nodes transfer were never checked as a payload."""
    signal = SIGNALS.get(name)
    if signal is None or column.null_count == len(column):
        return None
    wanted = ARROW_TYPES[signal.type]
    own = column.cast(wanted, safe=False) if column.type == pa.int64() and wanted == pa.float64() else column  # what rounds is out of range
    if own.type != wanted:
        return None
    if name in _BEARINGS:
        own = north_is_zero(own)
    if _all_true(signal, own):
        return own
    left = pa.array([None if value is None else _kept(signal, value) for value in own.to_pylist()], own.type)
    return left if left.null_count < len(left) else None


def _all_true(signal: Signal, own: pa.Array) -> bool:
    """Return whether all values of the column can be true. As `_in_range`, in a fifth of its time where there are few, and NaN can not."""
    if signal.low is None or signal.high is None:
        return _in_range(signal, own)
    values = own.to_numpy(zero_copy_only=False)  # nulls are NaN
    true = int(np.count_nonzero((values >= signal.low) & (values <= signal.high)))
    return true == len(own) - int(own.null_count)


def _unusable(fields: Any) -> str | None:
    if type(fields) is not dict:
        return f"it is a JSON {type(fields).__name__}, not an object"
    device = fields.get("device")
    if type(device) is not str:
        return "it names no device"
    if not 0 < len(device) <= DEVICE_CHARS_MAX or not device.isprintable():
        return f"a device's name is 1 to {DEVICE_CHARS_MAX} printable characters"
    return None


def _columns(rows: list[int], objects: list[dict[str, Any]], refusals: dict[int, Refusal], payloads: Sequence[bytes]) -> ReadingColumns:
    refused: dict[int, dict[str, Any]] = {}
    signals: dict[str, pa.Array] = {}
    names = set().union(*objects) if objects else set()
    measured = names & SIGNALS.keys()
    values = _values(measured | {"device", "at"}, objects)
    for name in sorted(measured):
        column = _signal_column(SIGNALS[name], values[name], refused)
        if column.null_count < len(objects):
            signals[name] = column
    for name in _BEARINGS & signals.keys():
        signals[name] = north_is_zero(signals[name])
    _whole_positions(signals, refused)
    unknown = _unknown_fields(objects, refused) if len(names) > len(measured | (names & {"device", "at"})) else {}
    readings = ReadingColumns(
        rows=rows,
        devices=values["device"],
        device_at_ms=_times(values["at"], refused),
        signals=signals,
        unknown=unknown,
        refused=refused,
        refusals=refusals,
    )
    if not refused and not unknown:
        return readings
    _keep_digits(readings, payloads)
    return _without_emptied(readings, objects)


def _keep_digits(readings: ReadingColumns, payloads: Sequence[bytes]) -> None:
    """Restore all digits of the whole numbers of fields that are no signals: card and device numbers have up to 22."""
    for kept in (readings.unknown, readings.refused):
        for row, fields in kept.items():
            names = [name for name, value in fields.items() if is_inexact(value)]
            if names and type(whole := read_exactly(payloads[readings.rows[row]], None)) is dict:
                fields.update({name: whole[name] for name in names})


def _values(names: set[str], objects: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return by field the value in each payload, None where it is absent.

    Payloads with the same fields in one order are transposed at once."""
    order = list(objects[0]) if objects else []
    if names.issubset(order) and all(map(order.__eq__, map(list, objects))):
        return dict(zip(order, map(list, zip(*map(dict.values, objects), strict=True)), strict=True))
    return {name: [fields.get(name) for fields in objects] for name in names}


def _signal_column(signal: Signal, values: list[Any], refused: dict[int, dict[str, Any]]) -> pa.Array:
    """Return the column of a signal: at once when every value has the declared type and lies in range, else value by value."""
    if _QUICK_KINDS[signal.type].issuperset(map(type, values)):
        try:
            column = pa.array(values, ARROW_TYPES[signal.type])
        except (pa.ArrowInvalid, OverflowError):
            column = None  # a whole number too large for its column
        if column is not None and _in_range(signal, column):
            return column
    kept = [_kept(signal, value) for value in values]
    for row, value in enumerate(values):
        if value is not None and kept[row] is None:
            refused.setdefault(row, {})[signal.name] = value
    return pa.array(kept, ARROW_TYPES[signal.type])


def _in_range(signal: Signal, column: pa.Array) -> bool:
    if signal.type == "bool" or column.null_count == len(column):
        return True
    if signal.type == "text":
        return bool(pc.max(pc.utf8_length(column)).as_py() <= TEXT_CHARS_MAX)
    low, high = pc.min_max(column).as_py().values()
    return signal.low is not None and signal.high is not None and bool(signal.low <= low and high <= signal.high)


def _kept(signal: Signal, value: Any) -> Any:
    """Return `value` in the signal's own type, or None when it can not be one."""
    kind = type(value)
    if signal.type == "bool":
        return value if kind is bool else None
    if signal.type == "text":
        return value if kind is str and len(value) <= TEXT_CHARS_MAX else None
    if kind not in (int, float) or signal.low is None or signal.high is None or not signal.low <= value <= signal.high:
        return None
    if signal.type == "float":
        return float(value)
    return int(value) if value == int(value) else None


def _whole_positions(signals: dict[str, pa.Array], refused: dict[int, dict[str, Any]]) -> None:
    """Remove half positions, where one coordinate was refused, and positions that are no fix."""
    if all(name in signals for name in COORDINATES):
        kept = without_no_fixes(*(signals[name] for name in COORDINATES))
        for row in pc.indices_nonzero(no_fixes(*(signals[name] for name in COORDINATES))).to_pylist():
            refused.setdefault(row, {}).update(dict.fromkeys(COORDINATES, 0.0))
        signals.update(zip(COORDINATES, kept, strict=True))
    for name, other in (COORDINATES, COORDINATES[::-1]):
        rows = [row for row, fields in refused.items() if name in fields and other not in fields]
        if not rows or other not in signals:
            continue
        values = signals[other].to_pylist()
        for row in rows:
            if values[row] is not None:
                refused[row][other] = values[row]
                values[row] = None
        signals[other] = pa.array(values, pa.float64())
    for name in COORDINATES:
        if name in signals and signals[name].null_count == len(signals[name]):
            del signals[name]


def _times(values: list[Any], refused: dict[int, dict[str, Any]]) -> list[int | None]:
    if {int}.issuperset(map(type, values)) and (not values or (min(values) >= 0 and max(values) < AT_MS_MAX)):
        return values
    times = [_time_ms(value) for value in values]
    for row, value in enumerate(values):
        if value is not None and times[row] is None:
            refused.setdefault(row, {})["at"] = value
    return times


def _time_ms(value: Any) -> int | None:
    if type(value) is str:
        return time_text_ms(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < AT_MS_MAX else None


def _unknown_fields(objects: list[dict[str, Any]], refused: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    unknown: dict[int, dict[str, Any]] = {}
    for row, fields in enumerate(objects):
        own = {name: value for name, value in fields.items() if name not in _KNOWN_FIELDS}
        impossible = [name for name, value in own.items() if name in OWN_FIELDS or type(value) is NotANumber]
        if taken := {name: own.pop(name) for name in impossible}:
            refused.setdefault(row, {}).update(taken)
        if own:
            unknown[row] = own
    return unknown


def _without_emptied(readings: ReadingColumns, objects: list[dict[str, Any]]) -> ReadingColumns:
    """Return the readings without the rows that have nothing useful left, and without those whose body nests too deep to be written."""
    gone: set[int] = set()
    for row, fields in readings.refused.items():
        measured = objects[row].keys() - {"device", "at"}
        if measured and measured == fields.keys() - {"at"}:
            gone.add(row)
            reason = f"nothing is left: no value of {sorted(fields)} can be true"
            readings.refusals.setdefault(readings.rows[row], Refusal("bad_value", reason))
    for row in readings.unknown.keys() | readings.refused.keys():
        if not all(_writable(value) for kept in (readings.unknown, readings.refused) for value in kept.get(row, {}).values()):
            gone.add(row)
            reason = f"a field nests deeper than {NESTING_MAX}"
            readings.refusals.setdefault(readings.rows[row], Refusal("malformed", reason))
    if not gone:
        return readings
    left = [row for row in range(len(readings.rows)) if row not in gone]
    at = {old: new for new, old in enumerate(left)}
    signals = {name: column.take(pa.array(left, pa.int64())) for name, column in readings.signals.items()}
    return ReadingColumns(
        rows=[readings.rows[row] for row in left],
        devices=[readings.devices[row] for row in left],
        device_at_ms=[readings.device_at_ms[row] for row in left],
        signals={name: column for name, column in signals.items() if column.null_count < len(left)},
        unknown={at[row]: fields for row, fields in readings.unknown.items() if row in at},
        refused={at[row]: fields for row, fields in readings.refused.items() if row in at},
        refusals=readings.refusals,
    )


def _writable(value: Any, nesting_left: int = NESTING_MAX) -> bool:
    if type(value) not in (dict, list):
        return True
    inner = value.values() if type(value) is dict else value
    return nesting_left > 0 and all(_writable(one, nesting_left - 1) for one in inner)
