"""The time that a process next to headquarters' node waits for each stream's holes, and its report on what it went on without."""

from __future__ import annotations

from collections.abc import Mapping

from landfall.node.services.definition_watcher import Defining
from landfall.runtime.telemetry_client import TelemetryClient, failure
from streams.config.roles import Peer
from streams.config.stream_definitions import Definitions
from streams.gap_skipping_reader import Patience, PatientReader, Polled, ReaderStanding, Skipped, newly_skipped
from streams.log import Append, LogReader
from streams.model.clock import Clock
from streams.model.metrics import Metrics
from streams.skipped_records import SKIPPED

OUTCOME = "went on without; what comes of it is delivered late"


class PatientReaders:
    """Readers past holes, one for each stream of one log, each with the patience that headquarters has set for the stream. They are for one
    thread.
    """

    def __init__(self, log: LogReader, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._definitions = Definitions()
        self._defining = Defining(Peer("hq", "hq"), self._definitions, _ignore_unreadable_definition)
        self._readers: dict[str, PatientReader] = {}

    def follow(self) -> None:
        """Update patience from the log's registry as it is now."""
        self._defining.take_up(self._log)

    def of(self, stream: str) -> PatientReader:
        """Return the one reader of `stream`, which knows since when it waits."""
        if stream not in self._readers:
            patience = Patience(lambda: self._definitions.of(stream).patience_s, self._clock)
            self._readers[stream] = PatientReader(self._log, stream, patience)
        return self._readers[stream]


class SkippedReports:
    """The reports of each hole that a process went on without. A process that restarts reports again what has not come: that changes
    nothing.
    """

    def __init__(self, telemetry: TelemetryClient, process: str) -> None:
        self._telemetry, self._process = telemetry, process
        self._seen: set[tuple[str, int]] = set()

    def look(self, standings: Mapping[str, ReaderStanding]) -> None:
        """Report to `exceptions` soon what is skipped in `standings`, which are committed. Returns at once."""
        for reason, key in _named(self._process, standings):
            if key not in self._seen:
                self._seen.add(key)
                self._telemetry.report(reason, outcome=OUTCOME, code=SKIPPED, key=key)


def skipped_failures(process: str, standings: Mapping[str, ReaderStanding], at_ms: int) -> list[Append]:
    """Return records of `exceptions` on all that is skipped in `standings`. Appended again, they change nothing."""
    return [failure(process, reason, "", at_ms, key, OUTCOME, code=SKIPPED) for reason, key in _named(process, standings)]


def count_polled(metrics: Metrics, before: Skipped, polled: Polled) -> None:
    """Count how often a floor was passed over (`trimmed`), how many offsets were skipped (`skipped`) and how many rows came late
    (`late`).
    """
    for name, amount in (
        ("trimmed", int(bool(polled.passed))),
        ("skipped", sum(ranges.count() for ranges in newly_skipped(before, polled.skipped).values())),
        ("late", sum(batch.records.num_rows for batch in polled.late)),
    ):
        if amount:
            metrics.count(name, amount)


def _named(process: str, standings: Mapping[str, ReaderStanding]) -> list[tuple[str, tuple[str, int]]]:
    """Return, for each hole, the reported reason, and producer and sequence. Holes are skipped in ascending order, and only shrink from
    then on.
    """
    return [
        (f"{stream}:{origin} {first}..{end - 1} did not come in time", (f"{process}/skipped/{stream}/{origin}", end))
        for stream, standing in sorted(standings.items())
        for origin, ranges in sorted(standing.skipped.items())
        for first, end in ranges
    ]


def _ignore_unreadable_definition(reason: str, outcome: str, problem: str) -> None:
    """Ignore a definition that does not read: headquarters' node reports it, and the stream is managed as before here too."""
