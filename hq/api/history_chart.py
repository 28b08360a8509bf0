"""One container's readings of a span as a chart needs them: thinned lines, what lasted how long, where it went, how whole the record is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import NoneType
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Text, and_, case, cast, or_, select, true

from cargo.loss.event_time import corrected_time
from cargo.loss.reading_rows import CLOCK_BACK
from hq.api.container_rows import Rows
from hq.api.cursors import INT_MAX
from hq.api.services import StoreView
from hq.chart_points import AT, Ints, Span, merged, thinned
from streams.integrity.signed_watermark import Until
from streams.model.errors import LandfallError
from streams.model.identifiers import Origin
from streams.model.records import read_body

Fields = dict[str, Any]
Source = tuple[str, str]
"""The stream and the origin of a record, as the store has them."""
LINES = ("setpoint_c", "supply_c", "return_c", "ambient_c")
PLACE = ("latitude_deg", "longitude_deg")
SHOCK, SHOCK_G_MIN = "shock_g", 2.0
STATES = {"defrost": ("defrosting", True), "power_off": ("power_on", False)}
"""Signal and value that each band of the chart shows."""
DIGITS = {**dict.fromkeys(LINES, 2), **dict.fromkeys(PLACE, 5), SHOCK: 1}
"""Digits after the point in an answer: finer than a pixel."""
TRACK_STEPS = 250
"""Parts of a span's time. Of each the track has the positions furthest north, south, east and west."""
GAP_MS, GAP_STEPS = 3 * 3_600_000, 4
"""A line breaks, and a state ends, where nothing was measured for longer than GAP_MS and than GAP_STEPS times the usual step."""
ROWS_MAX = 250
"""Maximum number of readings that are Python objects at once.

700 new objects start the garbage collector, which with more readings took most of the time of a chart of 100,000."""
_FLAG = f'"{CLOCK_BACK}"'
_NUMBERS, _SWITCHES = (*LINES, *PLACE, SHOCK), tuple(signal for signal, _ in STATES.values())
_SIGNALS, _PLAIN = (*_NUMBERS, *_SWITCHES), (AT, "source", "offset", "fell_back")
_SCHEMA = pa.schema(
    [
        *((name, pa.bool_() if name == "fell_back" else pa.int64()) for name in _PLAIN),
        *((name, pa.bool_() if name in _SWITCHES else pa.float64()) for name in _SIGNALS),
    ]
)
"""A reading: its time (UTC ms), its Source's number, its offset there, whether its device's clock had fallen back, and its signals."""


def chart_of(look: StoreView, number: str, since_at_ms: int | None, until_at_ms: int | None, pixels: int) -> Fields:
    """Return the chart of a container's readings from `since_at_ms` on and before `until_at_ms` (UTC ms; None: from the first, to the
    last). A reading whose device's clock had fallen back has the time at which it was received. `number` is one that the viewer may see."""
    numbers: dict[Source, int] = {}
    rows = _readings(look, _asked(look, number, since_at_ms, until_at_ms), (since_at_ms, until_at_ms), numbers)
    at_ms: Ints = rows.column(AT).to_numpy()
    if len(at_ms):
        since_at_ms = int(at_ms[0]) if since_at_ms is None else since_at_ms
        until_at_ms = int(at_ms[-1]) + 1 if until_at_ms is None else until_at_ms
    span = since_at_ms or 0, until_at_ms or 0
    steps_ms = np.diff(at_ms)
    gap_ms = max(GAP_MS, GAP_STEPS * int(np.median(steps_ms))) if len(steps_ms) else GAP_MS
    sources = list(numbers)
    signed = signed_until(look, sources)
    unproven = _unproven(rows, signed, sources)
    bands = {name: _lasting(rows, *state, gap_ms) for name, state in STATES.items()}
    bands["unproven"] = [(int(at_ms[first]), int(at_ms[last])) for first, last in _runs(unproven)]
    shocks, track = _measured(rows, SHOCK), _measured(rows, *PLACE)
    shocks = shocks.filter(pc.greater_equal(shocks.column(SHOCK), SHOCK_G_MIN))
    return {
        "since_at_ms": since_at_ms,
        "until_at_ms": until_at_ms,
        "readings": {
            "count": len(at_ms),
            "first_at_ms": int(at_ms[0]) if len(at_ms) else None,
            "last_at_ms": int(at_ms[-1]) if len(at_ms) else None,
            "longest_silence_ms": int(steps_ms.max()) if len(steps_ms) else None,
            "fell_back": pc.sum(rows.column("fell_back")).as_py() or 0,
            "unproven": _unproven_fields(rows, unproven, signed, sources),
        },
        "lines": {name: _drawn(line, thinned(line, span, pixels, gap_ms)) for name in LINES if (line := _measured(rows, name)).num_rows},
        "shocks": _drawn(shocks, thinned(shocks, span, pixels)),
        "track": _drawn(track, thinned(track, span, TRACK_STEPS)),
        "bands": {name: merged(spans, span, pixels) for name, spans in bands.items()},
    }


