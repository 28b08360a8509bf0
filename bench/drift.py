"""`python -m bench.drift [particles] [hours]`: the search area of one loss, both classes, all hulls and the GeoJSON, in one core's time.

The bound is the least arithmetic of a drift: as many steps of the same arrays, with a multiplication, an addition and a cosine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from bench.machine import machine
from bench.results import Measured, write
from cargo.search.drift import CLASSES, HOUR_MS, STEP_MS, LossSegment, TrackPoint, drift
from cargo.search.forecast import Forecast, Weather
from cargo.search.search_area import Search, search_area

TURNS = 5


def spent_s(work: Callable[[], object]) -> float:
    """The median of this thread's time over a few turns."""
    times = []
    for _ in range(TURNS):
        began_s = time.thread_time()
        work()
        times.append(time.thread_time() - began_s)
    return median(times)


def bound(particles: int, hours: int) -> None:
    """The least that stepping so many particles costs."""
    here = np.zeros(particles)
    for _ in range(len(CLASSES) * hours * HOUR_MS // STEP_MS):
        here = np.cos(here * 0.5 + 1.0)


def main() -> None:
    """Measure and print one JSON object."""
    particles, hours = (int(sys.argv[at]) if len(sys.argv) > at else default for at, default in ((1, 2_000), (2, 48)))
    weather = [Weather(hour * HOUR_MS, 10 + hour % 7, hour * 5 % 360, 0.4, 90) for hour in range(0, hours, 3)]
    segment = LossSegment(TrackPoint(0, -33.9, 151.3), TrackPoint(HOUR_MS, -34.1, 151.2))
    search = Search(segment, Forecast(weather), hours, particles)
    whole_s = spent_s(lambda: json.dumps(search_area(search)))
    drift_s = spent_s(lambda: [drift(segment, one, search.forecast, hours, particles, np.random.default_rng(1)) for one in CLASSES])
    figures = {
        "particles": particles,
        "hours": hours,
        "search_area_cpu_s": round(whole_s, 3),
        "of_it_drift_cpu_s": round(drift_s, 3),
        "bound_cpu_s": round(spent_s(lambda: bound(particles, hours)), 3),
        "geojson_bytes": len(json.dumps(search_area(search))),
        "at": machine(),
    }
    print(json.dumps(figures, indent=1))
    bare = f"as many bare steps {figures['bound_cpu_s']} s"
    write("drift", {"search_area": Measured(f"{figures['search_area_cpu_s']} s", whole_s <= 2, bare)})


if __name__ == "__main__":
    main()
