"""Goal: a machine that has the packages of one role alone runs that role's processes and commands."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from deploy.setup.setup_folders import lock_of

NODE_TOOLS = (
    "main",
    "log_command_group",
    "stream_commands",
    "sync_commands",
    "credential_commands",
    "certificate_commands",
    "key_commands",
)
NEEDED = {
    "edge": ("edge.ship", "cargo.report.loss_pdf", *(f"landfall.cli.{name}_commands" for name in ("ship", "report", "bayplan", "plan"))),
    "shore": ("shore.port", "shore.customer_node", "landfall.cli.port_commands", "landfall.cli.bayplan_commands"),
    "hq": (
        "hq.analytics.job",
        "hq.serving.projector",
        "hq.api.app",
        "hq.fanout.fanout_process",
        "landfall.storage.kafka.kafka_log",
        "shore.port",
    ),
    "pages": ("dashboards.pages_server", "dashboards.views.fleet_map"),
    "sim": ("sim.sim_process", "sim.replay"),
}
IMPORTER = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
for module in {modules!r}:
    importlib.import_module(module)
from landfall.cli.main import GROUPS, SINGLE, line_for
from landfall.process_table import PROCESSES, NotInstalled, found, settings_kinds
assert list(settings_kinds())
line_for()
for where in (*(group.where for group in (*GROUPS.values(), *SINGLE.values())), *(process.run for process in PROCESSES.values())):
    try:
        found(where)
    except NotInstalled as problem:
        assert "make setup" in problem.hint
"""


@pytest.mark.parametrize("role", NEEDED)
def test_a_role_needs_no_package_but_those_of_its_lock(role: str) -> None:
    locked = {plain(name) for name in re.findall(r"^([\w.-]+)==", lock_of(role).read_text(), re.MULTILINE)}
    absent = {
        module for module, packages in packages_distributions().items() if not any(plain(one) in {*locked, "landfall"} for one in packages)
    }
    assert len(absent) > 20
    modules = (*NEEDED[role], *(f"landfall.cli.{name}" for name in NODE_TOOLS))
    done = subprocess.run(
        [sys.executable, "-c", IMPORTER.format(absent=absent, modules=modules)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_role_has_the_versions_of_the_whole() -> None:
    whole = pinned(lock_of("run"))
    assert all(pinned(lock_of(role)).items() <= whole.items() for role in NEEDED)


def pinned(lock: Path) -> dict[str, str]:
    """The version of each package of the lock."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def plain(name: str) -> str:
    """The name of a package, normalised."""
    return re.sub(r"[-_.]+", "-", name).lower()
