"""`docs/reference/signals.md`: every signal a sensor may report."""

from __future__ import annotations

from cargo.vocabulary.signals import SIGNALS, Signal
from landfall.docs.markdown_tables import GENERATED, table

_HEAD = f"""# Signals

A payload may have these signals ([payloads](../guide/payloads.md)). A value outside its range is a fault of the sensor: the reading keeps
it in `refused`, not as a signal. Longitudes are degrees east (WGS 84). Roll is positive to starboard, pitch is positive with the bow up.
{GENERATED}

"""


def page() -> str:
    """Return the whole page in Markdown."""
    return _HEAD + table(("signal", "type", "unit", "least", "greatest"), map(_row, SIGNALS.values()))


def _row(signal: Signal) -> tuple[str, ...]:
    return f"`{signal.name}`", signal.type, signal.unit, _limit(signal.low), _limit(signal.high)


def _limit(value: float | None) -> str:
    return "" if value is None else f"{value:,}"
