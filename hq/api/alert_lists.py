"""Which alerts a list has, in which order: what a page of the list and the list as a file have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Annotated, Any, Literal

import pyarrow as pa
from fastapi import Depends, Query
from sqlalchemy import or_, select

from cargo.alerts.alert_log import Stage, stage_of
from cargo.vocabulary.trade_codes import compact_container
from hq.api.alert_states import counted_by_stage, in_stage
from hq.api.answer_fields import Fields
from hq.api.container_rows import Rows
from hq.api.csv_files import write_tables
from hq.api.cursors import Key, beginning, beyond, no_cursor, number_beginning, read_cursor, write_cursor
from hq.api.services import StoreView

Which = Literal["open", "acknowledged", "closed", "all"]
Sort = Literal["worst", "newest", "oldest"]
FILE_ROWS_AT_ONCE = 1_000
_FILE = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("alert_id", "topic", "rule", "severity", "stage", "state", "title", "detail")),
        *(pa.field(name, pa.string()) for name in ("ship", "ship_name", "slot", "incident_id")),
        *(pa.field(name, pa.float64()) for name in ("figure", "limit")),
        *(pa.field(name, pa.string()) for name in ("unit", "worse")),
        pa.field("count", pa.int64()),
        *(pa.field(name, pa.timestamp("ms")) for name in ("raised_utc", "first_utc", "last_utc", "changed_utc", "acknowledged_utc")),
        *(pa.field(name, pa.string()) for name in ("acknowledged_by", "note")),
    ]
)


@dataclass(frozen=True, slots=True)
class _Order:
    """By which columns a list is ordered before the id, and whether descending."""

    columns: Callable[[Any], tuple[Any, ...]]
    descending: bool = False


_ORDERS: dict[Sort, _Order] = {
    "worst": _Order(lambda own: (own.rank, -own.reopened, own.raised_at_ms)),
    "newest": _Order(lambda own: (own.raised_at_ms,), descending=True),
    "oldest": _Order(lambda own: (own.raised_at_ms,)),
}


@dataclass(frozen=True, slots=True)
class AlertListing:
    """A list of alerts. `state`: their stage; `q`: how the container number begins; `box`: the number; `rule`; `severity`; `ship` (IMO
    number): of the ship or of boxes on board; `port` (UN/LOCODE): of the port or of boxes on its quay; `customer` (id): of its boxes;
    `incident`. `sort`: the worst first, of those the ones that got worse since somebody acknowledged them, of those the oldest; the last
    raised first; the first raised first.
    """

    state: Which
    sort: Sort
    q: str
    box: str
    rule: str
    severity: str
    ship: str
    port: str
    customer: str
    incident: str

    @property
    def filters(self) -> dict[str, str]:
        """Filters that the request sets, out of all that there are."""
        names = ("state", "q", "box", "rule", "severity", "ship", "port", "customer", "incident")
        return {name: value for name in names if (value := getattr(self, name).strip())}

    def key(self, cursor: str | None) -> Key | None:
        """Return the key in a cursor of this order. Raises ApiError 400 for another order's cursor and for a text that is no cursor."""
        parts = 3 if self.sort == "worst" else 1
        key = read_cursor(cursor, [str, *[int] * parts, str])
        if key is not None and key[0] != self.sort:
            raise no_cursor()
        return key and key[1:]

    def cursor(self, row: Fields) -> str:
        """Return the cursor of one of `rows`."""
        parts = (row["rank"], -row["reopened"], row["raised_at_ms"]) if self.sort == "worst" else (row["raised_at_ms"],)
        return write_cursor((self.sort, *parts, row["alert_id"]))

    def rows(self, look: StoreView, key: Key | None = None) -> Rows:
        """Return the requested alerts of the viewer after `key`, in order: the columns of `Sight.alerts`."""
        own, order = self._asked(look, stages=self.stages()), _ORDERS[self.sort]
        columns = (*order.columns(own.selected_columns), own.selected_columns.alert_id)
        asked = own.where(*beyond(columns, key, descending=order.descending))
        return asked.order_by(*(column.desc() if order.descending else column for column in columns))

    def stages(self) -> tuple[Stage, ...]:
        """Return the requested stages."""
        return ("open", "acknowledged", "closed") if self.state == "all" else (self.state,)

    def totals(self, look: StoreView) -> Fields:
        """Return `counts`, the alerts in each stage of what is asked for but for `state`, and `rows`, the length of the whole list."""
        by_stage = {row["stage"]: row for row in look.rows(counted_by_stage(self._asked(look, stages=()).cte()))}
        counts: dict[Stage, int] = {"open": 0, "acknowledged": 0, "closed": 0}
        counts |= {stage: row["alerts"] for stage, row in by_stage.items()}
        return {"counts": counts, "rows": sum(by_stage[stage]["rows"] for stage in self.stages() if stage in by_stage)}

    def _asked(self, look: StoreView, stages: tuple[Stage, ...]) -> Rows:
        own = look.sight.alerts().subquery()
        asked = select(own)
        for name, column in (("rule", own.c.rule), ("severity", own.c.severity), ("box", own.c.topic), ("incident", own.c.incident_id)):
            if wanted := getattr(self, name).strip():
                asked = asked.where(column == wanted)
        if compact_container(self.q):
            asked = asked.where(number_beginning(own.c.topic, self.q))
        boxes = look.sight.containers().subquery()
        if ship := self.ship.strip():
            aboard = select(boxes.c.number).where(boxes.c.place_kind == "ship", boxes.c.place_id == ship)
            asked = asked.where(or_(own.c.ship == ship, own.c.topic.in_(aboard)))
        if port := self.port.strip():
            there = select(boxes.c.number).where(boxes.c.place_kind == "quay", boxes.c.place_id == port)
            asked = asked.where(or_(beginning(own.c.alert_id, f"{port}-"), own.c.topic.in_(there)))
        if customer := self.customer.strip():
            asked = asked.where(own.c.topic.in_(select(boxes.c.number).where(boxes.c.customer == customer)))
        return asked.where(in_stage(own.c, *stages)) if stages else asked