def signed_until(look: StoreView, sources: Iterable[Source]) -> dict[Source, Until | None]:
    """Return up to where each of these origins has signed its stream; None if the log can not be asked now."""
    found: dict[Source, Until | None] = {}
    for stream, origin in set(sources):
        try:
            found[stream, origin] = look.services.signed.of(look.sight.stream_of(stream), Origin.parse(origin))
        except LandfallError:
            found[stream, origin] = None
    return found


def _asked(look: StoreView, number: str, since_at_ms: int | None, until_at_ms: int | None) -> Rows:
    """Return `order_at_ms, received_at_ms, stream, origin, offset`, the signals as text, and the body of a reading that may be flagged:
    those within the span, and all that may be flagged, whose time only the body says."""
    r = look.sight.readings(number).subquery().c
    may_be_flagged = r.body.contains(_FLAG, autoescape=True)

    def within(column: Any) -> ColumnElement[bool]:
        since = true() if since_at_ms is None else column >= since_at_ms
        return since if until_at_ms is None else and_(since, column < until_at_ms)

    columns = (r.order_at_ms, r.received_at_ms, r.stream, r.origin, r.offset, cast(r.signals, Text), case((may_be_flagged, r.body)))
    return select(*columns).where(or_(within(r.order_at_ms), may_be_flagged))


def _readings(look: StoreView, asked: Rows, span: tuple[int | None, int | None], sources: dict[Source, int]) -> pa.RecordBatch:
    """Return the requested readings, by time, under _SCHEMA. Every Source gets its number in `sources`."""
    parts = []
    for part in look.connection.execute(asked, execution_options={"yield_per": ROWS_MAX}).partitions():
        order_at_ms, received_at_ms, streams, origins, offsets, texts, flagged = zip(*part, strict=True)
        times = zip(order_at_ms, received_at_ms, flagged, strict=True)
        at_ms, fell_back = zip(*(_of_time(order, received, body) for order, received, body in times), strict=True)
        numbers = [sources.setdefault(source, len(sources)) for source in zip(streams, origins, strict=True)]
        signals = orjson.loads(f"[{','.join(texts)}]")
        plain = [
            pa.array(column, _SCHEMA.field(name).type) for name, column in zip(_PLAIN, (at_ms, numbers, offsets, fell_back), strict=True)
        ]
        parts.append(pa.RecordBatch.from_arrays([*plain, *(_signal(signals, name) for name in _SIGNALS)], schema=_SCHEMA))
    rows = pa.Table.from_batches(parts, _SCHEMA)
    since_at_ms, until_at_ms = span
    if since_at_ms is not None:
        rows = rows.filter(pc.field(AT) >= since_at_ms)
    if until_at_ms is not None:
        rows = rows.filter(pc.field(AT) < until_at_ms)
    batches = rows.sort_by(AT).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], _SCHEMA)


