"""Goal: payloads of others become readings through the real endpoint, as their topics say; nothing is lost, nothing breaks intake."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cargo.vocabulary.reading_batches import read_payloads
from intake.decoders.dcsa import decode_dcsa
from intake.decoders.decoder_names import find_decoder
from intake.decoders.decoder_port import Decoded, Decoder, decoded, reading_of
from intake.message_types import Outcome, Publish
from intake.pipeline_batches import believed_times, prepare
from intake.settings import EndpointSettings, PipelineSettings
from intake.topic_routes import Routes
from streams.model.clock import StillClock
from tests.intake.stand import AT, BOX, TOPIC, Publisher, eventually, payload, stand
from tests.support.refusals import refusal

OTHERS = EndpointSettings(port=0, anonymous_publish=("#",))
REEFER: dict[str, Any] = {
    "eventID": "event-MSKU1234565-REEFER-2026-05-01T00:00:00Z",
    "eventDateTime": "2026-05-01T00:00:00Z",
    "eventUpdatedDateTime": "2026-05-01T00:00:07Z",
    "eventRouting": {"originatingParties": [{"partyName": "Big Blue"}]},
    "eventClassification": {"eventType": "REEFER", "eventClassifier": "ACTUAL", "reeferEventType": "MEASURED"},
    "eventLocation": {"UNLocationCode": "JPTYO", "geoCoordinate": {"latitude": "21.30692", "longitude": "126.85410"}},
    "equipmentDetails": {"equipmentReference": BOX, "ISOEquipmentCode": "45R1", "emptyIndicator": "LADEN", "transportPhase": "EXPORT"},
    "reeferDetails": {
        "powerStatus": "POWER_ON",
        "temperatureUnit": "CEL",
        "internalSetpointTemperature": -18.0,
        "supplyAirTemperatureMeasurement": {
            "temperatureValue": -18.4,
            "sensorReadings": [{"temperatureValue": -18.4, "sensorLabel": "P4"}],
        },
        "returnAirTemperatureMeasurement": {"temperatureValue": -17.2},
        "ambientMeasuredTemperature": 24.1,
        "temperatureProbeMeasurements": [
            {"measuredTemperatureValue": -17.9, "USDAProbeNumber": 1},
            {"measuredTemperatureValue": -17.5, "COAProbeUDMKey": "P20"},
            {"measuredTemperatureValue": -16.0, "probeLabel": "Pulp probe B"},
            {"measuredTemperatureValue": -15.5, "COAProbeUDMKey": "P22"},
            {"measuredTemperatureValue": -15.0, "USDAProbeNumber": 1},
        ],
        "measuredParameters": {"humidityPercentage": 80.0, "o2Percentage": 20.9, "co2Percentage": 0.1, "isControlledAtmosphere": False},
        "lastDefrostDateTime": "2026-04-30T22:10:00Z",
        "alarms": [{"code": "AL07", "description": "vent open"}],
        "numberOfActiveAlarms": 1,
        "unitManufacturer": "Frost & Co",
        "controllerModel": "FX-2",
    },
}
DOOR: dict[str, Any] = {
    "eventID": "event-MSKU1234565-IoT-DRO-2026-05-01T01:23:45Z",
    "eventDateTime": "2026-05-01T01:23:45Z",
    "eventClassification": {"eventType": "IOT", "eventClassifier": "ACTUAL", "iotEventType": "DOOR_OPENED"},
    "eventLocation": {"geoCoordinate": {"latitude": "-33.9", "longitude": "151.2"}},
    "equipmentDetails": {"equipmentReference": "MSKU 123456-5"},
    "iotDetails": {"iotEquipmentTechnology": "SMART_CONTAINER", "powerStatus": "POWER_ON", "deviceVendor": "Tick", "deviceModel": "T1"},
}
LOADED = {**DOOR, "eventClassification": {"eventType": "EQUIPMENT", "equipmentEventType": "LOADED"}}


def settings(*decoders: tuple[str, str]) -> PipelineSettings:
    return PipelineSettings.model_validate({"decoders": [{"topic": topic, "decoder": name} for topic, name in decoders]})


DCSA = settings(("dcsa/+/events", "dcsa-tnt-3"))


@pytest.mark.parametrize(
    "classification",
    [
        {"eventType": "IOT", "eventClassifier": "ACTUAL", "iotEventType": "DOOR_OPENED"},
        {"eventTypeCode": "IOT", "eventClassifierCode": "ACT", "iotEventCode": "DRO"},
        {"eventTypeCode": "IOT", "iotEventCode": "DRO"},
    ],
)
def test_both_spellings_of_an_event_are_read(classification: dict[str, str]) -> None:
    """The second is of DCSA's own conformance gateway."""
    made = decode_dcsa(orjson.dumps([DOOR | {"eventClassification": classification}]))
    assert made.problem == ""
    [(_, reading)] = made.messages
    told = orjson.loads(reading)
    assert told["door_open"] is True
    assert told["dcsa"]["eventType"] == "IOT"
    planned = DOOR | {"eventClassification": {**classification, "eventClassifierCode": "PLN", "eventClassifier": "PLANNED"}}
    assert "PLANNED" in decode_dcsa(orjson.dumps([planned])).problem