Text = Annotated[str, Query(max_length=200)]


def listing(
    state: Which = "all",
    sort: Sort = "worst",
    q: Text = "",
    box: Text = "",
    rule: Text = "",
    severity: Text = "",
    ship: Text = "",
    port: Text = "",
    customer: Text = "",
    incident: Text = "",
) -> AlertListing:
    """Return the list that a request asks for."""
    return AlertListing(state, sort, q, box, rule, severity, ship, port, customer, incident)


AlertsListed = Annotated[AlertListing, Depends(listing)]


def write_alerts(look: StoreView, listed: AlertListing, file: IO[bytes]) -> int:
    """Write the whole list into `file` as CSV; returns how many rows that is."""
    return write_tables(_tables(look, listed), file)


def _tables(look: StoreView, listed: AlertListing) -> Iterator[pa.Table]:
    yield _FILE.empty_table()
    for rows in look.batches(listed.rows(look), FILE_ROWS_AT_ONCE):
        names = look.names(*{row["ship"] for row in rows})
        yield pa.Table.from_pylist([_file_row(row, names) for row in rows], _FILE)


def _file_row(row: Fields, names: Mapping[str, str]) -> Fields:
    more, noted = row["more"], row["acknowledgement"] or {}
    plain = ("alert_id", "topic", "rule", "severity", "state", "title", "detail", "ship", "slot", "incident_id")
    return {
        **{name: row[name] for name in plain},
        **{name: more[name] for name in ("figure", "limit", "unit", "worse", "count")},
        "stage": stage_of(row["state"]),
        "ship_name": names.get(row["ship"] or ""),
        "raised_utc": row["raised_at_ms"],
        "first_utc": more["first_at_ms"],
        "last_utc": more["last_at_ms"],
        "changed_utc": row["changed_at_ms"],
        "acknowledged_utc": noted.get("at_ms"),
        "acknowledged_by": noted.get("by"),
        "note": noted.get("note") or more["note"],
    }
