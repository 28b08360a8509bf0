"""Goal: the schema that sensors' makers build by says what intake takes: what is valid is taken whole, and the reverse."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cargo.vocabulary.payload_schema import payload_schema
from cargo.vocabulary.reading_batches import AT_MS_MAX, OWN_FIELDS, read_payloads
from cargo.vocabulary.signals import SIGNALS, Signal

SCHEMA = Draft202012Validator(payload_schema())
CASES = Path(__file__).parent / "cases" / "mqtt"
FILE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "payload.schema.json"


def taken_whole(fields: Any) -> bool:
    """Whether intake keeps every field of this payload."""
    readings = read_payloads([json.dumps(fields).encode()])
    return not readings.refusals and not readings.refused


def near(signal: Signal) -> st.SearchStrategy[Any]:
    """Values at, within and beyond the bounds of a signal, and of every other type."""
    odd: st.SearchStrategy[Any] = st.sampled_from(
        [None, True, False, "", "x" * 200, "x" * 201, "4.2", [], {}, [1], 0, 1, 0.5, -1e300, 1 << 60]
    )
    if signal.low is None or signal.high is None:
        return odd
    edges = st.sampled_from(
        [signal.low, signal.high, signal.low - 1, signal.high + 1, signal.low + 0.5, float(signal.high), signal.high + 0.25]
    )
    whole = st.integers(int(signal.low) - 2, int(signal.high) + 2)
    return odd | edges | whole | st.floats(signal.low - 2, signal.high + 2, allow_nan=False)


ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=ZONES)  # noqa: DTZ001
TIMES: st.SearchStrategy[Any] = (
    st.integers(-5, AT_MS_MAX + 5)
    | st.sampled_from([None, True, 0, -1, AT_MS_MAX - 1, AT_MS_MAX, 1.0, 1.5, "soon", "2026-05-01", "2026-05-01T04:00:00", [], {}])
    | MOMENTS.map(lambda one: one.isoformat())
    | MOMENTS.map(lambda one: one.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
)
DEVICES: st.SearchStrategy[Any] = st.text(st.characters(codec="latin-1"), max_size=104) | st.sampled_from(
    [None, 3, "", "x" * 100, "x" * 101, "Gerät №7", []]
)
OTHERS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3), lambda one: st.lists(one, max_size=2), max_leaves=4
)
PAYLOADS = st.builds(
    lambda device, at, signals, others: {**others, **signals, **device, **at},
    st.fixed_dictionaries({}, optional={"device": DEVICES}) | st.just({"device": "TRK-1"}),
    st.fixed_dictionaries({}, optional={"at": TIMES}),
    st.sets(st.sampled_from(sorted(SIGNALS)), max_size=4).flatmap(
        lambda names: st.fixed_dictionaries({name: near(SIGNALS[name]) for name in names})
    ),
    st.dictionaries(st.sampled_from(["firmware", "note", *sorted(OWN_FIELDS)]), OTHERS, max_size=2),
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example({"device": "\n"})
@given(PAYLOADS)
def test_valid_and_taken_whole_are_the_same(fields: dict[str, Any]) -> None:
    assert SCHEMA.is_valid(fields) == taken_whole(fields)


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=lambda signal: signal.name)
def test_every_signal_is_bounded_as_intake_bounds_it(signal: Signal) -> None:
    """At its bounds it is taken and valid, just beyond them neither."""
    values: list[Any] = [True, None, "text", 3]
    if signal.low is not None and signal.high is not None:
        values += [signal.low, signal.high, signal.low - 0.001, signal.high + 0.001, signal.low + 0.5]
    for value in values:
        fields = {"device": "TRK-1", signal.name: value, "kept": 1}
        assert SCHEMA.is_valid(fields) == taken_whole(fields), value


WHOLE = {
    *("A-plain", "C-seconds", "C-micros", "C-zero", "C-isoZ", "C-isospace", "C-leap", "C-lower", "C-nanoz", "C-exp", "D-null", "D-allnull"),
    *("E-iccid", "F-dup", "G-onlylat", "I-batch", "J-f", "K-emoji \U0001f4e6", " K-blank ", '=HYPERLINK("http://x")', "L-neg0"),
    *("T1", "T2", "T3", "T4", "T5", "T6", "T7", "T11"),
}
"""The devices of the cases of which every field is taken."""


@pytest.mark.parametrize("line", [line for name in ("payloads", "at_texts") for line in (CASES / f"{name}.jsonl").read_text().splitlines()])
def test_schema_and_intake_agree_on_every_case(line: str) -> None:
    readings = read_payloads([line.encode()])
    whole = not readings.refusals and not readings.refused
    assert whole == bool(WHOLE.intersection(readings.devices)), (readings.refusals, readings.refused)
    if readings.devices and readings.devices[0] not in ("B-nan", "B-NaN", "B-inf"):  # those are no JSON
        assert SCHEMA.is_valid(json.loads(line)) == whole


LEAP_DAYS = [f"{year}-02-29T00:00:00Z" for year in range(1970, 2500)]
ODD_TIMES = [
    "2026-05-01T00:00:00Z\n",
    "1970-01-01T00:00:00+00:00",
    "1970-01-01T00:00:00.5+00:01",
    "1970-01-02T00:00:00+23:59",
    "9999-12-31T23:59:60-23:59",
]


@pytest.mark.parametrize("text", [*LEAP_DAYS, *ODD_TIMES])
def test_schema_and_intake_agree_on_odd_days(text: str) -> None:
    assert SCHEMA.is_valid({"device": "T", "at": text}) == taken_whole({"device": "T", "at": text})


@settings(max_examples=400, deadline=None)
@given(
    st.from_regex(
        r"\A[0-9]{4}-[0-1][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?([Zz]|[+-][0-2][0-9]:?[0-6][0-9])\Z"
    )
)
def test_texts_like_times_are_read_as_python_reads_them(text: str) -> None:
    fields = {"device": "T", "at": text}
    assert SCHEMA.is_valid(fields) == taken_whole(fields)
    at_ms = read_payloads([json.dumps(fields).encode()]).device_at_ms[0]
    if at_ms is not None and text[17:19] != "60":
        assert abs(at_ms - datetime.fromisoformat(text.upper()).timestamp() * 1_000) <= 0.51


@pytest.mark.parametrize("content", [[], "text", 3, None, True])
def test_what_is_no_object_is_neither(content: Any) -> None:
    assert (SCHEMA.is_valid(content), taken_whole(content)) == (False, False)


def test_the_file_in_the_docs_is_the_schema_and_its_example_is_taken() -> None:
    """`landfall payload schema > docs/reference/payload.schema.json` writes it anew."""
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    assert schema == payload_schema()
    Draft202012Validator.check_schema(schema)
    assert all(SCHEMA.is_valid(example) and taken_whole(example) for example in schema["examples"])