def _of_time(order_at_ms: int, received_at_ms: int, text: str | None) -> tuple[int, bool]:
    """Return the time (UTC ms) of a reading, and whether its device's clock had fallen back. In that case the time is that of its first
    receipt, which a customer's copy has in its body."""
    try:
        body = (read_body(text) or {}) if text is not None else {}
    except ValueError:
        body = {}
    flags = body.get("flags")
    is_back = isinstance(flags, list) and CLOCK_BACK in flags
    return (corrected_time(received_at_ms, body), True) if is_back else (order_at_ms, False)


def _signal(signals: Sequence[Mapping[str, Any]], name: str) -> pa.Array:
    """Return the values of one signal. Values of another type are left out, as programs may append any."""
    values = [row.get(name) for row in signals]
    kinds: set[type] = {bool} if name in _SWITCHES else {int, float}
    if not set(map(type, values)) <= {*kinds, NoneType}:
        values = [value if type(value) in kinds else None for value in values]
    return pa.array(values, pa.bool_()) if name in _SWITCHES else pa.array(np.array(values, np.float64), from_pandas=True)


def _measured(rows: pa.RecordBatch, *names: str) -> pa.RecordBatch:
    """Return the readings that have all of these signals: AT and the signals."""
    return rows.select([AT, *names]).drop_null()


def _drawn(measured: pa.RecordBatch, shown: pa.RecordBatch) -> Fields:
    """Return the columns of `shown`, and the number of readings behind them."""
    columns = {name: shown.column(name) for name in shown.schema.names}
    return {"measured": measured.num_rows} | {
        name: (pc.round(column, DIGITS[name]) if name in DIGITS else column).to_pylist() for name, column in columns.items()
    }


def _lasting(rows: pa.RecordBatch, signal: str, value: bool, gap_ms: int) -> list[Span]:
    """Return the spans in which `signal` was `value`: each from the first reading that says so to the first that does not, or the last
    before a gap."""
    said = _measured(rows, signal)
    at_ms: Ints = said.column(AT).to_numpy()
    held = said.column(signal).to_numpy(zero_copy_only=False) == value
    spans = []
    for first, last in _runs(held, np.diff(at_ms) > gap_ms):
        goes_on = last + 1 < len(at_ms) and at_ms[last + 1] - at_ms[last] <= gap_ms
        spans.append((int(at_ms[first]), int(at_ms[last + goes_on])))
    return spans


def _runs(held: NDArray[np.bool_], breaks: NDArray[np.bool_] | None = None) -> list[tuple[int, int]]:
    """Return the first and the last place of every run of rows that hold. `breaks`: of each row but the first, whether a run starts again
    there."""
    turns = held[1:] != held[:-1]
    turns = turns if breaks is None else turns | breaks
    edges = np.concatenate([[0], np.flatnonzero(turns) + 1, [len(held)]])
    return [(int(first), int(end) - 1) for first, end in pairwise(edges) if end > first and held[first]]


def _unproven(rows: pa.RecordBatch, signed: Mapping[Source, Until | None], sources: Iterable[Source]) -> NDArray[np.bool_]:
    """Return, for each reading, whether its origin has not signed it yet; False if that is not known now."""
    ends = np.array([INT_MAX if (until := signed[source]) is None else until.end for source in sources] or [0])
    past: NDArray[np.bool_] = rows.column("offset").to_numpy() >= ends[rows.column("source").to_numpy()]
    return past


def _unproven_fields(
    rows: pa.RecordBatch, unproven: NDArray[np.bool_], signed: Mapping[Source, Until | None], sources: Sequence[Source]
) -> Fields:
    """Return the number of unproven readings, the nodes that took them in, and the oldest of these nodes' last signing times."""
    of = [sources[number] for number in np.unique(rows.column("source").to_numpy()[unproven]).tolist()]
    last = [until.at_ms or 0 for source in of if (until := signed[source]) is not None]
    nodes = sorted({Origin.parse(origin).node for _, origin in of})
    return {"count": int(unproven.sum()), "taken_in_by": nodes, "signed_at_ms": min(last, default=0) or None}
