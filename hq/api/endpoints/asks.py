"""Ask a ship for what it has of one container, over whatever link it has; the cost is reported first, or kept within its budget."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from cargo.shore_rules.ship_queries import Spend
from cargo.vocabulary.registry_entries import AT_MS_MAX
from cargo.vocabulary.trade_codes import compact_container
from hq.api.access import Right
from hq.api.cursors import LIMIT_DEFAULT, LIMIT_MAX, read_cursor, write_cursor
from hq.api.error_answers import ApiError, not_found
from hq.api.services import Asking, framed_clock

router = APIRouter()
AtMs = Annotated[int, Field(ge=0, le=AT_MS_MAX)]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]


class NewAsk(BaseModel):
    """Whom to ask for what: records with since <= order time < until (UTC ms). `spend`: what the answer may take of the link's budget.

    `at_most`: the price agreed to, in the ship's own currency; for so much it is brought beyond the day's budget, or where there is none.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"ship": "9321483", "container": "MSKU1234565", "since_at_ms": 1777593600000, "until_at_ms": 1777680000000}]
        },
    )

    ship: str
    container: str
    since_at_ms: AtMs
    until_at_ms: AtMs
    spend: Spend = "budget"
    at_most: float | None = Field(default=None, ge=0, allow_inf_nan=False)


@router.post("/asks")
def ask_ship(ask: Asking, new: NewAsk) -> dict[str, Any]:
    """Send a query for one container's records to a ship. Operations only. It is durable when answered; `GET /api/asks/{ask_id}` has
    the result.

    `spend`: `budget` brings the records if they are free or the day's budget allows it; otherwise the query is `priced`. Ask again with
    `at_most` 1 % above the `cost`, because the second answer may be a byte longer. `nothing` returns the price only.
    """
    ask.need(Right.ASK_SHIPS)
    desk = ask.services.asks
    if ask.services.registrar.ship(new.ship) is None:
        raise not_found("ship_unknown", "ship")
    try:
        span = (new.since_at_ms, new.until_at_ms)
        asked = desk.ask(new.ship, compact_container(new.container), span, (new.spend, new.at_most), ask.viewer.name)
    except ValueError as problem:
        raise ApiError(422, "question_invalid", f"Nothing was asked: {problem}.", "Fix it and ask again.") from None
    ask.audit("ask", ask_id=asked.ask_id, ship=new.ship)
    return {**framed_clock(ask.services), "as_of_at_ms": None, "ask_id": asked.ask_id}


@router.get("/asks")
def asks(ask: Asking, cursor: str | None = None, limit: Limit = LIMIT_DEFAULT) -> dict[str, Any]:
    """List queries to ships and their answers, the last first, as the log has them now. Operations only."""
    ask.need(Right.ASK_SHIPS)
    key = read_cursor(cursor, [int, str])
    items = [question for question in ask.services.asks.asks() if key is None or (question["asked_at_ms"], question["ask_id"]) < tuple(key)]
    more = write_cursor((items[limit - 1]["asked_at_ms"], items[limit - 1]["ask_id"])) if len(items) > limit else None
    return {**framed_clock(ask.services), "as_of_at_ms": None, "items": items[:limit], "next": more}


@router.get("/asks/{ask_id}")
def one(ask: Asking, ask_id: str) -> dict[str, Any]:
    """Return one query and its answer. Operations only. `arrived`: the records are in headquarters' log."""
    ask.need(Right.ASK_SHIPS)
    question = ask.services.asks.one(ask_id)
    if question is None:
        raise not_found("question_unknown", "question to a ship")
    return {**framed_clock(ask.services), "as_of_at_ms": None, "ask": question}
