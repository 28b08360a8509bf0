"""The process of the pages as each page finds it: its settings, its way to the API, and its metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dashboards.api_client import ApiClient
from dashboards.settings import DashboardSettings
from streams.model.metrics import Metrics

_processes: list[PagesProcess] = []


@dataclass(frozen=True, slots=True)
class PagesProcess:
    """State that all tabs share. Rights are not among it: they come with each question's token."""

    settings: DashboardSettings
    client: ApiClient
    metrics: Metrics

    @contextmanager
    def rendering(self) -> Iterator[None]:
        """Count the block as a drawn page (`pages`) and measure its duration (`page`), however it ends."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.metrics.count("pages")
            self.metrics.observe("page", (time.perf_counter() - began_s) * 1000)


def begin(settings: DashboardSettings, metrics: Metrics) -> None:
    """Make this process serve the pages from now on."""
    url, timeout_s, token, authority = str(settings.api_url), settings.api_timeout_s, settings.api_token, settings.api_ca
    client = ApiClient(url, timeout_s, metrics=metrics, token=token, authority=authority)
    _processes[:] = [PagesProcess(settings, client, metrics)]


def here() -> PagesProcess:
    """Return the process that runs this page. Raises RuntimeError if none was begun."""
    if not _processes:
        raise RuntimeError("the pages run within `landfall dashboards`")
    return _processes[0]
