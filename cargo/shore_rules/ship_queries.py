"""Queries to a ship for one container's span: the query, its cost, and the decision on an answer over the metered link now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from cargo.errors import BadEntry, CargoError
from cargo.vocabulary.registry_entries import AtMs, need_plain
from cargo.vocabulary.trade_codes import is_imo, looks_like_container

TOPIC = "ask/"
"""Beginning of the topics of queries and answers; the query's id follows."""
RECORDS_MAX = 20_000
"""Maximum number of records in one answer: ten weeks of a box that reports every five minutes."""
BYTES_A_MB = 1_000_000
Id = Annotated[str, Meta(pattern="^[a-z0-9]{1,40}$")]
Spend = Literal["nothing", "budget"]
"""Limit of what an answer may spend without confirmation: nothing (only its price is reported), or the rest of the day's budget."""
Price = Annotated[float, Meta(ge=0)]
Whole = Annotated[int, Meta(ge=0, lt=1 << 53)]
Kind = TypeVar("Kind", bound=msgspec.Struct)


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query for the records of `container` on `ship` (IMO number) with since <= order time < until (UTC ms). `by` sent it at `at_ms`.

    `at_most`: the agreed price, in the ship's currency. Up to it the records are sent beyond the day's budget, or where there is none.
    """

    ask_id: Id
    ship: str
    container: str
    since_at_ms: AtMs
    until_at_ms: AtMs
    spend: Spend
    at_ms: AtMs
    by: str
    at_most: Price | None = None

    def __post_init__(self) -> None:
        if not is_imo(self.ship):
            raise CargoError(f"a ship is asked by its IMO number, not {self.ship!r}", code="imo_number_invalid")
        if not looks_like_container(self.container):
            raise CargoError(f"{self.container!r} is not written like a container number of ISO 6346", code="container_number_invalid")
        if self.until_at_ms <= self.since_at_ms:
            raise CargoError("a span ends after it begins", code="span_invalid")
        if self.at_most is not None and (self.spend == "nothing" or not isfinite(self.at_most)):
            raise CargoError("who agrees to a price names it, and asks for more than the price", code="agreement_invalid")
        need_plain(self.by)

    @property
    def topic(self) -> str:
        """Topic of its records."""
        return TOPIC + self.ask_id


class Answer(msgspec.Struct, frozen=True):
    """A ship's answer.

    `priced`: the cost, nothing was sent; `refused`: the reason; `answered`: the records are in other records of the stream. `records`:
    number to send; `sent_before`: number that were sent before or are ashore; `bytes`: the size on `link`; `cost`: in the ship's currency
    (null: a link without a budget). `free_bytes`: rest of the day's budget, before. `granted_bytes` raise the budget of `granted_day`
    (UTC). `told`: all of it in a sentence. `wall_at_ms`: the ship's wall clock."""

    ask_id: Id
    ship: str
    container: str
    state: Literal["priced", "refused", "answered"]
    at_ms: AtMs
    wall_at_ms: AtMs
    records: Whole
    sent_before: Whole
    bytes: Whole
    told: str
    link: str | None = None
    cost: float | None = None
    free_bytes: Whole | None = None
    granted_day: str | None = None
    granted_bytes: Whole = 0


@dataclass(frozen=True, slots=True)
class QueryMatch:
    """Records that match a query: the number to send, the number sent before or ashore, and the size on the link."""

    records: int
    sent_before: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Allowance:
    """A link with a budget or a price, without the reserve for alerts.

    `free_bytes`: the rest of today's budget (None: it has no budget); `day_bytes`: the budget of a whole day; `price_per_mb`: the price of
    1,000,000 bytes. `day`: today, UTC, like `2026-05-01`. `opening_bytes`: what must be left for a link to be opened that was cut."""

    link: str
    day: str
    free_bytes: int | None
    day_bytes: int
    price_per_mb: float
    opening_bytes: int = 0

    def cost(self, bytes_: int) -> float:
        """Return the cost of this number of bytes."""
        return bytes_ / BYTES_A_MB * self.price_per_mb

    def covers(self, found: QueryMatch) -> bool:
        """Return whether the query needs no confirmation: it is within the rest of a budget, or sends nothing at all."""
        return not found.records or (self.free_bytes is not None and found.bytes <= self.free_bytes)


