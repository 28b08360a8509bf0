"""The pages as a process: Streamlit's server within it, its health, and its word on itself."""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from streamlit.starlette import App

from dashboards.pages_process import begin
from dashboards.settings import DashboardSettings
from dashboards.theme import THEME
from hq.asgi_headers import ProtectedAnswers
from landfall.runtime.service import running
from landfall.runtime.telemetry_client import TelemetryClient
from landfall.system.http_headers import DATA_HEADERS, POLICY
from landfall.system.listen_address import address, bound
from landfall.transport.tls import showing
from streams.model.metrics import Metrics

PROCESS = "dashboards"
SCRIPT = Path(__file__).with_name("app.py")
PAGE_HEADERS = DATA_HEADERS | {
    POLICY: "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
}
"""Streamlit's elements have styles of their own (`unsafe-inline`), and the map's library compiles WebAssembly (`wasm-unsafe-eval`). The one
script in its page itself does nothing here, and is not run."""
FILES = ("/static/", "/app/static/")
"""Paths of Streamlit's own files and of the pages' fonts and pictures, which browsers may keep."""
log = logging.getLogger(__name__)


def run_dashboards(settings: DashboardSettings) -> None:
    """Serve the pages until SIGTERM or SIGINT. Raises Misuse when their address can not be had, or their certificate does not
    load."""
    showing("the pages", settings.tls_certificate, settings.tls_key)  # Streamlit loads them later, and has no words for them
    os.environ["FORWARDED_ALLOW_IPS"] = ",".join(settings.trusted_proxies)  # uvicorn's, which Streamlit gives no setting for
    with bound("the pages", settings.host, settings.port):
        pass  # Streamlit takes it later, by itself, and has no words for an address that can not be had
    with running(Metrics(PROCESS), settings) as under_way:
        begin(settings, under_way.metrics)
        sys.argv = [str(SCRIPT)]  # Streamlit takes what runs for its script, and the script's folder for its own
        app = pages(partial(_broke, under_way.telemetry))
        scheme = "http" if settings.tls_certificate is None else "https"
        log.info("the pages are at %s://%s", scheme, address(settings.host, settings.port))
        app.run(config=options(settings))


def pages(broke: Callable[[Exception], None]) -> App:
    """Return Streamlit's application with its health, and security headers on every answer; `broke` is called with what a page raises."""
    protected = Middleware(ProtectedAnswers, PAGE_HEADERS, FILES)
    return App(SCRIPT, routes=[Route("/healthz", _healthz)], middleware=[protected], on_script_error=broke)


def options(settings: DashboardSettings) -> dict[str, Any]:
    """Return Streamlit's own options: nothing is asked outside, nothing is reported to anyone."""
    return {
        "server.address": settings.host,
        "server.port": settings.port,
        "server.headless": True,
        "server.sslCertFile": _text(settings.tls_certificate),
        "server.sslKeyFile": _text(settings.tls_key),
        "server.enableStaticServing": True,
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.disableDataExport": True,  # a table that a browser saves by itself would be noted by nobody
        "client.showErrorDetails": "none",
        "global.developmentMode": False,
        "runner.magicEnabled": False,
        "secrets.files": [],  # no file of the user's home or of the folder it is started in
        "logger.level": "warning",
        "logger.hideWelcomeMessage": True,
        **{f"theme.{name}": value for name, value in THEME.items()},
    }


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _healthz(_: Request) -> JSONResponse:
    """Answer that the process is healthy, only while Streamlit runs: it begins before its routes do."""
    return JSONResponse({"process": PROCESS, "ready": True, "at_ms": time.time_ns() // 1_000_000})


def _broke(telemetry: TelemetryClient, problem: Exception) -> None:
    """Report that a page could not be drawn: the viewer gets a plain sentence from Streamlit, `exceptions` the end of the traceback."""
    where = "".join(traceback.format_exception(problem))
    telemetry.report(f"a page broke: {type(problem).__name__}: {problem}", where[-4_000:], "the viewer was notified", code="page_failed")
