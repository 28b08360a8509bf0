"""Which containers a list has, in which order: what a page of the list and the list as a file have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Annotated, Any, Literal

import pyarrow as pa
from fastapi import Depends
from sqlalchemy import func, select

from cargo.vocabulary.trade_codes import compact_container
from hq.api.alert_states import in_stage
from hq.api.answer_fields import Fields, container_fields, position_at_ms
from hq.api.container_rows import Rows
from hq.api.csv_files import write_tables
from hq.api.cursors import INT_MAX, INT_MIN, TEXT_MAX, Key, beyond, no_cursor, number_beginning, read_cursor, write_cursor
from hq.api.muster_answers import judge_of
from hq.api.services import StoreView

Sort = Literal["number", "place", "heard_oldest", "heard_newest"]
FILE_ROWS_AT_ONCE = 1_000
_AIRS = ("setpoint_c", "supply_c", "return_c", "ambient_c")
_FILE = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("number", "place", "place_name")),
        *(pa.field(name, pa.float64()) for name in ("latitude_deg", "longitude_deg")),
        *(pa.field(name, pa.timestamp("ms")) for name in ("position_utc", "last_heard_utc")),
        pa.field("digest_of", pa.string()),
        *(pa.field(name, pa.float64()) for name in _AIRS),
        *(pa.field(name, pa.string()) for name in ("booking", "customer")),
        pa.field("ended", pa.bool_()),
        *(pa.field(name, pa.string()) for name in ("standing", "account")),
        pa.field("open_alerts", pa.int64()),
    ]
)
"""Columns of a list as a file; `digest_of`: the node whose digest says when the box was last heard, where that is no reading (to a
customer: ITS_SHIP)."""
ITS_SHIP = "its ship"


def _heard(own: Any, never_at_ms: int) -> Any:
    return func.coalesce(own.digest_at_ms, own.at_ms, never_at_ms)


@dataclass(frozen=True, slots=True)
class _Order:
    """By which columns a list is ordered before the number, and of which types they are. What is not known comes last in every order."""

    columns: Callable[[Any], tuple[Any, ...]]
    kinds: tuple[type, ...]
    descending: bool = False


_ORDERS: dict[Sort, _Order] = {
    "number": _Order(lambda _: (), ()),
    "place": _Order(lambda own: (func.coalesce(own.place_kind, TEXT_MAX), func.coalesce(own.place_id, TEXT_MAX)), (str, str)),
    "heard_oldest": _Order(lambda own: (_heard(own, INT_MAX),), (int,)),
    "heard_newest": _Order(lambda own: (_heard(own, INT_MIN),), (int,), descending=True),
}


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of containers. `q`: how a number begins; `booking`: the reference of one that had, has or will have them, with its span in
    `found_by`; `place`: `ship/<imo>` or `quay/<locode>`. `sort`: by number; by place; heard longest ago first; heard last first. Boxes
    that are nowhere, or were never heard, come last.
    """

    q: str
    booking: str
    place: str
    sort: Sort

    @property
    def filters(self) -> dict[str, str]:
        """Filters that the request sets, out of all that there are."""
        return {name: value for name in ("q", "booking", "place") if (value := getattr(self, name).strip())}

    def key(self, cursor: str | None) -> Key | None:
        """Return the key in a cursor of this order. Raises ApiError 400 for another order's cursor and for a text that is no cursor."""
        key = read_cursor(cursor, [str, *_ORDERS[self.sort].kinds, str])
        if key is not None and key[0] != self.sort:
            raise no_cursor()
        return key and key[1:]

    def cursor(self, row: Fields) -> str:
        """Return the cursor of one of `rows`."""
        return write_cursor((self.sort, *(row[f"sort_{place}"] for place in range(len(_ORDERS[self.sort].kinds))), row["number"]))

    def rows(self, look: StoreView, key: Key | None = None) -> Rows:
        """Return the requested containers of the viewer after `key`, in order: the columns of `Sight.containers`, and those that `cursor`
        needs."""
        own = (look.sight.booked(self.booking) if self.booking.strip() else look.sight.containers()).subquery()
        order = _ORDERS[self.sort]
        columns = (*order.columns(own.c), own.c.number)
        labelled = (column.label(f"sort_{place}") for place, column in enumerate(columns[:-1]))
        asked = select(own, *labelled).where(*beyond(columns, key, descending=order.descending))
        asked = asked.order_by(*(column.desc() if order.descending else column for column in columns))
        if compact_container(self.q):
            asked = asked.where(number_beginning(own.c.number, self.q))
        if self.place:
            kind, _, identity = self.place.partition("/")
            asked = asked.where(own.c.standing == kind, own.c.place_id == identity)
        return asked


def listing(q: str = "", booking: str = "", place: str = "", sort: Sort = "number") -> Listing:
    """Return the list that a request asks for."""
    return Listing(q, booking, place, sort)


Listed = Annotated[Listing, Depends(listing)]


def container_items(look: StoreView, rows: Sequence[Fields]) -> list[Fields]:
    """Return containers as answers carry them, each with whether it is accounted for, and its number of open alerts."""
    counts, judge = _open_alerts(look, rows), judge_of(look)
    return [
        {**container_fields(row, look.now_at_ms), "account": judge.account(row), "open_alerts": counts.get(row["number"], 0)}
        for row in rows
    ]


def _open_alerts(look: StoreView, rows: Sequence[Fields]) -> dict[str, int]:
    alerts = look.sight.alerts().subquery()
    about = alerts.c.topic.in_([row["number"] for row in rows])
    asked = select(alerts.c.topic, func.count().label("alerts")).where(about, in_stage(alerts.c, "open"))
    return {row["topic"]: row["alerts"] for row in look.rows(asked.group_by(alerts.c.topic))}


def write_containers(look: StoreView, listed: Listing, file: IO[bytes]) -> int:
    """Write the whole list into `file` as CSV; returns how many rows that is."""
    return write_tables(_tables(look, listed), file)


def _tables(look: StoreView, listed: Listing) -> Iterator[pa.Table]:
    yield _FILE.empty_table()
    judge = judge_of(look)
    for rows in look.batches(listed.rows(look), FILE_ROWS_AT_ONCE):
        names, counts = look.names(*{row["place_id"] for row in rows}), _open_alerts(look, rows)
        file_rows = [_file_row({**row, "account": judge.account(row)}, names, look.now_at_ms, counts.get(row["number"], 0)) for row in rows]
        yield pa.Table.from_pylist(file_rows, _FILE)


def _file_row(row: Fields, names: Mapping[str, str], now_at_ms: int, open_alerts: int) -> Fields:
    airs = {name: (row["signals"] or {}).get(name, {}).get("value") for name in _AIRS}
    return {
        **{name: row[name] for name in ("number", "latitude_deg", "longitude_deg", "booking", "customer", "standing", "account")},
        **{name: float(value) if type(value) in (int, float) else None for name, value in airs.items()},
        "place": f"{row['place_kind']}/{row['place_id']}" if row["place_kind"] else None,
        "place_name": names.get(row["place_id"]),
        "position_utc": position_at_ms(row),
        "last_heard_utc": row["at_ms"] if row["digest_at_ms"] is None else row["digest_at_ms"],
        "digest_of": None if row["digest_at_ms"] is None else row["digest"]["node"] if row["digest"] else ITS_SHIP,
        "ended": row["until_at_ms"] is not None and row["until_at_ms"] <= now_at_ms,
        "open_alerts": open_alerts,
    }
