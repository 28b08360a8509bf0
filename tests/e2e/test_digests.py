"""Goal: through kills and cuts each window of a passage is told once, and what it says is what the readings came to, which came in port."""

from __future__ import annotations

from collections import defaultdict

import pytest

from streams.model.records import StoredRecord
from tests.e2e.offsydney import FIRST
from tests.e2e.played import Played

pytestmark = pytest.mark.timeout(3_600)  # the voyage itself is played within the first of these tests


def test_digests_are_told_once_and_agree_with_the_readings(played: Played) -> None:
    """A window that begins before she left port tells of what waited alone: of the others, all. One reading may be a window late, whose
    commit took until after its end."""
    digests = [row for row in played.voyage.rows("hq", "digests") if row.coordinates.origin.node == FIRST]
    lines = [row for row in digests if not row.record.topic.endswith(".log")]
    told = [(row.record.topic, row.record.signals["until_at_ms"]) for row in lines]
    assert len(set(told)) == len(told) > 100
    heard: dict[tuple[str, str], list[StoredRecord]] = defaultdict(list)
    for row in played.voyage.rows("hq", "containers"):
        heard[str(row.coordinates.origin), row.record.topic].append(row)
    whole = 0
    for row in lines:
        said = row.record.signals
        readings = [
            one.record.signals
            for one in heard[str(row.coordinates.origin), row.record.topic]
            if int(said["from_at_ms"]) <= one.received_at_ms < int(said["until_at_ms"])
        ]
        if len(readings) == said["readings"]:
            whole += 1
            for air in ("supply", "return", "ambient"):
                values = [float(one[f"{air}_c"]) for one in readings if f"{air}_c" in one]
                assert (said.get(f"{air}_min_c"), said.get(f"{air}_max_c")) == ((min(values), max(values)) if values else (None, None))
    assert whole > len(lines) / 2
