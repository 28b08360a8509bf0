"""Which projection takes which stream, and which stream goes first when there is much to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial

from hq.serving.projections.alerts import project_alerts
from hq.serving.projections.answers import project_answers
from hq.serving.projections.customers import project_customer
from hq.serving.projections.digests import project_digests
from hq.serving.projections.readings import project_events, project_readings
from hq.serving.projections.registry import project_registry
from hq.serving.projections.shape import Projection
from hq.serving.projections.states import project_hours, project_metrics, project_states, project_waiting
from streams.config.companion_streams import WAITING, parent_of
from streams.log import LogReader

Routes = tuple[tuple[str, Projection], ...]


def routes(places: Mapping[str, str], reader: LogReader) -> Routes:
    """Return stream patterns and projections, in order: what people wait for comes before what fills up behind.

    `places`: node name → `ship/<imo>` or `quay/<locode>`, where its sensors are. `reader`: of the log that is projected."""
    return (
        ("alerts", partial(project_alerts, admissions=reader.admissions)),
        ("registry", partial(project_registry, places=places)),
        ("states", project_states),
        ("events", project_events),
        (WAITING, project_waiting),
        ("answers", partial(project_answers, own=reader.own)),
        ("digests", partial(project_digests, places=places, admissions=reader.admissions)),
        ("metrics", project_metrics),
        ("ships", project_readings),
        ("customers/*", partial(project_customer, places=places)),
        ("containers", project_readings),
        ("hours", project_hours),
    )


def route(known: Routes, streams: Iterable[str]) -> list[tuple[str, Projection]]:
    """Return the streams that are projected, each with its projection, in the order in which they are read. All other streams are left out,
    and so are all derived streams except the backlogs of ships. An origin's signatures on a customer's stream are none of its readings."""
    named = sorted(stream for stream in streams if stream == WAITING or parent_of(stream) == stream)
    return [(stream, projection) for pattern, projection in known for stream in named if fnmatchcase(stream, pattern)]
