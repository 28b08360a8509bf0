"""Reports of devices, from records, for `completeness`. Records that thinning kept also give the times over which it took others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams.config.companion_streams import KEPT
from streams.integrity.completeness import Reported, Span
from streams.model.records import BODY, DEVICE, ORDER_AT, RECEIVED_AT, SOURCE_ORIGIN, Value
from streams.retention.kept_records import window_h
from streams.retention.window_extremes import HOUR_MS

Row = Mapping[str, Value | None]
WINDOW_H_MAX = 24 * 366
"""Maximum width of a window, hours. A kept record with a wider one counts as an ordinary record."""


def reported(records: Iterable[tuple[str, Row]]) -> tuple[list[Reported], list[Span]]:
    """Return the readings among these (stream, columns), and the times over which thinning took others: within each window between the
    first and the last that it kept. The received time of a kept reading is not known any more, so it is not late.

    Raises ValueError for a record without times.
    """
    readings: list[Reported] = []
    windows: dict[tuple[Value | None, int, int], list[int]] = {}
    for stream, row in records:
        at_ms, received_at_ms, device = row.get(ORDER_AT), row.get(RECEIVED_AT), row.get(DEVICE)
        if not isinstance(at_ms, int) or not isinstance(received_at_ms, int) or not isinstance(device, str | None):
            raise ValueError("a record lacks its times")
        window_ms = _window_ms(row.get(BODY)) if stream.endswith(KEPT) else None
        readings.append(Reported(at_ms, received_at_ms if window_ms is None else at_ms, device))
        if window_ms is not None:
            windows.setdefault((row.get(SOURCE_ORIGIN), window_ms, at_ms // window_ms), []).append(at_ms)
    return readings, [(min(times), max(times)) for times in windows.values()]


def _window_ms(body: Value | None) -> int | None:
    try:
        hours = window_h(body) if isinstance(body, str) else None
    except OverflowError:
        return None
    return max(1, round(hours * HOUR_MS)) if hours is not None and 0 < hours <= WINDOW_H_MAX else None
