"""The pages as a process: Streamlit takes this process's place, told everything by its command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dashboards.settings import DashboardSettings
from dashboards.theme import THEME

APP = Path(__file__).with_name("app.py")


def run_dashboards(settings: DashboardSettings) -> None:
    """Serve the pages until SIGTERM or SIGINT. Never returns: the process becomes Streamlit, healthy when `/_stcore/health` says ok."""
    command = command_line(settings)
    os.execv(command[0], command)


def command_line(settings: DashboardSettings) -> list[str]:
    """The program and its arguments that serve the pages by `settings`; nothing is asked outside, nothing is reported to anyone."""
    options: dict[str, str | int | bool] = {
        "server.address": settings.host,
        "server.port": settings.port,
        "server.headless": True,
        "server.enableStaticServing": True,
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "global.developmentMode": False,
        "runner.magicEnabled": False,
        "logger.level": "warning",
        **{f"theme.{name}": value for name, value in THEME.items()},
    }
    flags = [f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in options.items()]
    return [sys.executable, "-m", "streamlit", "run", str(APP), *flags, "--", settings.model_dump_json()]
