"""The long-running processes: where the settings and the main function of each are found, so that `--help` stays quick."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from landfall.runtime.settings_loader import load
from landfall.system.listen_address import ExhaustionFilter
from landfall.system.settings_table import SettingsTable
from landfall.system.struct_types import build_struct_types
from streams.model.errors import Misuse, RetryLater

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

ASKED_AGAIN_S = 0.1
"""So long after it was asked to end, where no exception gets through, a process is asked once more."""


def to_stderr(process: str) -> None:
    """From now on every logger's INFO and above goes to standard error, with the time and the process's name."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {process} %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("asyncio").addFilter(ExhaustionFilter(time.monotonic))
    for chatty in ("httpx", "py4j", "pyspark"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class NotInstalled(Misuse):
    """A part of Landfall that is for machines of another role."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process `landfall <name>`: its settings and its main function, each as `module:name`.

    `ends`: it is a tool, whose work is done at some time; one that is asked to end before that has failed. `small`: it spares memory.
    """

    settings: str
    run: str
    ends: bool = False
    small: bool = False


PROCESSES = {
    "ship": Process("edge.settings:ShipSettings", "edge.ship:run_ship", small=True),
    "port": Process("shore.settings:PortSettings", "shore.port:run_port", small=True),
    "customer": Process("shore.settings:CustomerSettings", "shore.customer_node:run_customer", small=True),
    "analytics": Process("hq.analytics.settings:AnalyticsSettings", "hq.analytics.job:run_analytics"),
    "projector": Process("hq.serving.projector:ProjectorSettings", "hq.serving.projector:run_projector"),
    "api": Process("hq.api.settings:ApiSettings", "hq.api.app:run_api"),
    "fanout": Process("hq.fanout.settings:FanoutSettings", "hq.fanout.fanout_process:run_fanout"),
    "broker": Process("hq.fanout.settings:KafkaBrokerSettings", "hq.fanout.dev_broker:run_broker"),
    "dashboards": Process("dashboards.settings:DashboardSettings", "dashboards.pages_server:run_dashboards"),
    "sim run": Process("sim.settings:SimSettings", "sim.sim_process:run_sim"),
    "sim replay": Process("sim.settings:ReplaySettings", "sim.replay:replay", ends=True),
}


def run_process(name: str, config: Path | None, **more: Any) -> Any:
    """Run the process `name` until it ends or is asked to; what it answers.

    Raises Misuse for a bad configuration, RetryLater when a tool is asked to end before it is done.
    """
    before = sys.unraisablehook
    ending: SystemExit | RetryLater = SystemExit(0)
    if PROCESSES[name].ends:
        ending = RetryLater(
            f"`landfall {name}` was asked to end before it was done",
            hint="run it again: what a node has it takes no second time",
            code="asked_to_end",
        )

    def asked_to_end(*_: object) -> None:
        raise ending

    def got_through_nowhere(problem: UnraisableHookArgs) -> None:
        if problem.exc_value is ending:
            again = Timer(ASKED_AGAIN_S, os.kill, (os.getpid(), signal.SIGTERM))
            again.daemon = True
            again.start()
        else:
            before(problem)

    if PROCESSES[name].small:
        found("streams.memory_release:spare_memory")()
    signal.signal(signal.SIGTERM, asked_to_end)  # until the process has a gentler way of its own
    sys.unraisablehook = got_through_nowhere  # a finaliser, or a weak reference's callback, may be what it was asked in
    settings = settings_of(name, config)
    to_stderr(name)
    run = found(PROCESSES[name].run)
    build_struct_types()
    outcome = run(settings, **more)
    return asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome


def settings_of(name: str, config: Path | None) -> SettingsTable:
    """Return the settings of the process `name` from file and environment. Raises Misuse with every problem of theirs."""
    kind: type[SettingsTable] = found(PROCESSES[name].settings)
    return load(kind, config, others=settings_kinds)


def settings_kinds() -> Iterator[type[SettingsTable]]:
    """Yield the settings of every process whose packages are installed here."""
    for process in PROCESSES.values():
        with suppress(NotInstalled):
            yield found(process.settings)


def found(where: str) -> Any:
    """Return what `module:name` names. Raises NotInstalled where it needs a package that this machine does not have."""
    module, _, name = where.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as missing:
        raise NotInstalled(
            f"this machine has no {missing.name}, which {module} needs",
            hint="install the role that needs it, as `make setup FOR=hq` does",
            code="not_installed",
        ) from missing
