"""DCSA Track & Trace 3.0 (draft of June 2026): its IoT and reefer events to readings; one event, a list, or a `POST /events` body.

These become signals: position, door, motion, a reefer's power, setpoint, supply, return, ambient, probes 1 to 3, O2, CO2 and humidity.
Fahrenheit becomes Celsius. The record's body keeps, under `dcsa`, the event's ID, its type and other data that a claims handler may need.
It also keeps measurements without a signal here: other probes, the sensors of the air, ventilation. The draft names no device: its name is
the vendor and model in an event, and its container. `eventDateTime` is the device's time.

Both spellings of 3.0 are read: `eventType`, `ACTUAL`, `DOOR_OPENED`, and those of the conformance gateway, `eventTypeCode`, `ACT`, `DRO`.
Planned and estimated events, retractions and events of other types are no readings."""

from __future__ import annotations

import re
from typing import Any

import orjson

from cargo.vocabulary.reading_batches import DEVICE_CHARS_MAX
from cargo.vocabulary.trade_codes import compact_container
from intake.decoders.decoder_port import Decoded, reading_of
from streams.model.errors import InvalidValue

Fields = dict[str, Any]
_FLAGS = {
    "DOOR_OPENED": ("door_open", True),
    "DRO": ("door_open", True),
    "DOOR_CLOSED": ("door_open", False),
    "MOTION_START": ("motion", True),
    "MOTION_STOP": ("motion", False),
}
_EVENTS = ("iotEventType", "iotEventCode", "iotEventTypeCode", "reeferEventType", "reeferEventTypeCode")
_POWER = {"POWER_ON": True, "POWER_OFF": False}
_PROBES = {"P19": 1, "P20": 2, "P21": 3}
"""Keys of the Container Owners Association's data model for the three USDA probes."""
_KEPT = ("alarms", "numberOfActiveAlarms", "setpointParameters", "lastDefrostDateTime", "reason")
_OF_THE_AIR = {"o2_pct": "o2Percentage", "co2_pct": "co2Percentage", "humidity_pct": "humidityPercentage"}
_DEGREES = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
"""Pattern of ISO 6709, in decimal degrees. Python accepts `nan`, `1_0` and other scripts' digits as numbers too."""
PROBLEMS_MAX = 5


def decode_dcsa(payload: bytes) -> Decoded:
    """Return the readings in a payload of DCSA events, and which of its events are none, with the reason.

    Raises ValueError for anything but JSON of events."""
    whole = orjson.loads(payload)
    events = whole.get("events", [whole]) if isinstance(whole, dict) else whole
    if not isinstance(events, list):
        raise InvalidValue("neither an event nor a list of events", code="event_missing")
    messages, problems = [], []
    for number, event in enumerate(events, 1):
        try:
            messages.append(_reading(event))
        except (ValueError, TypeError, AttributeError, LookupError) as problem:
            problems.append(f"event {number}: {problem}")
    more = f"; and {len(problems) - PROBLEMS_MAX} more" if len(problems) > PROBLEMS_MAX else ""
    return Decoded(messages, "; ".join(problems[:PROBLEMS_MAX]) + more)


def _reading(event: Any) -> tuple[bytes, bytes]:
    """Return the reading in an event. Raises ValueError with the reason for an event that is no reading."""
    if not isinstance(event, dict):
        raise InvalidValue("it is no JSON object", code="event_missing")
    kind, equipment = _in(event, "eventClassification"), _in(event, "equipmentDetails")
    if (type_ := _first(kind, "eventType", "eventTypeCode")) not in ("IOT", "REEFER"):
        raise InvalidValue(f"an event of type {type_} is no reading", code="event_no_reading")
    if (classifier := _first(kind, "eventClassifier", "eventClassifierCode")) not in (None, "ACTUAL", "ACT"):
        raise InvalidValue(f"{classifier} is not what was measured", code="event_not_measured")
    if event.get("isRetracted"):
        raise InvalidValue("it is retracted, and a log takes nothing back", code="event_retracted")
    container = compact_container(str(equipment.get("equipmentReference") or ""))
    if not container:
        raise InvalidValue("it names no container", code="container_missing")
    event_name = _first({**_in(event, "iotDetails"), **kind}, *_EVENTS)
    fields = {
        "device": _device(event, container),
        "at": event.get("eventDateTime"),
        **_position(event),
        **_reefer(_in(event, "reeferDetails")),
    }
    if event_name in _FLAGS:
        name, value = _FLAGS[event_name]
        fields[name] = value
    return reading_of(container, {**{name: value for name, value in fields.items() if value is not None}, "dcsa": _kept(event, event_name)})


