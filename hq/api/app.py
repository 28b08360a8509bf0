"""The API process: its parts, its endpoints, and its clean end."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from hq.api.accounts import Accounts
from hq.api.endpoints import alerts, bookings, containers, fleet, ports, registry, session, status
from hq.api.errors import add_handlers
from hq.api.examples import add_examples
from hq.api.measuring import Failures, Measured
from hq.api.registrar import Registrar
from hq.api.services import Services
from hq.api.settings import ApiSettings
from hq.clock import following
from hq.opening import opened_log
from hq.serving.database import ServingReader
from hq.telling import Teller
from streams.clock import FleetClock
from streams.link.door import AppendDoor
from streams.metrics import Metrics

PROCESS = "api"
STOP_S_MAX = 5
log = logging.getLogger(__name__)
_ABOUT = "Ships, containers, alerts. Every answer says the fleet's time (`clock`) and what time it is true for (`as_of_at_ms`)."


def create_app(settings: ApiSettings, clock: FleetClock) -> FastAPI:
    """The API over the settings' store, on the fleet's time of `clock`. Its parts are made and released with the application's life."""

    metrics, failures = Metrics(PROCESS), Failures(PROCESS)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        reader = ServingReader(settings.database_url)
        door = AppendDoor(settings.door, settings.token.get_secret_value())
        registrar = Registrar(opened_log(settings.log), door, clock)
        app.state.services = Services(settings, reader, Accounts(settings.accounts), clock, registrar)
        stop = threading.Event()
        teller = threading.Thread(target=_keep_telling, args=(Teller(door, metrics, clock, settings.metrics_every_s), failures, stop))
        teller.start()
        yield
        stop.set()
        teller.join()
        reader.close()

    app = FastAPI(title="Landfall", description=_ABOUT, lifespan=life)
    app.add_middleware(Measured, metrics=metrics)
    add_handlers(app, lambda reason, request: failures.add(reason, request, clock.now_ms()))
    for part in (session, fleet, containers, alerts, bookings, ports, registry, status):
        app.include_router(part.router, prefix="/api")

    add_examples(app)

    @app.get("/healthz", include_in_schema=False)
    def healthz() -> JSONResponse:
        return JSONResponse({"process": PROCESS, "now_at_ms": clock.now_ms()})

    return app


def run_api(settings: ApiSettings) -> None:
    """Serve until SIGTERM or SIGINT."""
    with following(settings.clock) as clock:
        config = uvicorn.Config(
            create_app(settings, clock),
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=STOP_S_MAX,
        )
        _Server(config).run()
    log.info("ended")


class _Server(uvicorn.Server):
    """Ends on SIGTERM and SIGINT without raising the signal again, so that all is released and the process ends with code 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals ask the server to finish what it answers, and to end."""
        kept = {wanted: signal.signal(wanted, self.handle_exit) for wanted in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for wanted, handler in kept.items():
                signal.signal(wanted, handler)


def _keep_telling(teller: Teller, failures: Failures, stop: threading.Event) -> None:
    while not stop.wait(teller.interval_s):
        waiting = failures.waiting()
        if teller.tell(waiting):
            failures.told(waiting)