def read_ask(body: Mapping[str, Any]) -> Ask:
    """Return the query in a record's body. Raises BadEntry."""
    return _read(body, Ask)


def read_answer(body: Mapping[str, Any]) -> Answer:
    """Return the answer in a record's body. Raises BadEntry."""
    answer = _read(body, Answer)
    try:
        need_plain(msgspec.to_builtins(answer))
    except ValueError as problem:
        raise BadEntry(f"an answer does not read: {problem}", code="answer_unreadable") from problem
    return answer


_LEASED = " besides what its open link holds on lease, which is given back as it closes"
"""Text for the difference between what is left and the day's budget less what passed: `streams/link_budget/daily_budget.py`."""


def answered(ask: Ask, found: QueryMatch, allowance: Allowance | None, at_ms: int, wall_at_ms: int) -> Answer:
    """Return the answer to `ask`, over a link of this `allowance` (None: one with neither budget nor price). `at_ms`: fleet time."""
    text, granted, cost = _price(found, allowance), 0, _cost(found, allowance)
    state: Literal["priced", "refused", "answered"] = "answered"
    if found.records > RECORDS_MAX:
        state = "refused"
        text = f"{found.records:,} records are more than the {RECORDS_MAX:,} of one answer: ask for a shorter span"
    elif ask.spend == "nothing":
        state = "priced"
    elif allowance is not None and cost is not None and not allowance.covers(found):
        if ask.at_most is None or cost > ask.at_most:
            state = "priced"
            text += f": {_needs(found, allowance) if ask.at_most is None else f'more than the {ask.at_most:,.4f} agreed to'}"
        elif allowance.free_bytes is not None:
            granted = found.bytes - allowance.free_bytes + allowance.opening_bytes
            text += f"; today's budget is raised by {granted:,} bytes for it"
    return Answer(
        ask_id=ask.ask_id,
        ship=ask.ship,
        container=ask.container,
        state=state,
        at_ms=at_ms,
        wall_at_ms=wall_at_ms,
        records=found.records,
        sent_before=found.sent_before,
        bytes=found.bytes,
        told=text,
        link=allowance.link if allowance else None,
        cost=cost,
        free_bytes=allowance.free_bytes if allowance else None,
        granted_day=allowance.day if allowance and granted else None,
        granted_bytes=granted,
    )


def _price(found: QueryMatch, allowance: Allowance | None) -> str:
    before = f" ({found.sent_before:,} were sent before, or are ashore)" if found.sent_before else ""
    if not found.records:
        return f"the ship has no records to send{before}"
    amount = f"{found.records:,} records{before}, {found.bytes:,} bytes"
    if allowance is None:
        return f"no cost: {amount} over a link without a budget"
    left = "it has no budget" if allowance.free_bytes is None else f"{allowance.free_bytes:,} bytes are left today{_LEASED}"
    return f"cost {allowance.cost(found.bytes):,.4f}: {amount} over the {allowance.link} link; {left}"


def _cost(found: QueryMatch, allowance: Allowance | None) -> float | None:
    """Return the cost as it is reported, and agreed to."""
    return None if allowance is None else round(allowance.cost(found.bytes), 4)


def _needs(found: QueryMatch, allowance: Allowance) -> str:
    if allowance.free_bytes is None:
        return "it comes when its price is agreed to (--at-most)"
    return f"{_when(found.bytes, allowance)}, or agree to its price (--at-most)"


def _when(bytes_: int, allowance: Allowance) -> str:
    if bytes_ > allowance.day_bytes:
        return f"more than the {allowance.day_bytes:,} bytes of a whole day, so ask for a shorter span, wait for its next port"
    midnight = datetime.fromisoformat(allowance.day).replace(tzinfo=UTC) + timedelta(days=1)
    return f"it fits from {midnight:%Y-%m-%d %H:%M} UTC on, when the next day's budget begins"


def _read(body: Mapping[str, Any], kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(body, kind)
    except ValueError as problem:
        raise BadEntry(f"an {kind.__name__.lower()} does not read: {problem}", code="query_unreadable") from problem