def _device(event: Fields, container: str) -> str:
    iot, reefer = _in(event, "iotDetails"), _in(event, "reeferDetails")
    maker = [iot.get("deviceVendor"), iot.get("deviceModel")]
    maker = maker if any(maker) else [reefer.get("unitManufacturer"), reefer.get("controllerModel") or reefer.get("unitModel")]
    parts = ["".join(one for one in str(part) if one.isprintable()) for part in (*maker, container) if part]
    return " ".join(parts)[-DEVICE_CHARS_MAX:]


def _position(event: Fields) -> Fields:
    """Return latitude and longitude, which are texts in the draft; a text that is no number is passed on as it is, to be refused with its
    value."""
    where = _in(_in(event, "eventLocation"), "geoCoordinate")
    return {f"{name}_deg": _number(where[name]) for name in ("latitude", "longitude") if where.get(name) is not None}


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _DEGREES.fullmatch(value.strip()) else value


def _reefer(details: Fields) -> Fields:
    measured = _in(details, "measuredParameters")
    temperatures: Fields = {
        "setpoint_c": details.get("internalSetpointTemperature"),
        "supply_c": _in(details, "supplyAirTemperatureMeasurement").get("temperatureValue"),
        "return_c": _in(details, "returnAirTemperatureMeasurement").get("temperatureValue"),
        "ambient_c": details.get("ambientMeasuredTemperature"),
        **_probes(details)[0],
    }
    unit = details.get("temperatureUnit")
    if unit not in ("CEL", "FAH") and any(value is not None for value in temperatures.values()):
        raise InvalidValue(f"its temperatures are in {unit or 'no unit'}, neither CEL nor FAH", code="unit_unknown")
    if unit == "FAH":
        temperatures = {name: _celsius(value) for name, value in temperatures.items()}
    return {
        **temperatures,
        "power_on": _POWER.get(details.get("powerStatus") or ""),
        **{signal: measured.get(name) for signal, name in _OF_THE_AIR.items()},
    }


def _probes(details: Fields) -> tuple[Fields, list[Fields]]:
    """Return the USDA probes as signals, and the measurements of all others, of a second one of the same number too."""
    signals: Fields = {}
    others = []
    for probe in details.get("temperatureProbeMeasurements") or ():
        if not isinstance(probe, dict):
            raise InvalidValue("a probe's measurement is no JSON object", code="measurement_invalid")
        number = probe.get("USDAProbeNumber") or _PROBES.get(str(probe.get("COAProbeUDMKey")))
        if number in (1, 2, 3) and f"probe{number}_c" not in signals:
            signals[f"probe{number}_c"] = probe.get("measuredTemperatureValue")
        else:
            others.append(probe)
    return signals, others


def _celsius(fahrenheit: Any) -> Any:
    return round((fahrenheit - 32) / 1.8, 2) if isinstance(fahrenheit, int | float) and not isinstance(fahrenheit, bool) else fahrenheit


def _kept(event: Fields, event_name: Any) -> Fields:
    details, where = _in(event, "reeferDetails"), _in(event, "eventLocation")
    kept = {
        "eventID": event.get("eventID"),
        "eventType": _first(_in(event, "eventClassification"), "eventType", "eventTypeCode"),
        "event": event_name,
        "eventUpdatedDateTime": event.get("eventUpdatedDateTime"),
        **{name: where.get(name) for name in ("UNLocationCode", "locationName", "facilityType", "facility")},
        "devicePowerStatus": _in(event, "iotDetails").get("powerStatus"),
        **{name: event.get(name) or details.get(name) for name in _KEPT},
        **_measured_otherwise(details),
    }
    return {name: value for name, value in kept.items() if value is not None}


def _measured_otherwise(details: Fields) -> Fields:
    """Return the measurements without a signal here, by their names in the draft, degrees as they came."""
    air = {name: _in(details, f"{name}AirTemperatureMeasurement").get("sensorReadings") for name in ("supply", "return")}
    parameters = {name: value for name, value in _in(details, "measuredParameters").items() if name not in _OF_THE_AIR.values()}
    status = details.get("powerStatus")
    measurements: Fields = {
        "temperatureProbeMeasurements": _probes(details)[1] or None,
        "supplyAirSensorReadings": air["supply"],
        "returnAirSensorReadings": air["return"],
        "measuredParameters": parameters or None,
        "reeferPowerStatus": None if status in _POWER else status,
    }
    degrees = any(measurements[name] for name in ("temperatureProbeMeasurements", "supplyAirSensorReadings", "returnAirSensorReadings"))
    return {**measurements, "temperatureUnit": details.get("temperatureUnit") if degrees else None}


def _first(fields: Fields, *names: str) -> Any:
    """Return the first of these fields that has a value."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _in(fields: Fields, name: str) -> Fields:
    inner = fields.get(name)
    return inner if isinstance(inner, dict) else {}