async def test_dcsa_events_become_readings_at_the_endpoint(tmp_path: Path) -> None:
    """A reefer's measurement, and in one body a door, the same again and a milestone: each reading once; what is none is told."""
    async with stand(tmp_path, OTHERS, DCSA, StillClock(AT + 7_200_000)) as here:
        with Publisher(here.endpoint.port) as publisher:
            await publisher.welcomed()
            publisher.publish("dcsa/bigblue/events", json.dumps(REEFER).encode())
            publisher.publish("dcsa/bigblue/events", json.dumps({"events": [DOOR, DOOR, LOADED]}).encode())
            publisher.publish("dcsa/bigblue/events", json.dumps(REEFER).encode())
            publisher.publish(TOPIC, payload())
            await eventually(lambda: len(publisher.acknowledged) == 4)
        rows = [row.record for row in here.rows("containers")]
        assert [row.topic for row in rows] == [BOX, BOX, BOX]
        reefer, door, _ = rows
        assert (reefer.device, reefer.device_at_ms) == (f"Frost & Co FX-2 {BOX}", AT)
        assert reefer.signals == {
            "setpoint_c": -18.0,
            "supply_c": -18.4,
            "return_c": -17.2,
            "ambient_c": 24.1,
            "probe1_c": -17.9,
            "probe2_c": -17.5,
            "power_on": True,
            "humidity_pct": 80.0,
            "o2_pct": 20.9,
            "co2_pct": 0.1,
            "latitude_deg": 21.30692,
            "longitude_deg": 126.8541,
        }
        kept = (reefer.body or {})["dcsa"]
        told_so = REEFER["reeferDetails"]
        assert kept["temperatureProbeMeasurements"] == told_so["temperatureProbeMeasurements"][2:], "no temperature is lost"
        assert kept["supplyAirSensorReadings"] == told_so["supplyAirTemperatureMeasurement"]["sensorReadings"]
        assert (kept["measuredParameters"], kept["temperatureUnit"]) == ({"isControlledAtmosphere": False}, "CEL")
        assert (kept["eventID"], kept["alarms"], kept["UNLocationCode"]) == (REEFER["eventID"], REEFER["reeferDetails"]["alarms"], "JPTYO")
        assert (door.device, door.signals) == (f"Tick T1 {BOX}", {"door_open": True, "latitude_deg": -33.9, "longitude_deg": 151.2})
        (told,) = [row.record.body or {} for row in here.rows("exceptions")]
        assert (told["outcome"], told["mqtt_topic"]) == ("malformed", "dcsa/bigblue/events")
        assert re.match(r"event 3: .* EQUIPMENT ", told["reason"])
        counts = here.counts()
        assert (counts["intake_accepted"], counts["intake_repeated"], counts["intake_malformed"]) == (2, 1, 1)
        assert counts["intake_received"] == 4


def backwards(content: bytes) -> Decoded:
    """A decoder of one's own: a text `number device °C`, and what is odd about it."""
    number, device, degrees = content.decode().split()
    return Decoded([reading_of(number, {"device": device, "at": AT, "return_c": float(degrees)})])


def elsewhere(content: bytes) -> Decoded:
    return Decoded([(b"some/where", content)])


