"""The API process: its parts, its endpoints, and its clean end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from hq.api.accounts import Accounts
from hq.api.api_reference import add_examples, add_reference
from hq.api.ask_log import AskDesk
from hq.api.audit import Audit
from hq.api.endpoints import alerts, asks, bookings, containers, fleet, ports, registry, reports, searcharea, session, status
from hq.api.error_answers import add_handlers
from hq.api.gate import Gate, TimedProtocol
from hq.api.logins import AccountLogins
from hq.api.registrar import Registrar
from hq.api.report_log import ReportDesk
from hq.api.request_metrics import RequestMetrics
from hq.api.services import Services, identify
from hq.api.settings import ApiSettings
from hq.api.stowage_cache import Stowages
from hq.asgi_headers import ProtectedAnswers
from hq.serving.database import ServingReader
from landfall.runtime.log_wait import opened_log
from landfall.runtime.process_clock import following
from landfall.runtime.service import telemetry_of
from landfall.runtime.telemetry_client import TelemetryClient
from landfall.system.http_headers import DATA_HEADERS
from landfall.system.listen_address import bound
from landfall.transport.certificate_renewal import keep_certificate
from landfall.transport.http_client import AppendDoor
from landfall.transport.tls import Shown, showing
from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.key_trust import NOBODY
from streams.integrity.keyring import Keyring
from streams.integrity.signed_watermark import SignedUntil
from streams.model.clock import Clock, FleetClock, WallClock, steady_ms
from streams.model.metrics import Metrics

PROCESS = "api"
STOP_S_MAX = 5
IDLE_S_MAX = 60
"""Time after which an idle connection is closed, seconds. Clients keep one for a shorter time (httpx for 5 s), and so never ask on one that
is just being closed."""
ACCEPTS_MAX = 100
"""Maximum number of connections accepted at a time. As often asyncio tries in vain, each second, where no file can be opened any more:
uvicorn's own 2,048 keep half a core busy with it."""
ENDPOINTS = {
    "Session": session,
    "Fleet and map": fleet,
    "Containers": containers,
    "Alerts and incidents": alerts,
    "Search area": searcharea,
    "Loss reports": reports,
    "Queries to ships": asks,
    "Bookings": bookings,
    "Ports": ports,
    "Registry": registry,
    "Status": status,
}
"""The modules of the endpoints by section of the API's reference."""
_TITLE = "Landfall"
_ABOUT = "Ships, containers, alerts. Every answer has the fleet's time (`clock`) and the time it is true for (`as_of_at_ms`)."


def create_app(settings: ApiSettings, clock: FleetClock, shown: Shown | None = None, wall: Clock | None = None) -> FastAPI:
    """Return the API over the settings' store, on the fleet's time of `clock`. Its parts are made and released with the application's life.
    Meanwhile it looks after the certificate that is `shown`. It waits for headquarters' log, as `opened_log`, which raises RetryLater:
    here, as a server that starts can not be asked to end. Sessions end by the time that `wall` shows now, continued by boot time."""
    log, session_ms = opened_log(settings.log), steady_ms(wall or WallClock())
    metrics, door = Metrics(PROCESS), AppendDoor(settings.door, settings.token.get_secret_value())
    telemetry = telemetry_of(settings, metrics, clock)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        with closing(log), telemetry, closing(ServingReader(settings.database_url)) as reader:
            registrar = Registrar(log, door, clock)
            desk = ReportDesk(log, registrar)
            signed = SignedUntil(Copy(log, BlockCodec()), Keyring(log, "", frozenset(), NOBODY).of)
            accounts, asks_ = Accounts(settings.accounts), AskDesk(log, door, clock)
            with closing(AccountLogins(accounts, clock.monotonic_s)) as logins, Audit(door, clock, metrics, accounts) as audit:
                parts = (registrar, desk, asks_, signed, Stowages())
                app.state.services = Services(settings, reader, accounts, logins, audit, clock, session_ms, *parts)
                async with _kept(shown, telemetry):
                    yield

    app = FastAPI(title=_TITLE, description=_ABOUT, lifespan=life, docs_url=None, redoc_url=None)
    app.add_middleware(Gate, identify=identify)
    app.add_middleware(RequestMetrics, metrics=metrics)
    add_handlers(app, lambda reason, request: telemetry.report(reason, request, "answered 500", code="broken"))
    _add_endpoints(app)
    app.openapi()  # FastAPI makes its routes now, not while the first requests wait
    add_reference(app)

    @app.get("/healthz", include_in_schema=False)
    def healthz() -> JSONResponse:
        return JSONResponse({"process": PROCESS, "now_at_ms": clock.now_ms()})

    return app


def describe_api() -> dict[str, Any]:
    """Return the OpenAPI description of every endpoint below `/api`; its tags are the sections of ENDPOINTS."""
    app = FastAPI(title=_TITLE, description=_ABOUT)
    _add_endpoints(app)
    return app.openapi()


def _add_endpoints(app: FastAPI) -> None:
    for section, module in ENDPOINTS.items():
        app.include_router(module.router, prefix="/api", tags=[section])
    add_examples(app)


@asynccontextmanager
async def _kept(shown: Shown | None, telemetry: TelemetryClient) -> AsyncIterator[None]:
    def report(reason: str, outcome: str, *, code: str, **details: str) -> None:
        telemetry.report(reason, json.dumps(details), outcome, code=code)

    keeping = asyncio.create_task(keep_certificate("the API", "the API", shown, report)) if shown else None
    try:
        yield
    finally:
        if keeping is not None:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping


def served(app: FastAPI, *, port: int = 0, proxies: Collection[str] = (), shown: Shown | None = None) -> uvicorn.Server:
    """Return a server of the application, not yet running; over TLS if the application has a certificate. Only `proxies` are believed about
    a request's sender (`X-Forwarded-For`)."""
    config = uvicorn.Config(
        ProtectedAnswers(app, DATA_HEADERS),
        port=port,
        http=TimedProtocol,
        ws="none",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        ssl_context_factory=None if shown is None else lambda *_: shown.context,
        backlog=ACCEPTS_MAX,
        timeout_keep_alive=IDLE_S_MAX,
        timeout_graceful_shutdown=STOP_S_MAX,
        log_config=None,
        access_log=False,
    )
    return uvicorn.Server(config)


def run_api(settings: ApiSettings) -> None:
    """Serve until SIGTERM or SIGINT; what is being answered is finished first.

    Raises Misuse when the address can not be had, or its certificate does not load, and RetryLater when headquarters' log is not there.
    """
    shown = showing("the API", settings.tls_certificate, settings.tls_key)
    with bound("the API", settings.host, settings.port) as door, following(settings.clock) as clock, suppress(KeyboardInterrupt):
        served(create_app(settings, clock, shown), proxies=settings.trusted_proxies, shown=shown).run([door])
