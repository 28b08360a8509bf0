"""Loss reports and the owners' notices, as headquarters' log has them now: read by the API, written by ships alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from cargo.lossnotice import Notice, ToldFrom, notices
from cargo.lossreport import Report, ReportBook
from hq.api.registrar import Registrar
from streams.bodies import Bodies
from streams.log import LogReader

STREAM = "reports"


@dataclass(slots=True)
class ReportDesk:
    """The reports of the log that `reader` reads, and the notices by the registry that stands with `registrar`. Safe from any thread."""

    reader: LogReader
    registrar: Registrar
    told_from: ToldFrom
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _book: ReportBook = field(default_factory=ReportBook)
    _news: Bodies = field(init=False)

    def __post_init__(self) -> None:
        self._news = Bodies(self.reader, STREAM)

    def reports(self, incident_id: str | None = None) -> list[Report]:
        """Every report, or those of one incident, by number. Raises RetryLater when the log can not be read now."""
        with self._lock:
            for _, body in self._news.news():
                try:
                    self._book.learn(body)
                except ValueError:
                    continue  # of another version of this program: it stands in nobody's way
            return self._book.reports(incident_id)

    def notices(self) -> list[Notice]:
        """The notice to each owner concerned, as the carrier's policy lets owners know. Raises as `reports`."""
        reports = self.reports()
        numbers = {box.container for one in reports for box in (*one.content.lost, *one.content.at_risk, *one.content.found)}
        return notices(reports, self.registrar.papers_of(numbers), self.told_from) if reports else []