async def test_a_decoder_of_ones_own_is_named_in_the_settings(tmp_path: Path) -> None:
    """Values are checked as any sensor's; a wrong check digit is marked; what it does not read, or a topic of nobody, is told."""
    mine = settings(("text/#", f"{__name__}:backwards"), ("odd/#", f"{__name__}:elsewhere"), ("#", f"{__name__}:elsewhere"))
    async with stand(tmp_path, OTHERS, mine, StillClock(AT + 7_200_000)) as here:
        with Publisher(here.endpoint.port) as publisher:
            await publisher.welcomed()
            publisher.publish("text/1", f"{BOX} T-1 4.5".encode())
            publisher.publish("text/2", f"{BOX} T-1 999".encode())
            publisher.publish("text/3", b"MSKU1234566 T-1 4.5")
            publisher.publish("text/4", b"nonsense")
            publisher.publish("text/5", b"\xff\xfe T-1 4.5")
            publisher.publish("odd/1", b"{}")
            publisher.publish(TOPIC, payload(), qos=1)
            await eventually(lambda: len(publisher.acknowledged) == 7)
        rows = [row.record for row in here.rows("containers")]
        assert [(row.topic, row.signals.get("return_c")) for row in rows] == [(BOX, 4.5), ("MSKU1234566", 4.5), (BOX, 4.0)]
        assert rows[1].body == {"flags": ["check_digit"]}
        told = {(row.record.body or {})["mqtt_topic"]: (row.record.body or {})["reason"] for row in here.rows("exceptions")}
        assert told.keys() == {"text/2", "text/4", "text/5", "odd/1"}
        assert re.match(r"decoder [\w.]+:\w+ ", told["text/4"]), told["text/4"]
        assert told["odd/1"].endswith(": some/where")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"isRetracted": True}, "a log takes nothing back"),
        ({"eventClassification": {"eventType": "REEFER", "eventClassifier": "PLANNED"}}, "PLANNED is not what was measured"),
        ({"equipmentDetails": {}}, "names no container"),
        ({"reeferDetails": {"returnAirTemperatureMeasurement": {"temperatureValue": 4}}}, "in no unit"),
        ({"reeferDetails": {"temperatureUnit": "KEL", "ambientMeasuredTemperature": 290}}, "in KEL"),
    ],
)
def test_what_is_no_reading_says_why(changed: dict[str, Any], told: str) -> None:
    made = decode_dcsa(json.dumps([{**REEFER, **changed}, REEFER]).encode())
    assert told in made.problem
    assert made.problem.startswith("event 1: ")
    assert len(made.messages) == 1


def test_fahrenheit_and_values_that_can_not_be_true() -> None:
    """Degrees are converted; a position that is no number and a humidity of 180 % are refused with their values, and the rest is kept."""
    event = {
        **REEFER,
        "eventLocation": {"geoCoordinate": {"latitude": "north", "longitude": "126.8"}},
        "reeferDetails": {"temperatureUnit": "FAH", "ambientMeasuredTemperature": 50, "measuredParameters": {"humidityPercentage": 180}},
    }
    ((topic, made),) = decode_dcsa(json.dumps(event).encode()).messages
    assert topic.decode() == TOPIC
    readings = read_payloads([made])
    assert {name: column.to_pylist() for name, column in readings.signals.items()} == {"ambient_c": [10.0]}
    assert readings.refused == {0: {"latitude_deg": "north", "longitude_deg": 126.8, "humidity_pct": 180}}
    flags = [decode_dcsa(json.dumps({**DOOR, "eventClassification": {"eventType": "IOT", "iotEventType": kind}}).encode()) for kind in
             ("DOOR_CLOSED", "MOTION_START", "MOTION_STOP", "BREADCRUMB")]  # fmt: skip
    told = [json.loads(one.messages[0][1]) for one in flags]
    assert [(one.get("door_open"), one.get("motion")) for one in told] == [(False, None), (None, True), (None, False), (None, None)]


@pytest.mark.parametrize("odd", ["nan", "inf", "1_0.5", "\u0661\u0662.5", "", "12.5N"])
def test_a_latitude_that_is_no_number_of_iso_6709_is_refused_with_its_value(odd: str) -> None:
    """Python's own reading of numbers would make nothing of the first two, and 10.5 and 12.5 of the next."""
    ((_, made),) = decode_dcsa(
        json.dumps({**DOOR, "eventLocation": {"geoCoordinate": {"latitude": odd, "longitude": "1"}}}).encode()
    ).messages
    readings = read_payloads([made])
    assert "latitude_deg" not in readings.signals
    assert readings.refused == {0: {"latitude_deg": odd, "longitude_deg": 1.0}}


def test_a_geofence_says_which_and_a_reefer_whether_it_is_in_use() -> None:
    where = {"locationName": "Gate 4", "facilityType": "PORT_TERMINAL", "facility": {"facilityCode": "ADT"}}
    kind = {"eventType": "IOT", "iotEventType": "GEOFENCE_EXIT"}
    event = {**DOOR, "eventClassification": kind, "eventLocation": where, "reason": "left", "reeferDetails": {"powerStatus": "INACTIVE"}}
    ((_, made),) = decode_dcsa(json.dumps(event).encode()).messages
    kept = json.loads(made)["dcsa"]
    assert kept.items() >= {**where, "reason": "left", "event": "GEOFENCE_EXIT", "reeferPowerStatus": "INACTIVE"}.items()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*REEFER, *REEFER["reeferDetails"], "events"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@hypothesis.settings(derandomize=True, max_examples=60)
