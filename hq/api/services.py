"""What every endpoint works with: who asks, what the store says to them, and the frame around each answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import OAuth2PasswordBearer
from sqlalchemy import Connection, func, select
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from hq.api.access import Right, Sight, Viewer
from hq.api.accounts import Account, Accounts
from hq.api.ask_log import AskDesk
from hq.api.audit import Audit
from hq.api.container_rows import Rows
from hq.api.error_answers import ApiError, Rebuilding, not_for_you
from hq.api.gate import ACCOUNT
from hq.api.logins import AccountLogins
from hq.api.registrar import Registrar
from hq.api.report_log import ReportDesk
from hq.api.settings import ApiSettings
from hq.api.stowage_cache import Stowages
from hq.browser_address import browser_address
from hq.serving.database import ServingReader
from hq.serving.freshness import Freshness, freshness
from streams.integrity.signed_watermark import SignedUntil
from streams.model.clock import FleetClock

_BEARER = OAuth2PasswordBearer(tokenUrl="/api/token", auto_error=False)


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one API process, made once by `create_app`. `session_ms`: the time by which sessions end, UTC ms."""

    settings: ApiSettings
    reader: ServingReader
    accounts: Accounts
    logins: AccountLogins
    audit: Audit
    clock: FleetClock
    session_ms: Callable[[], int]
    registrar: Registrar
    reports: ReportDesk
    asks: AskDesk
    signed: SignedUntil
    stowages: Stowages


@dataclass(frozen=True, slots=True)
class StoreView:
    """One consistent view of the store for one viewer, and how fresh it is."""

    connection: Connection
    sight: Sight
    services: Services
    fresh: Freshness

    @property
    def now_at_ms(self) -> int:
        """The fleet time of the question."""
        return self.sight.now_at_ms

    def rows(self, selection: Rows) -> list[dict[str, Any]]:
        """Return the rows of a selection made from `sight`."""
        return [dict(row) for row in self.connection.execute(selection).mappings()]

    def batches(self, selection: Rows, rows_max: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of a selection made from `sight`, at most `rows_max` in memory at once; other selections may be read meanwhile."""
        found = self.connection.execute(selection, execution_options={"yield_per": rows_max})
        yield from ([dict(row) for row in part] for part in found.mappings().partitions())

    def count(self, selection: Rows) -> int:
        """Return the number of rows of a selection made from `sight`."""
        return int(self.connection.execute(select(func.count()).select_from(selection.subquery())).scalar_one())

    def names(self, *places: str | None, consignees: Iterable[str | None] = ()) -> dict[str, str]:
        """Return the names of the ships, ports and consignees of an answer's rows, by IMO number, UN/LOCODE and `customer/<id>`."""
        wanted, customers = ({one for one in ids if one} for ids in (places, consignees))
        return {row["key"]: row["name"] for row in self.rows(self.sight.names(wanted, customers))} if wanted or customers else {}

    def framed(self, *, from_log: bool = False, **body: Any) -> dict[str, Any]:
        """Return an answer's body with the clock, and the fleet time it is true for: of the log, or of Spark's results."""
        return {**framed_clock(self.services), "as_of_at_ms": self.fresh.log_at_ms if from_log else self.fresh.spark_at_ms, **body}


@dataclass(frozen=True, slots=True)
class Caller:
    """A question from someone who has logged in, sent from `address`."""

    viewer: Viewer
    services: Services
    address: str

    def need(self, right: Right) -> None:
        """Raise ApiError 403, the same for every object, when the viewer's role lacks `right`."""
        if not self.viewer.may(right):
            raise not_for_you(right.value)

    def audit(self, act: str, **more: Any) -> None:
        """Note in the `audit` stream what the viewer did, and from which address."""
        self.services.audit.note(act, self.viewer.username, address=self.address, **more)

    @contextmanager
    def look(self) -> Iterator[StoreView]:
        """Yield a view of the store. Raises Rebuilding while it is not whole."""
        with self.services.reader.snapshot() as connection:
            fresh = freshness(connection)
            if fresh is None or not fresh.whole:
                raise Rebuilding("The serving database is being built.", fresh.started_wall_at_ms if fresh else None)
            yield StoreView(connection, Sight(self.viewer, self.services.clock.now_ms()), self.services, fresh)


def framed_clock(services: Services) -> dict[str, Any]:
    """Return `{"clock": {"now_at_ms", "speed", "state", "movable"}}`: part of every answer. `movable`: it is a story's."""
    clock, movable = services.clock, services.settings.control is not None
    runs = clock.fleet_time
    return {"clock": {"now_at_ms": clock.now_ms(), "speed": runs.speed, "state": runs.state, "movable": movable}}


def services_of(request: Request) -> Services:
    """Return the parts of the process that answers `request`."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


async def identify(scope: Scope) -> Account | None:
    """Return the account whose session the request is of; None without a session that goes on."""
    request = Request(scope)
    services = services_of(request)
    token = token_of(request)
    if not token:
        return None
    return await run_in_threadpool(services.accounts.of_session, token, services.session_ms(), services.settings.session_idle_s * 1000)


def token_of(request: Request) -> str:
    """Return the token of the request's session; empty without one."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def address_of(request: Request, services: Services) -> str:
    """Return the request's origin: the browser's address if the pages name one, else the sender's; empty if neither is known."""
    sender = request.client.host if request.client else ""
    return browser_address(request.headers, services.settings.pages_token) or sender


def ask(request: Request, _: Annotated[str | None, Depends(_BEARER)], services: Annotated[Services, Depends(services_of)]) -> Caller:
    """Return the sender of a request, as the gate knows it. Raises ApiError 422 for a question with a NUL, which no name has and not every
    store takes."""
    account = getattr(request.state, ACCOUNT)
    assert isinstance(account, Account), "the gate lets nobody in without an account"
    if "\0" in request.scope["path"] or "%00" in request.url.query:
        raise ApiError(422, "nul_in_address", "Invalid request.", "Take the NUL character out of the address.")
    viewer = Viewer(account.username, account.role, account.name, account.customer, account.ship)
    return Caller(viewer, services, address_of(request, services))


Asking = Annotated[Caller, Depends(ask)]
Serving = Annotated[Services, Depends(services_of)]


def wall_ms() -> int:
    """Return the wall's time, UTC ms."""
    return time.time_ns() // 1_000_000
