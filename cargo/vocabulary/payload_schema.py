"""The JSON Schema of a sensor's payload, made from the signals, so that it can not drift from what intake takes."""

from __future__ import annotations

from typing import Any

from cargo.vocabulary.payload_json import READINGS_MAX, TIME_TEXT
from cargo.vocabulary.position_fixes import COORDINATES
from cargo.vocabulary.reading_batches import AT_MS_MAX, DEVICE_CHARS_MAX, NESTING_MAX, OWN_FIELDS, TEXT_CHARS_MAX
from cargo.vocabulary.signals import SIGNALS, Signal

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ABOUT = (
    f"One reading, what one device measured at one instant, or a list of 1 to {READINGS_MAX:,} of them. A payload that is valid is taken "
    "whole. Of one that is not, intake keeps what can be true and moves the rest to `refused` in the record's body; only a reading without "
    f"a device, or of which nothing is left, is refused. Fields that are no signals are kept as they are, at most {NESTING_MAX} deep."
)
_AT = (
    "The device's own clock, from 1970 on: UTC milliseconds, or a text of RFC 3339, from 1970-01-01T00:00:00Z on. "
    "Left out: ordered by the time it was received."
)


def payload_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12), as plain JSON values. A null signal is the same as an absent one."""
    unprintable = {"pattern": r"[\u0000-\u001f\u007f-\u00a0\u00ad]"}  # not "^[^…]*$": to some a line ends before a last newline
    device = {"type": "string", "minLength": 1, "maxLength": DEVICE_CHARS_MAX, "not": unprintable}
    at = {
        "description": _AT,
        "anyOf": [
            {"type": "integer", "minimum": 0, "exclusiveMaximum": AT_MS_MAX},
            {"type": "string", "pattern": TIME_TEXT},
            {"type": "null"},
        ],
    }
    reading = {
        "type": "object",
        "required": ["device"],
        "properties": {
            "device": {"description": "The device's name, printable.", **device},
            "at": at,
            **{signal.name: _property(signal) for signal in SIGNALS.values()},
            **dict.fromkeys(sorted(OWN_FIELDS), False),
        },
        "not": {
            "description": "Exactly 0/0 is no position.",
            "required": [*COORDINATES],
            "properties": {name: {"const": 0} for name in COORDINATES},
        },
        "additionalProperties": True,
    }
    one = {"$ref": "#/$defs/reading"}
    return {
        "$schema": DIALECT,
        "title": "Landfall sensor payload",
        "description": _ABOUT,
        "anyOf": [one, {"type": "array", "minItems": 1, "maxItems": READINGS_MAX, "items": one}],
        "$defs": {"reading": reading},
        "examples": [{"device": "TRK-00412", "at": 1777593600000, "return_c": 4.2, "supply_c": 3.9, "setpoint_c": 4.0, "power_on": True}],
    }


def _property(signal: Signal) -> dict[str, Any]:
    unit = {"description": signal.unit} if signal.unit else {}
    match signal.type:
        case "bool":
            return {**unit, "type": ["boolean", "null"]}
        case "text":
            return {**unit, "type": ["string", "null"], "maxLength": TEXT_CHARS_MAX}
        case kind:
            return {**unit, "type": ["integer" if kind == "int" else "number", "null"], "minimum": signal.low, "maximum": signal.high}