@given(st.binary(max_size=40) | anything.map(lambda value: json.dumps(value).encode()) | anything.map(
    lambda value: json.dumps({**REEFER, "reeferDetails": value, "eventLocation": value}).encode()
))  # fmt: skip
def test_no_bytes_break_it_and_none_vanish(content: bytes) -> None:
    """Whatever comes: readings that intake can look at, or a reason; never neither."""
    made = decoded(decode_dcsa, content)
    assert made.messages or made.problem
    read_payloads([message for _, message in made.messages])


def test_a_message_of_too_many_readings_is_not_taken() -> None:
    made = decoded(decode_dcsa, json.dumps([DOOR] * 1_001).encode())
    assert (made.messages, "1,001" in made.problem) == ((), True)


def test_a_decoder_that_is_not_there_is_told_when_the_settings_are_read() -> None:
    for name in ("dcsa", "no.such:thing", "json:nothing", "json:__name__"):
        with refusal(ValidationError, "decoders.0.decoder"):
            settings(("x/#", name))
    with refusal(ValidationError, "decoders.0.topic"):
        settings(("x/#/y", "dcsa-tnt-3"))
    assert find_decoder("dcsa-tnt-3") is decode_dcsa


@pytest.mark.parametrize(
    "odd",
    [
        {"reeferDetails": {"temperatureProbeMeasurements": [1]}},
        {"reeferDetails": {"temperatureProbeMeasurements": 1}},
        {"reeferDetails": {"powerStatus": [1]}},
        {"eventClassification": {"eventType": "IOT", "iotEventType": [1]}},
    ],
)
def test_an_odd_event_is_refused_alone(odd: dict[str, Any]) -> None:
    made = decode_dcsa(orjson.dumps([DOOR, DOOR, REEFER | odd, DOOR]))
    assert len(made.messages) == 3
    assert made.problem.startswith("event 3: ")


@pytest.mark.parametrize("at", ["2200-01-01T00:00:00Z", "2001-01-01T00:00:00Z"])
def test_of_what_is_refused_in_part_the_refusal_is_told(at: str) -> None:
    """In the counts as in `exceptions`, whatever the clocks of the rest say."""
    sent = Publish(b"dcsa/x", orjson.dumps([DOOR | {"eventDateTime": at}, {"no": "event"}]))
    prepared = prepare([sent], Routes([("dcsa/#", decode_dcsa)]), believed_times(StillClock(AT)))
    assert prepared.outcomes == [Outcome.MALFORMED]
    assert [one.outcome for one in prepared.refused] == [Outcome.MALFORMED]
    assert [part.records.num_rows for part in prepared.parts] == [1]


class _Own(Exception):
    """An error of the decoder's own kind."""


def _raises(problem: BaseException) -> Decoder:
    def decode(payload: bytes) -> Decoded:
        raise problem

    return decode


@pytest.mark.parametrize(
    "problem",
    [
        struct.error("unpack requires 14 bytes"),
        _Own("odd"),
        RecursionError(),
        AssertionError(),
        OSError(5),
        SystemExit(1),
        GeneratorExit(),
        asyncio.CancelledError(),
    ],
)
def test_whatever_a_decoder_of_one_s_own_raises_the_message_is_malformed(problem: BaseException) -> None:
    made = decoded(_raises(problem), b"short")
    assert not made.messages
    assert made.problem.startswith(f"decoder {__name__}:_raises.<locals>.decode ")


def test_an_operator_who_interrupts_a_decoder_ends_the_process() -> None:
    with pytest.raises(KeyboardInterrupt):
        decoded(_raises(KeyboardInterrupt()), b"{}")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("raise SystemExit(1)", "decoder_not_imported"),
        ("raise NameError", "decoder_not_imported"),
        ("def (", "decoder_not_imported"),
        ("import nothing_of_this_name", "decoder_not_imported"),
        ("decode = 1", "decoder_no_function"),
    ],
)
def test_whatever_the_module_of_a_decoder_raises_it_is_refused(
    line: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"decoder_{hashlib.sha256(line.encode()).hexdigest()[:8]}"
    (tmp_path / f"{module}.py").write_text(line, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with refusal(ValueError, code):
        find_decoder(f"{module}:decode")


@pytest.mark.parametrize("made", [None, {"a": 1}, "text", b"bytes", 7])
def test_whatever_it_gives_that_is_none_is_malformed(made: Any) -> None:
    told = decoded(lambda _: made, b"{}")
    assert not told.messages
    assert told.problem.endswith(f" gives a {type(made).__name__}, and no Decoded")
