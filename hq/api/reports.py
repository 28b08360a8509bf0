"""Loss reports and the owners' notices, as headquarters' log has them now; ships write them, and the company where a master can not."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from cargo.lossnotice import Notice, ToldFrom, notices
from cargo.lossreport import Report, ReportBook
from cargo.lossreporting import Change, by_company
from hq.api.registrar import Registrar
from streams.bodies import Bodies
from streams.log import Append, LogReader
from streams.records import Record, to_batch

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
            self._catch_up()
            return self._book.reports(incident_id)

    def change(self, incident_id: str, change: Change) -> Report:
        """What the company does with a report of this incident is in headquarters' log, durable; the report as it stands then. Raises
        ValueError for a report there is not and as `cargo.lossreporting.by_company`, RetryLater when the node is away."""
        with self._lock:
            self._catch_up()
            known = next((one for one in self._book.reports(incident_id) if one.id == change.report), None)
            if known is None:
                raise ValueError(f"there is no report {change.report!r} of this incident")
            made = by_company(change, known, self.registrar.clock.now_ms())
            self.registrar.door.append([Append(STREAM, to_batch([Record(made.topic, device_at_ms=made.at_ms, body=made.body)]))])
            self._book.learn(made.body)
            return self._book.find(known.id)

    def _catch_up(self) -> None:
        for _, body in self._news.news():
            try:
                self._book.learn(body)
            except ValueError:
                continue  # of another version of this program: it stands in nobody's way

    def notices(self) -> list[Notice]:
        """The notice to each owner concerned, as the carrier's policy lets owners know. Raises as `reports`."""
        reports = self.reports()
        numbers = {box.container for one in reports for box in (*one.content.lost, *one.content.at_risk, *one.content.found)}
        return notices(reports, self.registrar.papers_of(numbers), self.told_from) if reports else []
