"""Compose, whichever engine brings it, and what `docker-compose.yml` says of the services."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "landfall-look"
"""Name of the compose project: its volumes are no other fleet's."""
ENGINES = ("docker compose", "podman-compose")
_SERVICE = re.compile(r"^  ([a-z]+):\n((?:    .+\n)+)", re.MULTILINE)
_HEALTH = re.compile(r"healthcheck: \{test: \[CMD, ([^\]]+)\]")


class Unwell(Exception):
    """Something is not as it should be."""


class Compose:
    """Compose project of this clone, apart from every other."""

    def __init__(self, engine: str | None) -> None:
        """Choose the engine. Raises Unwell when there is none.

        `engine`: a command such as `podman-compose`; the first that is there when None.
        """
        found = engine or next((one for one in ENGINES if shutil.which(one.split()[0])), None)
        if found is None or shutil.which(found.split()[0]) is None:
            missing = f"{found.split()[0]} is not" if found else f"none of {', '.join(ENGINES)} is"
            raise Unwell(f"{missing} there: install one, or name yours with --engine")
        self._all = () if "podman" in found else ("--all",)
        """Option that lists ended containers too: podman-compose does so by default, and has no option for it."""
        self._command = (*found.split(), "--project-name", PROJECT, "--file", str(ROOT / "docker-compose.yml"))

    def show(self, *words: str) -> None:
        """Run it, with its output on the screen. Raises Unwell when it fails."""
        if subprocess.run((*self._command, *words), cwd=ROOT, check=False).returncode:
            raise Unwell(f"`{' '.join(words)}` failed: its words are above")

    def inside(self, service: str, *command: str, stdin: str = "") -> str:
        """Return what `command`, with `stdin` on its standard input, prints in the container of `service`. Raises Unwell when it fails."""
        done = self._asked("exec", "-T", service, *command, stdin=stdin)
        if done.returncode:
            raise Unwell(f"{service}: `{' '.join(command)[:80]}` ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def is_healthy(self, service: str) -> bool:
        """Return whether the health check of `service` passes now."""
        return self._asked("exec", "-T", service, *health_checks()[service]).returncode == 0

    def exit_codes(self) -> dict[str, int]:
        """Return the exit code of each container, by its service. One that runs has the code 0 too."""
        output = self._asked("ps", *self._all, "--format", "json").stdout.strip()
        containers = json.loads(output) if output.startswith("[") else [json.loads(line) for line in output.splitlines()]
        return {_service(container): int(container["ExitCode"]) for container in containers}

    def logs(self, service: str) -> str:
        """Return the end of the log of `service`."""
        done = self._asked("logs", "--tail", "40", service)
        return done.stdout + done.stderr

    def _asked(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run((*self._command, *words), cwd=ROOT, input=stdin, capture_output=True, text=True, check=False)


def services() -> Iterator[tuple[str, str]]:
    """Yield each service, and its text in `docker-compose.yml`."""
    text = (ROOT / "docker-compose.yml").read_text()
    return ((name, definition) for name, definition in _SERVICE.findall(text[text.index("\nservices:") :]) if "*process" in definition)


def health_checks() -> dict[str, Sequence[str]]:
    """Return the health check of each service that has one: a command for its container."""
    checks = ((name, _HEALTH.search(definition)) for name, definition in services())
    return {name: [word.strip(' "') for word in health[1].split(",")] for name, health in checks if health}


def _service(container: dict[str, object]) -> str:
    """Return the service of a container: Docker names it, podman leaves it in a label."""
    labels = container["Labels"]
    return str(labels["com.docker.compose.service"] if isinstance(labels, dict) else container["Service"])
